//! One connection of the driver `epoll`: the events that it is interested in, and its unsent bytes. One thread at a time.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::epoll::{self, EventData, EventFlags};

use crate::net::event::{Sending, Token};
use crate::net::send_pieces::send_pieces;
use crate::request::output::Output;

/// A connection of the driver `epoll`.
#[derive(Debug)]
pub struct EpollConnection {
    /// The socket of the connection.
    pub socket: OwnedFd,
    /// The unsent bytes.
    pub waiting: Output,
    /// The kernel takes no more bytes at present, and reports when it does.
    pub full: bool,
    /// The connection is in the driver's list of those for which bytes were queued.
    pub queued: bool,
    /// Receiving is paused until the session can go on.
    pub held: bool,
    /// Bytes are received into the session's own buffer ([`super::Epoll::receive_into`]).
    pub apart: bool,
    /// The stream's end may follow the bytes that are received in this way.
    pub ending: bool,
    /// Some received bytes of the connection are put aside.
    pub has_aside: bool,
    /// The last receive brought more bytes than are received ahead.
    pub says_much: bool,
}

impl EpollConnection {
    /// Makes a connection in its initial state.
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

    /// Returns the events that the kernel has to report: for a held connection without unsent bytes, only that the client has
    /// disconnected.
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

/// Asks the kernel to report the events in which a connection is interested, even those that it has reported before.
pub fn modify(poll: &OwnedFd, token: Token, connection: &EpollConnection) -> rustix::io::Result<()> {
    epoll::modify(poll, &connection.socket, EventData::new_u64(token as u64), connection.interest())
}

/// Keeps the received bytes of a connection, if there are any, until they can be reported.
pub fn put_aside(aside: &mut Vec<(Token, Vec<u8>)>, token: Token, connection: &mut EpollConnection, bytes: &[u8]) {
    if !bytes.is_empty() {
        aside.push((token, bytes.to_vec()));
        connection.has_aside = true;
    }
}

/// Sends the bytes of `output`, after those that already wait; bytes that the kernel does not take wait too.
pub fn send_or_keep(poll: &OwnedFd, token: Token, connection: &mut EpollConnection, output: &mut Output) -> Sending {
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

/// Returns the socket and the bytes of an output that can be sent at once.
pub fn sendable<'a>(
    connections: &'a [Option<EpollConnection>],
    token: Token,
    output: &'a Output,
) -> Option<(BorrowedFd<'a>, &'a [u8])> {
    let connection = connections.get(token)?.as_ref().filter(|connection| connection.waiting.is_empty())?;
    let bytes = output.plain().filter(|bytes| !bytes.is_empty())?;
    Some((connection.socket.as_fd(), bytes))
}

/// Returns the socket and the queued bytes that can be sent at once.
pub fn queued_bytes(connections: &[Option<EpollConnection>], token: Token) -> Option<(BorrowedFd<'_>, &[u8])> {
    let connection = connections.get(token)?.as_ref().filter(|connection| !connection.full)?;
    let bytes = connection.waiting.plain().filter(|bytes| !bytes.is_empty())?;
    Some((connection.socket.as_fd(), bytes))
}

/// Sends the unsent bytes.
pub fn flush(connection: &mut EpollConnection) -> Sending {
    send_pieces(&connection.socket, &mut connection.waiting)
}
