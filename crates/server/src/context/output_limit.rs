//! The output limit of a client: a reply that passes the limit of its client's class is not built to its end.
//!
//! A command that writes many elements stops when its writer is full. The bytes that were owed until then are dropped, and
//! the owner of the connection closes the client. A transaction or a script runs to its end all the same, because its effects
//! are not the client's alone.

use sleeve_wire::reply::Writer;

use super::Cx;
use super::session_state::Replies;
use crate::request::output::Mark;

impl Cx<'_> {
    /// Lets `write` reply while it looks at the context. In that time the buffer is taken out of the context.
    #[inline]
    pub fn reply_apart<R>(&mut self, write: impl FnOnce(&mut Self, &mut Writer<'_>) -> R) -> R {
        let (mut bytes, len_max, protocol) =
            (std::mem::take(&mut self.out.bytes), self.out.bytes_max(), self.state.protocol);
        let result = write(self, &mut Writer::bounded(&mut bytes, protocol, len_max));
        self.out.bytes = bytes;
        result
    }

    /// Drops the bytes that a command has written since `mark`, which are too many: the client is to be closed.
    #[cold]
    pub(crate) fn cut_reply(&mut self, mark: Mark) {
        match self.state.replies {
            // A client that is sent nothing is owed nothing.
            Replies::Off | Replies::Skip | Replies::Stream => self.out.rewind(mark),
            Replies::On | Replies::SkipNext => self.cut_replies(),
        }
    }

    /// Forgets all that the client is owed, which is too much: it is to be closed.
    #[cold]
    pub(crate) fn cut_replies(&mut self) {
        self.out.cut();
        self.state.closing = true;
    }
}
