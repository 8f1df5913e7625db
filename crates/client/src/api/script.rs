//! Lua scripts by digest: the text travels only when the server does not have it.
//!
//! A [`Script`] is sent by the SHA-1 digest of its text (EVALSHA). A server that does not know it says NOSCRIPT and has done
//! nothing; then the same call goes out again with the text (EVAL), which makes the script known to the server for all that
//! follow. So a restarted server, a SCRIPT FLUSH or a failover costs one more round trip and nothing else. The caller that
//! takes the reply makes the second call, or the callback thread if no caller takes it. Any thread.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use sha1::{Digest as _, Sha1};

use super::handles::{Client, Db};
use crate::api::origin::Origin;
use crate::commands::ask::Ask;
use crate::error::{Effect, Error};
use crate::reply::Reply;
use crate::resp::counted::Counted;
use crate::resp::decode::FromReply;
use crate::resp::request::{Request, ToArgs};
use crate::sys::{elapsed, now};

/// A Lua script that servers know by its digest.
///
/// Cheap to clone. `keys` are the keys that it uses (`KEYS` in Lua), `args` all its other arguments (`ARGV`).
///
/// ```
/// # #[cfg(feature = "embedded")] {
/// use sleeve::{Client, Script};
///
/// let client = Client::connect("embedded://")?;
/// let take = Script::new(
///     "local left = redis.call('DECRBY', KEYS[1], ARGV[1])
///      if left < 0 then redis.call('INCRBY', KEYS[1], ARGV[1]) return -1 end
///      return left",
/// );
/// let left: i64 = take.run(&client, "stock:42", 3).wait()?;
/// # }
/// # Ok::<(), sleeve::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Script {
    text: Arc<str>,
    digest: Arc<str>,
    by_digest: &'static str,
    by_text: &'static str,
}

impl Script {
    /// Creates a script with this text.
    pub fn new(text: impl Into<Arc<str>>) -> Self {
        Self::named(text.into(), "EVALSHA", "EVAL")
    }

    /// Creates a script that writes nothing: the server refuses its writes, and runs it on read-only replicas too.
    pub fn read_only(text: impl Into<Arc<str>>) -> Self {
        Self::named(text.into(), "EVALSHA_RO", "EVAL_RO")
    }

    fn named(text: Arc<str>, by_digest: &'static str, by_text: &'static str) -> Self {
        let digest: String = Sha1::digest(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect();
        Self { text, digest: digest.into(), by_digest, by_text }
    }

    /// Returns the SHA-1 digest of the text: 40 hexadecimal digits in lower case.
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// Returns the text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Sends the script by its digest, and then by its text if the server does not know it.
    pub fn run<T: FromReply + 'static>(
        &self,
        place: &impl Runs,
        keys: impl ToArgs,
        args: impl ToArgs,
    ) -> ScriptReply<T> {
        let mut words = Request::empty();
        words.arg(Counted(&keys)).arg(&args);
        let reply = place.ask(|request| {
            request.begin_with(self.by_digest).arg(&*self.digest).arg(Counted(&keys)).arg(&args);
        });
        let by_text = ByText { origin: place.origin(), database: place.database(), script: self.clone(), words };
        ScriptReply { step: Step::Digest(reply, Box::new(by_text)) }
    }

    /// Sends the script by its text, on any handle: for a batch, a transaction or a lease, on which it cannot be sent again
    /// if the server does not know the digest.
    pub fn run_text<T: FromReply>(&self, place: &impl Ask, keys: impl ToArgs, args: impl ToArgs) -> Reply<T> {
        place.ask(|request| {
            request.begin_with(self.by_text).arg(&*self.text).arg(Counted(&keys)).arg(&args);
        })
    }
}

/// A handle on which a script can be sent twice: a [`Client`] or a [`Db`].
pub trait Runs: Ask {
    #[doc(hidden)]
    #[expect(private_interfaces, reason = "only this crate's handles implement it")]
    fn origin(&self) -> Arc<Origin>;

    #[doc(hidden)]
    fn database(&self) -> u32;
}

macro_rules! runs {
    ($($handle:ident)+) => { $(
        impl Runs for $handle {
            #[expect(private_interfaces, reason = "only this crate's handles implement it")]
            fn origin(&self) -> Arc<Origin> {
                self.origin.clone()
            }

            fn database(&self) -> u32 {
                self.database
            }
        }
    )+ };
}

runs!(Client Db);

/// The data for sending a script once more, by its text.
struct ByText {
    origin: Arc<Origin>,
    database: u32,
    script: Script,
    /// The number of keys, the keys, the other arguments.
    words: Request,
}

impl ByText {
    fn send<T: FromReply>(self) -> Reply<T> {
        self.origin.transport.ask(self.database, |request| {
            request.begin_with(self.script.by_text).arg(&*self.script.text);
            for word in self.words.words() {
                request.bytes(word);
            }
        })
    }
}

