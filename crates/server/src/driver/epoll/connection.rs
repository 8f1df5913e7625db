//! One connection of the driver `hybrid`: what it wants to be told, and what of its bytes waits. One thread at a time.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::epoll::{self, EventData, EventFlags};

use crate::driver::event::{Sending, Token};
use crate::driver::send_pieces::send_pieces;
use crate::request::output::Output;

/// One connection.
#[derive(Debug)]
pub struct Connection {
    /// Its socket.
    pub socket: OwnedFd,
    /// What has not left.
    pub waiting: Output,
    /// The kernel takes no more at present: it reports when it does.
    pub full: bool,
    /// Stands in the driver's list of those to which something was queued.
    pub queued: bool,
    /// Nothing is received until the session can go on.
    pub held: bool,
    /// What comes is received into room of its own.
    pub apart: bool,
    /// The stream's end may stand behind what is to be received so.
    pub ending: bool,
    /// Some of what it has said is aside.
    pub has_aside: bool,
    /// The last receive brought more than is received ahead.
    pub says_much: bool,
}

impl Connection {
    /// One of which nothing is known yet.
    pub fn new(socket: OwnedFd) -> Self {
        Self {
            socket,
            waiting: Output::default(),
            full: false,
            queued: false,
            held: false,
            apart: false,
            ending: false,
            has_aside: false,
            says_much: false,
        }
    }

    /// What the kernel is to report: of a peer that is held, while nothing waits for it, only that it has gone.
    pub fn interest(&self) -> EventFlags {
        let interest = match (self.held, self.waiting.is_empty()) {
            (false, true) => EventFlags::IN | EventFlags::RDHUP,
            (false, false) => EventFlags::IN | EventFlags::RDHUP | EventFlags::OUT,
            (true, true) => EventFlags::RDHUP,
            (true, false) => EventFlags::OUT,
        };
        interest | EventFlags::ET
    }
}

/// Has the kernel report what a connection is interested in, also what it has reported before.
pub fn modify(poll: &OwnedFd, token: Token, connection: &Connection) -> rustix::io::Result<()> {
    epoll::modify(poll, &connection.socket, EventData::new_u64(token as u64), connection.interest())
}

/// Keeps what was received of a connection, if anything was, until it can be told.
pub fn put_aside(aside: &mut Vec<(Token, Vec<u8>)>, token: Token, connection: &mut Connection, bytes: &[u8]) {
    if !bytes.is_empty() {
        aside.push((token, bytes.to_vec()));
        connection.has_aside = true;
    }
}

/// Sends what is in `output`, after what already waits; what the kernel does not take waits too.
#[inline]
pub fn send_or_keep(poll: &OwnedFd, token: Token, connection: &mut Connection, output: &mut Output) -> Sending {
    if !connection.waiting.is_empty() {
        output.move_to(&mut connection.waiting);
        return Sending::Waiting(connection.waiting.len());
    }
    match send_pieces(&connection.socket, output) {
        Sending::Waiting(count) => {
            output.move_to(&mut connection.waiting);
            connection.full = true;
            modify(poll, token, connection).map_or(Sending::Broken, |()| Sending::Waiting(count))
        }
        end => end,
    }
}

/// Where and what can be sent at once of an output.
pub fn sendable<'a>(
    connections: &'a [Option<Connection>],
    token: Token,
    output: &'a Output,
) -> Option<(BorrowedFd<'a>, &'a [u8])> {
    let connection = connections.get(token)?.as_ref().filter(|connection| connection.waiting.is_empty())?;
    let bytes = output.plain().filter(|bytes| !bytes.is_empty())?;
    Some((connection.socket.as_fd(), bytes))
}

/// Where and what can be sent at once of that which was queued.
pub fn queued_bytes(connections: &[Option<Connection>], token: Token) -> Option<(BorrowedFd<'_>, &[u8])> {
    let connection = connections.get(token)?.as_ref().filter(|connection| !connection.full)?;
    let bytes = connection.waiting.plain().filter(|bytes| !bytes.is_empty())?;
    Some((connection.socket.as_fd(), bytes))
}

/// Sends what waits.
pub fn flush(connection: &mut Connection) -> Sending {
    send_pieces(&connection.socket, &mut connection.waiting)
}
