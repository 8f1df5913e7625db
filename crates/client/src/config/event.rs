//! What a client tells of its connections, to whoever wants to know: made, refused, lost, and replies that took long.
//!
//! Pure data; any thread.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::error::Error;

/// What has happened to a connection: see [`Config::on_event`](crate::Config::on_event).
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Event {
    /// A connection was made, and its greeting answered.
    Connected {
        /// Where to, as errors name it: `host:port`, or a path.
        endpoint: String,
    },
    /// An attempt to connect has failed. There will be another one, unless the error says why not.
    Refused {
        /// Where to, as errors name it: `host:port`, or a path.
        endpoint: String,
        /// Why.
        error: Error,
    },
    /// A connection was lost.
    Lost {
        /// Where to, as errors name it: `host:port`, or a path.
        endpoint: String,
        /// Why, in words.
        why: String,
        /// Commands that had left and get no answer.
        unanswered: usize,
    },
    /// A reply took longer than [`Config::slow_after`](crate::Config::slow_after) says. Of replies that came together only the
    /// first is told of.
    Slow {
        /// From where, as errors name it.
        endpoint: String,
        /// The command, by its name: its arguments may be secrets.
        command: String,
        /// How long it waited before it left, to a tick of the system's coarse clock (1 to 10 ms); zero for a call with a
        /// deadline of its own.
        queued: Duration,
        /// From when it left to when its reply had come.
        travelled: Duration,
        /// Why, as far as this side of the connection can see.
        cause: SlowCause,
    },
}

impl fmt::Display for Event {
    /// As a line of a log has it.
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

/// Why a reply took long, as far as a client can see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SlowCause {
    /// For most of the time the command had not left: there was no connection, or what was ahead of it had to leave first.
    Queue,
    /// For most of the time the connection took no more bytes: the network is saturated, or the server does not read.
    Link,
    /// Many bytes came meanwhile: large replies were ahead of it, or it is one.
    Bytes {
        /// How many.
        received: u64,
    },
    /// The server answered others of this connection first.
    Server {
        /// How many.
        replies: u64,
    },
    /// Nothing came meanwhile: the server was busy with this command, with other clients, or stopped.
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

/// What is called with what happens to connections.
pub type EventHook = Arc<dyn Fn(&Event) + Send + Sync>;
