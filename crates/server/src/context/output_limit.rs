//! How much a client may be owed: a reply that passes the limit of its client's class is not built to its end.
//!
//! What writes many elements stops when its writer is full. What was owed until then is forgotten, and the client closed
//! by whoever owns its connection; a transaction or a script runs to its end all the same, because its effects are not
//! the client's alone.

use sleeve_wire::reply::Writer;

use super::Cx;
use super::session_state::Replies;
use crate::request::output::Mark;

impl Cx<'_> {
    /// Lets `write` reply while it looks at what the context holds, which the buffer is taken out of meanwhile.
    #[inline]
    pub fn reply_apart<R>(&mut self, write: impl FnOnce(&mut Self, &mut Writer<'_>) -> R) -> R {
        let (mut bytes, len_max, protocol) =
            (std::mem::take(&mut self.out.bytes), self.out.bytes_max(), self.state.protocol);
        let result = write(self, &mut Writer::bounded(&mut bytes, protocol, len_max));
        self.out.bytes = bytes;
        result
    }

    /// Forgets what a command has written since `mark`, which is too much: the client is to be closed.
    #[cold]
    pub(crate) fn cut_reply(&mut self, mark: Mark) {
        match self.state.replies {
            // Who is sent nothing is owed nothing.
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