/// Returns whether the server does not know the script. A script that runs may return an error of this code as well.
fn is_unknown<T>(result: &Result<T, Error>) -> bool {
    result.as_ref().is_err_and(|error| error.code() == Some("NOSCRIPT") && error.effect() == Effect::Refused)
}

/// The answer to a script that was sent: a [`Reply`] that sends the text if the server did not know the digest.
///
/// It is awaited, waited for, given a callback, forgotten or dropped as every reply is.
#[must_use = "await it, wait for it, or forget it to have errors reported"]
pub struct ScriptReply<T: FromReply + 'static> {
    step: Step<T>,
}

enum Step<T> {
    Digest(Reply<T>, Box<ByText>),
    Text(Reply<T>),
    Taken,
}

impl<T: FromReply + 'static> ScriptReply<T> {
    fn take(&mut self) -> Step<T> {
        std::mem::replace(&mut self.step, Step::Taken)
    }

    /// Blocks this thread until the answer is there.
    ///
    /// # Errors
    /// The server's error, or the reason why there is no answer; see [`ErrorKind`](crate::ErrorKind).
    pub fn wait(mut self) -> Result<T, Error> {
        match self.take() {
            Step::Digest(reply, by_text) => match reply.wait() {
                result if is_unknown(&result) => by_text.send().wait(),
                result => result,
            },
            Step::Text(reply) => reply.wait(),
            Step::Taken => Err(already_taken()),
        }
    }

    /// Blocks this thread until the answer is there, but for no longer than this.
    ///
    /// # Errors
    /// As for [`wait`](Self::wait), and [`ErrorKind::Timeout`](crate::ErrorKind::Timeout) at the timeout; the script
    /// may still be executed.
    pub fn wait_for(mut self, timeout: Duration) -> Result<T, Error> {
        let began = now();
        match self.take() {
            Step::Digest(reply, by_text) => match reply.wait_for(timeout) {
                result if is_unknown(&result) => by_text.send().wait_for(timeout.saturating_sub(elapsed(began))),
                result => result,
            },
            Step::Text(reply) => reply.wait_for(timeout),
            Step::Taken => Err(already_taken()),
        }
    }

    /// Calls back with the result, on the process's callback thread; see [`Reply::then`].
    pub fn then(mut self, callback: impl FnOnce(Result<T, Error>) + Send + 'static) {
        match self.take() {
            Step::Digest(reply, by_text) => reply
                .then(move |result| if is_unknown(&result) { by_text.send().then(callback) } else { callback(result) }),
            Step::Text(reply) => reply.then(callback),
            Step::Taken => callback(Err(already_taken())),
        }
    }

    /// Lets the script run without a waiting caller. If it fails, the client's error hook is called with the error.
    pub fn forget(mut self) {
        match self.take() {
            Step::Digest(reply, by_text) => reply.then(move |result| {
                if is_unknown(&result) {
                    return by_text.send::<T>().forget();
                }
                if let (Err(error), Some(hook)) = (result, by_text.origin.transport.error_hook()) {
                    hook(&error);
                }
            }),
            Step::Text(reply) => reply.forget(),
            Step::Taken => {}
        }
    }
}

impl<T: FromReply + 'static> Drop for ScriptReply<T> {
    /// Drops the reply, which does not take back the request: the script is still executed.
    fn drop(&mut self) {
        if let Step::Digest(reply, by_text) = self.take() {
            reply.then(move |result| {
                if is_unknown(&result) {
                    drop(by_text.send::<T>());
                }
            });
        }
    }
}

impl<T: FromReply + 'static> Future for ScriptReply<T> {
    type Output = Result<T, Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match self.take() {
            Step::Digest(mut reply, by_text) => match Pin::new(&mut reply).poll(context) {
                Poll::Ready(result) if is_unknown(&result) => {
                    self.step = Step::Text(by_text.send());
                    self.poll(context)
                }
                Poll::Ready(result) => Poll::Ready(result),
                Poll::Pending => {
                    self.step = Step::Digest(reply, by_text);
                    Poll::Pending
                }
            },
            Step::Text(mut reply) => {
                let polled = Pin::new(&mut reply).poll(context);
                self.step = Step::Text(reply);
                polled
            }
            Step::Taken => Poll::Ready(Err(already_taken())),
        }
    }
}

impl<T: FromReply + 'static> std::fmt::Debug for ScriptReply<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ScriptReply").finish_non_exhaustive()
    }
}

fn already_taken() -> Error {
    Error::usage("this reply was awaited to its end already")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_is_named_by_the_digest_of_its_text() {
        let script = Script::new("return 1");
        assert_eq!(script.digest(), "e0e1f9fabfc9d4800c877a703b823ac0578ff8db");
        assert_eq!(script.text(), "return 1");
    }
}
