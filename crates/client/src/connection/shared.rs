//! What a link has under its lock: the pipe, the socket, and who is to be woken.
//!
//! Pure data; whoever has the lock has it.

use std::sync::Arc;

use crate::connect::socket::Socket;
use crate::error::Error;
use crate::pipe::Pipe;
use crate::pipe::timeout::Phase;

/// See the file's head.
pub(crate) struct Shared {
    pub(crate) pipe: Pipe,
    pub(crate) socket: Option<Arc<Socket>>,
    /// The socket takes no more at the moment; the thread waits for it.
    pub(crate) blocked: bool,
    /// The thread sleeps, or is about to, and must be woken for gathered requests.
    pub(crate) asleep: bool,
    /// The thread sleeps without an end, so it must also be woken to watch over a command timeout.
    pub(crate) unwatched: bool,
    /// No handle is left, or the client was closed: finish what is in the queue, then end.
    pub(crate) closing: bool,
    /// The thread has ended: nothing can be sent any more.
    pub(crate) ended: bool,
    /// Whether the first attempt to connect is over, and how it ended.
    pub(crate) first: Option<Result<(), Error>>,
    /// Why there is no connection, as far as an attempt has told.
    pub(crate) trouble: Option<String>,
    /// Callers that wait for room in the queue.
    pub(crate) waiting_for_room: usize,
    /// The socket is left to a caller that is alone here and reads for itself; see `lone`.
    pub(crate) lone: bool,
    /// Such a caller is reading.
    pub(crate) attended: bool,
    /// How often a thread has waited for a reply.
    pub(crate) waits: u32,
}

impl Shared {
    /// What commands wait for that are neither answered nor failed, as far as that is the same for all.
    pub(crate) fn phase(&self) -> Phase {
        match self.pipe.gathered() {
            _ if !self.pipe.is_connected() => Phase::Connecting,
            0 => Phase::Answering,
            _ => Phase::Travelling,
        }
    }
}
