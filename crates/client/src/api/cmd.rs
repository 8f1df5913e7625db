//! A command by its name, for commands without a method of their own.
//!
//! It goes the same way as a method of that name: its row in the command table says where it may be sent, and whether it
//! waits. Any thread.

use crate::commands::ask::Ask;
use crate::error::Error;
use crate::reply::Reply;
use crate::resp::decode::FromReply;
use crate::resp::request::name::Name;
use crate::resp::request::{Request, ToArgs};

/// A command by its name, to which arguments are added.
///
/// ```
/// # #[cfg(feature = "embedded")] {
/// use sleeve::{Client, prelude::*};
///
/// let client = Client::connect("embedded://")?;
/// client.cmd("SET").arg(("user:1", "Ann")).send::<()>().wait()?;
/// let keys: Vec<String> = client.cmd("KEYS").arg("user:*").send().wait()?;
/// // A subcommand is the first argument.
/// let encoding: String = client.cmd("OBJECT").arg(("ENCODING", "user:1")).send().wait()?;
/// # }
/// # Ok::<(), sleeve::Error>(())
/// ```
///
/// The text that is given to `cmd` is one name, and each argument travels as one, whichever bytes it holds: no text that a
/// user has typed becomes a further command or argument. A name with a space or a line end in it is refused with
/// [`ErrorKind::Usage`](crate::ErrorKind::Usage), and nothing is sent.
pub struct Cmd<'a, A> {
    asker: &'a A,
    request: Request,
}

impl<'a, A: Ask> Cmd<'a, A> {
    pub(crate) fn new(asker: &'a A, name: &str) -> Self {
        let mut request = Request::empty();
        request.word(name);
        if name.is_empty() || name.contains(|c: char| c.is_ascii_whitespace()) {
            request.refuse(no_name(name));
        }
        Self { asker, request }
    }

    /// Adds all arguments that `value` stands for.
    pub fn arg(mut self, value: impl ToArgs) -> Self {
        self.request.arg(value);
        self
    }

    /// Sends the command (or adds it to the batch or transaction on which it was begun).
    pub fn send<T: FromReply>(self) -> Reply<T> {
        let mut request = self.request;
        let name = Name::find(&request.words());
        if let Some(error) = self.asker.refusal(name.row()) {
            request.refuse(error);
        }
        request.call(name);
        if name.may_wait() {
            self.asker.ask_waiting(move |out| *out = request)
        } else {
            self.asker.ask(move |out| *out = request)
        }
    }
}

/// Returns the error for a name that is more than one word. The text behind the first may be a secret, and is not repeated.
#[cold]
fn no_name(name: &str) -> Error {
    let first = name.split_ascii_whitespace().next().unwrap_or_default();
    let is_plain = first.len() <= 40
        && first.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-'));
    let shown = if is_plain && !first.is_empty() { first } else { "NAME" };
    Error::usage(format!(
        "a command's name is one word without a space: its subcommand and its arguments are added by arg(..), as in \
         cmd(\"{shown}\").arg(..)"
    ))
}
