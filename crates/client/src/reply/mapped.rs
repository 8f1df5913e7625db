//! A reply with a function that converts its answer.
//!
//! The function runs on the thread that takes the answer, as decoding does, and not where bytes arrive. It is no combinator
//! for all futures: a second command behind the reply belongs into the code that awaits it.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use crate::error::Error;
use crate::reply::{Reply, already_taken};
use crate::values::decode::FromReply;

/// A [`Reply`] and the function that converts its answer: see [`Reply::map`] and [`Reply::and_then`].
///
/// It is awaited, waited for, given a callback, forgotten or dropped as the reply itself would be.
#[must_use = "await it, wait for it, or forget it to have errors reported"]
pub struct Mapped<T, F> {
    reply: Reply<T>,
    /// None once it has run.
    make: Option<F>,
}

impl<T: FromReply> Reply<T> {
    /// Makes something of the answer, when it is taken. An error passes by.
    ///
    /// ```
    /// # #[cfg(feature = "embedded")] {
    /// use sleeve::{Client, prelude::*};
    ///
    /// let client = Client::embedded();
    /// let length = client.get::<Option<String>>("name").map(|name| name.map_or(0, |name| name.len()));
    /// assert_eq!(length.wait()?, 0); // or length.await
    /// # }
    /// # Ok::<(), sleeve::Error>(())
    /// ```
    pub fn map<U>(self, make: impl FnOnce(T) -> U) -> Mapped<T, impl FnOnce(T) -> Result<U, Error>> {
        self.and_then(move |value| Ok(make(value)))
    }

    /// Makes something of the answer, when it is taken, or says why it cannot. An error of the command passes by.
    ///
    /// ```
    /// # #[cfg(feature = "embedded")] {
    /// use sleeve::{Client, Error, prelude::*};
    ///
    /// let client = Client::embedded();
    /// client.set("port", 70_000).wait()?;
    /// let port = client.get::<i64>("port").and_then(|port| {
    ///     u16::try_from(port).map_err(|_| Error::conversion(format!("{port} is no port")))
    /// });
    /// assert_eq!(port.wait().unwrap_err().message(), "70000 is no port");
    /// # }
    /// # Ok::<(), sleeve::Error>(())
    /// ```
    pub fn and_then<U, F: FnOnce(T) -> Result<U, Error>>(self, make: F) -> Mapped<T, F> {
        Mapped { reply: self, make: Some(make) }
    }
}

impl<T: FromReply, U, F: FnOnce(T) -> Result<U, Error>> Mapped<T, F> {
    /// Makes something else of it: see [`Reply::map`].
    pub fn map<V>(self, make: impl FnOnce(U) -> V) -> Mapped<T, impl FnOnce(T) -> Result<V, Error>> {
        self.and_then(move |value| Ok(make(value)))
    }

    /// Makes something else of it, or says why it cannot: see [`Reply::and_then`].
    pub fn and_then<V>(
        self,
        next: impl FnOnce(U) -> Result<V, Error>,
    ) -> Mapped<T, impl FnOnce(T) -> Result<V, Error>> {
        let first = self.make;
        self.reply.and_then(move |value| made(first, value).and_then(next))
    }

    /// Whether the answer is there, so that waiting for it would not wait.
    pub fn is_ready(&self) -> bool {
        self.reply.is_ready()
    }

    /// Blocks this thread until the answer is there: see [`Reply::wait`].
    ///
    /// # Errors
    /// As for [`Reply::wait`], and the function's own.
    pub fn wait(self) -> Result<U, Error> {
        self.reply.wait().and_then(|value| made(self.make, value))
    }

    /// Blocks this thread until the answer is there, but for no longer than this: see [`Reply::wait_for`].
    ///
    /// # Errors
    /// As for [`Reply::wait_for`], and the function's own.
    pub fn wait_for(self, timeout: Duration) -> Result<U, Error> {
        self.reply.wait_for(timeout).and_then(|value| made(self.make, value))
    }

    /// Calls back with the result, on the process's callback thread, where the function runs too: see [`Reply::then`].
    pub fn then(self, callback: impl FnOnce(Result<U, Error>) + Send + 'static)
    where
        T: 'static,
        F: Send + 'static,
    {
        let make = self.make;
        self.reply.then(move |answer| callback(answer.and_then(|value| made(make, value))));
    }

    /// Lets the command happen without anyone waiting: see [`Reply::forget`]. The function does not run.
    pub fn forget(self) {
        self.reply.forget();
    }
}

fn made<T, U>(make: Option<impl FnOnce(T) -> Result<U, Error>>, value: T) -> Result<U, Error> {
    make.map_or_else(|| Err(already_taken()), |make| make(value))
}

// Nothing in it is ever pinned: the function is moved out to be called.
impl<T, F> Unpin for Mapped<T, F> {}

impl<T: FromReply, U, F: FnOnce(T) -> Result<U, Error>> Future for Mapped<T, F> {
    type Output = Result<U, Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Poll::Ready(answer) = Pin::new(&mut self.reply).poll(context) else { return Poll::Pending };
        let make = self.make.take();
        Poll::Ready(answer.and_then(|value| made(make, value)))
    }
}

impl<T, F> std::fmt::Debug for Mapped<T, F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Mapped").finish_non_exhaustive()
    }
}
