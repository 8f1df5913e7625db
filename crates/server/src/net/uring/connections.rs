//! The connections of the driver `uring`, by token: the operations that each has under way, and those that it lacks.
//!
//! This module decides which operations a connection needs ([`UringConnection::ask`]); the driver decides when. Belongs to
//! one thread.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::Arc;

use rustix::io::Errno;

use super::ring::{Ring, RingOperation};
use crate::net::event::{Sending, Token};
use crate::net::held_input::HeldInput;
use crate::net::send_pieces::send_pieces;
use crate::net::spare_outputs::SpareOutputs;
use crate::request::output::Output;

/// A connection of the driver `uring`.
#[derive(Debug)]
pub struct UringConnection {
    /// The socket of the connection.
    pub socket: OwnedFd,
    /// The unsent bytes.
    pub waiting: Output,
    /// The client takes no more bytes at present: the kernel reports when it does.
    pub is_full: bool,
    /// The connection is in the driver's list of those for which bytes were queued.
    pub queued: bool,
    /// Receiving is paused until the session can go on.
    pub held: bool,
    /// Bytes that arrived while the connection was held, or beyond the amount that the worker takes in a wake-up.
    pub aside: HeldInput,
    /// The client has disconnected while the connection was held.
    pub has_ended: bool,
    /// The last wake-up in which the worker got received bytes or the end of the connection.
    pub told_in: u64,
    /// The number of sent bytes of a send that did not send all.
    sent: Option<usize>,
    /// The connection is in the list of those for which operations may have to be started.
    is_noted: bool,
    receiving: Receiving,
    awaits_room: bool,
    awaits_end: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Receiving {
    No,
    Yes,
    Ending,
}

/// The connections, by token.
#[derive(Debug, Default)]
pub struct UringConnections {
    slots: Vec<Slot>,
    free: Vec<Token>,
    /// The tokens of closed connections without operations under way.
    closed: Vec<Token>,
    changed: Vec<Token>,
    /// The operations of closed connections that have to be cancelled.
    cancelled: Vec<RingOperation>,
    /// Outputs to be used again.
    pub spare_outputs: SpareOutputs,
}

#[derive(Debug, Default)]
struct Slot {
    connection: Option<UringConnection>,
    /// The number of operations that have not ended.
    under_way: u32,
}

impl UringConnection {
    /// Returns the number of the connection's socket.
    pub fn descriptor(&self) -> i32 {
        self.socket.as_raw_fd()
    }

    /// Returns the bytes that can be sent with the next wait.
    #[inline]
    pub fn sendable(&self) -> Option<&[u8]> {
        if self.is_full { None } else { self.waiting.plain().filter(|bytes| !bytes.is_empty()) }
    }

    /// Starts the operations that the connection's state needs and lacks; returns how many are under way now.
    fn ask(&mut self, token: Token, ring: &mut Ring) -> io::Result<u32> {
        let socket = self.socket.as_fd();
        let mut count = 0;
        match self.receiving {
            Receiving::No if !self.held && self.aside.is_empty() => {
                ring.receive(token, socket)?;
                self.receiving = Receiving::Yes;
                count += 1;
            }
            // Nothing is received until the bytes that have arrived are taken, so the client has to wait.
            Receiving::Yes if !self.aside.is_empty() => {
                ring.cancel(RingOperation::Receive(token))?;
                self.receiving = Receiving::Ending;
            }
            Receiving::No if self.held && !self.awaits_end && !self.has_ended => {
                ring.poll(RingOperation::AwaitEnd(token), socket, libc::POLLRDHUP)?;
                self.awaits_end = true;
                count += 1;
            }
            _ => {}
        }
        if self.is_full && !self.awaits_room {
            ring.poll(RingOperation::AwaitRoom(token), socket, libc::POLLOUT)?;
            self.awaits_room = true;
            count += 1;
        }
        Ok(count)
    }
}

impl UringConnections {
    /// Enters a connection.
    pub fn enter(&mut self, socket: OwnedFd) -> Token {
        let token = self.free.pop().unwrap_or(self.slots.len());
        if token == self.slots.len() {
            self.slots.push(Slot::default());
        }
        self.slots[token].connection = Some(UringConnection {
            socket,
            waiting: Output::default(),
            is_full: false,
            queued: false,
            held: false,
            aside: HeldInput::default(),
            has_ended: false,
            told_in: 0,
            sent: None,
            is_noted: false,
            receiving: Receiving::No,
            awaits_room: false,
            awaits_end: false,
        });
        self.note(token);
        token
    }

    /// Returns a connection, unless it is closed.
    #[inline]
    pub fn get(&self, token: Token) -> Option<&UringConnection> {
        self.slots.get(token)?.connection.as_ref()
    }

    /// Returns a connection, unless it is closed.
    #[inline]
    pub fn get_mut(&mut self, token: Token) -> Option<&mut UringConnection> {
        self.slots.get_mut(token)?.connection.as_mut()
    }

    /// Frees the tokens of closed connections, to be used again, except those for which `is_named` returns true.
    pub fn free_closed(&mut self, is_named: impl Fn(Token) -> bool) {
        let Self { closed, free, .. } = self;
        closed.retain(|&token| {
            let is_named = is_named(token);
            if !is_named {
                free.push(token);
            }
            is_named
        });
    }

