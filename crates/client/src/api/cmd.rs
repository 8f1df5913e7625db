//! A command by its name, for those that have no method of their own.
//!
//! It goes the same way as a method of that name: which row of the command table it has says where it may be sent, and whether
//! it waits. Any thread.

use crate::commands::ask::Ask;
use crate::reply::Reply;
use crate::request::name::Name;
use crate::request::{Request, ToArgs};
use crate::values::decode::FromReply;

/// A command in the making.
///
/// ```
/// # #[cfg(feature = "embedded")] {
/// use sleeve::{Client, prelude::*};
///
/// let client = Client::connect("embedded://")?;
/// client.cmd("SET user:1").arg("Ann").send::<()>().wait()?;
/// let keys: Vec<String> = client.cmd("KEYS").arg("user:*").send().wait()?;
/// let encoding: String = client.cmd("OBJECT ENCODING").arg("user:1").send().wait()?;
/// # }
/// # Ok::<(), sleeve::Error>(())
/// ```
pub struct Cmd<'a, A> {
    asker: &'a A,
    request: Request,
}

impl<'a, A: Ask> Cmd<'a, A> {
    pub(crate) fn new(asker: &'a A, name: &str) -> Self {
        let mut request = Request::empty();
        // A subcommand may stand in the name: no command's name holds a space.
        for word in name.split(' ').filter(|word| !word.is_empty()) {
            request.word(word);
        }
        Self { asker, request }
    }

    /// Adds whatever arguments `value` stands for.
    pub fn arg(mut self, value: impl ToArgs) -> Self {
        self.request.arg(value);
        self
    }

    /// Sends it (or adds it to the batch or transaction that it was begun on).
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
