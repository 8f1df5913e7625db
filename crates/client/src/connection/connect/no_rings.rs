//! The twin of `rings` on systems without shared memory: a type without values, so that code that holds one need not know
//! which system this is. Any thread.

use std::io;
use std::os::fd::AsFd;

use rustix::net::RecvFlags;

/// Memory that is shared with a server: none.
pub(crate) enum Rings {}

impl Rings {
    /// Receives the bytes that are there; never any memory.
    pub(crate) fn receive_reply(socket: impl AsFd, room: &mut [u8]) -> io::Result<(usize, Option<Self>)> {
        let (count, _) = rustix::io::retry_on_intr(|| rustix::net::recv(&socket, &mut *room, RecvFlags::empty()))?;
        Ok((count, None))
    }

    /// Sends bytes: it cannot be called.
    pub(crate) fn send(&self, _bell: impl AsFd, _bytes: &[u8]) -> io::Result<usize> {
        match *self {}
    }

    /// Receives bytes: it cannot be called.
    pub(crate) fn receive(&self, _bell: impl AsFd, _room: &mut [u8], _looks_again: bool) -> io::Result<usize> {
        match *self {}
    }

    /// Returns whether there is room for bytes: it cannot be called.
    pub(crate) fn has_room(&self) -> bool {
        match *self {}
    }

    /// Waits briefly for bytes: it cannot be called.
    pub(crate) fn await_bytes(&self) -> bool {
        match *self {}
    }
}
