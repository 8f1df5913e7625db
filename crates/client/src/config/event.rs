//! The events of a client's connections, for the event hook: made, refused, lost, and replies that took long.
//!
//! Pure data; any thread.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::error::Error;

/// An event of a connection: see [`Config::on_event`](crate::Config::on_event).
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Event {
    /// A connection was made, and its greeting answered.
    Connected {
        /// The server, as errors name it: `host:port`, or a path.
        endpoint: String,
    },
    /// An attempt to connect has failed. The client tries again, unless the error says that it does not.
    Refused {
        /// The server, as errors name it: `host:port`, or a path.
        endpoint: String,
        /// The reason.
        error: Error,
    },
    /// A connection was lost.
    Lost {
        /// The server, as errors name it: `host:port`, or a path.
        endpoint: String,
        /// The reason, in words.
        why: String,
        /// Commands that had left and get no answer.
        unanswered: usize,
    },
    /// A reply took longer than [`Config::slow_after`](crate::Config::slow_after) says. Of replies that arrived together only
    /// the first is reported.
    Slow {
        /// The server, as errors name it.
        endpoint: String,
        /// The command, by its name: its arguments may be secrets.
        command: String,
        /// The time that the command waited before it left, to a tick of the system's coarse clock (1 to 10 ms); zero for a
        /// call with a deadline of its own.
        queued: Duration,
        /// The time from its departure to the arrival of its reply.
        travelled: Duration,
        /// The cause, as far as this side of the connection can see.
        cause: SlowCause,
    },
}

impl fmt::Display for Event {
    /// Writes the event as one line of a server log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connected { endpoint } => write!(f, "connected to {endpoint}"),
            Self::Refused { endpoint, error } => write!(f, "no connection to {endpoint}: {error}"),
            Self::Lost { endpoint, why, unanswered } => {
                write!(f, "lost the connection to {endpoint}: {why}; {unanswered} commands get no answer")
            }
            Self::Slow { endpoint, command, queued, travelled, cause } => write!(
                f,
                "{command} at {endpoint} took {:.1?}, of which it waited {queued:.1?} to be sent: {cause}",
                *queued + *travelled
            ),
        }
    }
}

/// The cause of a slow reply, as far as a client can see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SlowCause {
    /// The command had not left for most of the time: there was no connection, or the bytes ahead of it had to leave first.
    Queue,
    /// The connection took no more bytes for most of the time: the network is saturated, or the server does not read.
    Link,
    /// Many bytes arrived in that time: large replies were ahead of it, or it is one.
    Bytes {
        /// The number of bytes.
        received: u64,
    },
    /// The server answered others of this connection first.
    Server {
        /// The number of replies.
        replies: u64,
    },
    /// The server sent nothing in that time: it was busy with this command, with other clients, or stopped.
    Silence,
}

impl fmt::Display for SlowCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Queue => f.write_str("it waited to be sent for most of that"),
            Self::Link => f.write_str("the connection took no more bytes for most of that"),
            Self::Bytes { received } => write!(f, "{received} bytes of replies came meanwhile"),
            Self::Server { replies } => write!(f, "{replies} other replies came meanwhile"),
            Self::Silence => f.write_str("the server sent nothing meanwhile"),
        }
    }
}

/// The hook that is called with the events of connections.
pub type EventHook = Arc<dyn Fn(&Event) + Send + Sync>;
