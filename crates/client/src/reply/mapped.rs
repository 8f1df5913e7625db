//! A reply with a function that converts its answer.
//!
//! The function runs on the thread that takes the answer, as decoding does, and not where bytes arrive. It is not a
//! combinator for all futures: a second command that depends on the reply belongs into the code that awaits the reply.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use crate::error::Error;
use crate::reply::{Reply, already_taken};
use crate::resp::decode::FromReply;

/// A [`Reply`] and the function that converts its answer: see [`Reply::map`] and [`Reply::and_then`].
///
/// It is awaited, waited for, given a callback, forgotten or dropped as the reply itself would be.
#[must_use = "await it, wait for it, or forget it to have errors reported"]
pub struct Mapped<T, F> {
    reply: Reply<T>,
    /// The function; none once it has run.
    make: Option<F>,
}

impl<T: FromReply> Reply<T> {
    /// Converts the answer with this function, when it is taken. An error is passed on.
    pub fn map<U>(self, make: impl FnOnce(T) -> U) -> Mapped<T, impl FnOnce(T) -> Result<U, Error>> {
        self.and_then(move |value| Ok(make(value)))
    }

    /// Converts the answer with this function, which may fail, when it is taken. An error of the command is passed on.
    pub fn and_then<U, F: FnOnce(T) -> Result<U, Error>>(self, make: F) -> Mapped<T, F> {
        Mapped { reply: self, make: Some(make) }
    }
}

impl<T: FromReply, U, F: FnOnce(T) -> Result<U, Error>> Mapped<T, F> {
    /// Converts the value further: see [`Reply::map`].
    pub fn map<V>(self, make: impl FnOnce(U) -> V) -> Mapped<T, impl FnOnce(T) -> Result<V, Error>> {
        self.and_then(move |value| Ok(make(value)))
    }

    /// Converts the value further with a function that may fail: see [`Reply::and_then`].
    pub fn and_then<V>(
        self,
        next: impl FnOnce(U) -> Result<V, Error>,
    ) -> Mapped<T, impl FnOnce(T) -> Result<V, Error>> {
        let first = self.make;
        self.reply.and_then(move |value| made(first, value).and_then(next))
    }

    /// Returns whether the answer has arrived, so that waiting for it would not block.
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

    /// Lets the command happen without a waiting caller: see [`Reply::forget`]. The function does not run.
    pub fn forget(self) {
        self.reply.forget();
    }
}

fn made<T, U>(make: Option<impl FnOnce(T) -> Result<U, Error>>, value: T) -> Result<U, Error> {
    make.map_or_else(|| Err(already_taken()), |make| make(value))
}

// Nothing in it is ever pinned, because the function is moved out to be called.
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