    /// Notes a connection: the next wait starts the operations that it lacks, and sends as much as it can.
    #[inline]
    pub fn note(&mut self, token: Token) {
        if let Some(connection) = self.slots.get_mut(token).and_then(|slot| slot.connection.as_mut())
            && !std::mem::replace(&mut connection.is_noted, true)
        {
            self.changed.push(token);
        }
    }

    /// Cancels the operations that are under way for closed connections.
    pub fn cancel_closed(&mut self, ring: &mut Ring) -> io::Result<()> {
        self.cancelled.drain(..).try_for_each(|operation| ring.cancel(operation))
    }

    /// Returns the connections that were noted; the caller returns the list with [`UringConnections::keep_list`].
    pub fn take_changed(&mut self) -> Vec<Token> {
        std::mem::take(&mut self.changed)
    }

    /// Keeps a list that has been handled, to be used again.
    pub fn keep_list(&mut self, mut list: Vec<Token>) {
        list.clear();
        list.append(&mut self.changed);
        self.changed = list;
    }

    /// Starts the operations that a connection lacks. Returns the connection, if there is one.
    #[inline]
    pub fn ask(&mut self, token: Token, ring: &mut Ring) -> io::Result<Option<&UringConnection>> {
        let Some(slot) = self.slots.get_mut(token) else { return Ok(None) };
        let Some(connection) = &mut slot.connection else { return Ok(None) };
        connection.is_noted = false;
        slot.under_way += connection.ask(token, ring)?;
        Ok(Some(connection))
    }

    /// Notes that an operation of a connection has ended.
    pub fn end_operation(&mut self, operation: RingOperation) {
        let (RingOperation::Receive(token) | RingOperation::AwaitRoom(token) | RingOperation::AwaitEnd(token)) =
            operation
        else {
            return;
        };
        let Some(slot) = self.slots.get_mut(token) else { return };
        slot.under_way -= 1;
        let Some(connection) = &mut slot.connection else {
            if slot.under_way == 0 {
                self.closed.push(token);
            }
            return;
        };
        match operation {
            RingOperation::Receive(_) => connection.receiving = Receiving::No,
            RingOperation::AwaitRoom(_) => connection.awaits_room = false,
            _ => connection.awaits_end = false,
        }
        self.note(token);
    }

    /// Notes that a send did not send all bytes.
    pub fn note_sent(&mut self, token: Token, result: Result<u32, Errno>) {
        if let Some(connection) = self.get_mut(token) {
            // If there was an error, sending the rest will find it.
            connection.sent = Some(result.map_or(0, |count| count as usize));
        }
    }

    /// Ends a send that was tried; returns whether bytes are left.
    #[inline]
    pub fn end_send(&mut self, token: Token) -> bool {
        let Some(connection) = self.get_mut(token) else { return false };
        match connection.sent.take() {
            Some(count) => {
                connection.waiting.advance(count);
                true
            }
            None => {
                self.recycle(token);
                false
            }
        }
    }

    /// Sends at once as many of the unsent bytes as the connection takes.
    pub fn flush(&mut self, token: Token) -> Sending {
        let Some(connection) = self.get_mut(token) else { return Sending::Broken };
        let sending = send_pieces(&connection.socket, &mut connection.waiting);
        connection.is_full = matches!(sending, Sending::Waiting(_));
        match sending {
            Sending::Done => self.recycle(token),
            Sending::Waiting(_) => self.note(token),
            Sending::Broken => {}
        }
        sending
    }

    /// Keeps the output of a connection after all bytes have been sent.
    #[inline]
    fn recycle(&mut self, token: Token) {
        if let Some(connection) = self.slots.get_mut(token).and_then(|slot| slot.connection.as_mut()) {
            self.spare_outputs.keep(std::mem::take(&mut connection.waiting));
        }
    }

    /// Adds bytes to the unsent ones; returns whether they are the first that are queued.
    #[inline]
    pub fn queue(&mut self, token: Token, bytes: &Arc<Vec<u8>>) -> bool {
        let Some(connection) = self.slots.get_mut(token).and_then(|slot| slot.connection.as_mut()) else {
            return false;
        };
        self.spare_outputs.refill(&mut connection.waiting);
        connection.waiting.push_shared(bytes);
        !std::mem::replace(&mut connection.queued, true)
    }

    /// Closes a connection, after the bytes that can be sent at once. The kernel releases the socket when no operation uses
    /// it; the next wait makes sure of that.
    pub fn close(&mut self, token: Token) {
        let Some(slot) = self.slots.get_mut(token) else { return };
        let Some(mut connection) = slot.connection.take() else { return };
        if !connection.is_full {
            _ = send_pieces(&connection.socket, &mut connection.waiting);
        }
        if slot.under_way == 0 {
            self.closed.push(token);
        }
        let under_way = [
            (connection.receiving == Receiving::Yes, RingOperation::Receive(token)),
            (connection.awaits_room, RingOperation::AwaitRoom(token)),
            (connection.awaits_end, RingOperation::AwaitEnd(token)),
        ];
        self.cancelled
            .extend(under_way.iter().filter(|(is_under_way, _)| *is_under_way).map(|(_, operation)| *operation));
    }
}
