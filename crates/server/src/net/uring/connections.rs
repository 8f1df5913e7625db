//! The connections of the driver `uring`, by token: the operations that each has under way, and those that it lacks.
//!
//! This module decides which operations one connection needs ([`UringConnection::ask`]); the driver decides when. Belongs to one
//! thread.

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

/// One connection.
#[derive(Debug)]
pub struct UringConnection {
    /// Its socket.
    pub socket: OwnedFd,
    /// The unsent bytes.
    pub waiting: Output,
    /// The peer takes no more at present: the kernel reports when it does.
    pub is_full: bool,
    /// Stands in the driver's list of those to which something was queued.
    pub queued: bool,
    /// Receiving is paused until the session can go on.
    pub held: bool,
    /// Bytes that arrived while it was held, or beyond the amount that the worker takes in a wake-up.
    pub aside: HeldInput,
    /// The peer has gone while it was held.
    pub has_ended: bool,
    /// The wake-up in which the worker was last told that it has said something, or has gone.
    pub told_in: u64,
    /// The bytes that have left of a send that was not whole.
    sent: Option<usize>,
    /// Stands in the list of those for which something may have to be asked.
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
    /// Closed, with nothing under way any more.
    closed: Vec<Token>,
    changed: Vec<Token>,
    /// Operations that are under way for closed connections and have to end.
    cancelled: Vec<RingOperation>,
    /// Outputs to be used again.
    pub spare_outputs: SpareOutputs,
}

#[derive(Debug, Default)]
struct Slot {
    connection: Option<UringConnection>,
    /// Operations that have not ended.
    under_way: u32,
}

impl UringConnection {
    /// Returns the number of its socket.
    pub fn descriptor(&self) -> i32 {
        self.socket.as_raw_fd()
    }

    /// Returns the bytes that can be sent with the next wait.
    #[inline]
    pub fn sendable(&self) -> Option<&[u8]> {
        if self.is_full { None } else { self.waiting.plain().filter(|bytes| !bytes.is_empty()) }
    }

    /// Asks the kernel for the operations that its state lacks; returns how many of them are under way now.
    fn ask(&mut self, token: Token, ring: &mut Ring) -> io::Result<u32> {
        let socket = self.socket.as_fd();
        let mut count = 0;
        match self.receiving {
            Receiving::No if !self.held && self.aside.is_empty() => {
                ring.receive(token, socket)?;
                self.receiving = Receiving::Yes;
                count += 1;
            }
            // The peer waits until the bytes that have arrived are taken.
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

    /// Returns a connection that is not closed.
    #[inline]
    pub fn get(&self, token: Token) -> Option<&UringConnection> {
        self.slots.get(token)?.connection.as_ref()
    }

    /// Returns a connection that is not closed.
    #[inline]
    pub fn get_mut(&mut self, token: Token) -> Option<&mut UringConnection> {
        self.slots.get_mut(token)?.connection.as_mut()
    }

    /// Lets the tokens of closed connections be used again, but those that are still named somewhere.
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

    /// Notes a connection: the next wait asks for the operations that it lacks, and sends as much as it can.
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

    /// Returns the connections that were noted; the list is given back with [`UringConnections::keep_list`].
    pub fn take_changed(&mut self) -> Vec<Token> {
        std::mem::take(&mut self.changed)
    }

    /// Keeps a list that has been worked off.
    pub fn keep_list(&mut self, mut list: Vec<Token>) {
        list.clear();
        list.append(&mut self.changed);
        self.changed = list;
    }

    /// Asks the kernel for the operations that a connection lacks. Returns the connection, if there is one.
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

    /// Notes that a send was not whole.
    pub fn note_sent(&mut self, token: Token, result: Result<u32, Errno>) {
        if let Some(connection) = self.get_mut(token) {
            // An error of the kernel is found where the rest is sent.
            connection.sent = Some(result.map_or(0, |count| count as usize));
        }
    }

    /// Ends a send that was tried; returns whether something is left.
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

    /// Sends on the spot as many of the unsent bytes as the connection takes.
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

    /// Keeps the output of a connection after everything has left.
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

    /// Closes a connection, behind the bytes that can leave at once. The kernel releases the socket when nothing is under way
    /// for it; the next wait makes sure of that.
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
