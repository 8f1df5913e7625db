//! Memory that a server has handed out, and through which bytes go without the kernel (`sleeve-rings`).
//!
//! The Unix socket over which it came stays: a byte on it is the server's bell, and its end is the connection's. Code that
//! waits for the socket waits for both, so nothing above knows of the rings. A reader that reads nothing more leaves the ring
//! asleep, so that the server rings for later bytes. Any thread.

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use rustix::net::{RecvFlags, send};
use sleeve_rings::handover;
use sleeve_rings::memory::Memory;
use sleeve_rings::patience::Patience;
use sleeve_rings::ring::{Broken, Reader, Writer};
use sleeve_rings::side::{Role, ends};

use crate::sys::SEND_FLAGS;
use crate::sys::lock::Mutex;

/// The time for which a caller looks for a reply, before the server has to ring: longer than a server looks, which may have
/// to be woken first.
const LOOK_MAX: Duration = Duration::from_micros(50);

/// The byte of the bell.
const BELL: &[u8] = b"!";

/// The most bells in a row for which a read looks for received bytes: a server may ring for nothing, and others wait.
const BELLS_MAX: u32 = 8;

/// Memory that is shared with a server: one ring to it and one from it.
pub(crate) struct Rings {
    writer: Mutex<Writer<Memory>>,
    reader: Mutex<Incoming>,
}

struct Incoming {
    ring: Reader<Memory>,
    patience: Patience,
}

impl Rings {
    /// Receives the bytes on the socket, and the memory if it came with them.
    pub(crate) fn receive_reply(socket: impl AsFd, room: &mut [u8]) -> io::Result<(usize, Option<Self>)> {
        let (count, file) = handover::receive(socket, room)?;
        let rings = file.map(|file| {
            let (writer, mut ring) = ends(Memory::open(&file)?, Role::Client);
            // No thread reads before bytes have arrived.
            ring.fall_asleep().map_err(broken)?;
            let reader = Incoming { ring, patience: Patience::new(LOOK_MAX) };
            io::Result::Ok(Self { writer: Mutex::new(writer), reader: Mutex::new(reader) })
        });
        Ok((count, rings.transpose()?))
    }

    /// Writes as much as there is room for.
    pub(crate) fn send(&self, bell: impl AsFd, bytes: &[u8]) -> io::Result<usize> {
        let mut writer = self.writer.lock();
        let mut count = 0;
        let full = loop {
            count += writer.write(bytes.get(count..).unwrap_or_default()).map_err(broken)?;
            if count == bytes.len() || writer.wait_for_room().map_err(broken)? {
                break count == 0 && !bytes.is_empty();
            }
        };
        if writer.must_ring() {
            ring(bell);
        }
        if full { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(count) }
    }

    /// Takes the bytes that are there; returns 0 when the server has closed the connection and all have been taken. The
    /// server rings for the bytes behind them. It need not if bytes were there and the reader looks again before it sleeps.
    pub(crate) fn receive(&self, bell: impl AsFd, room: &mut [u8], looks_again: bool) -> io::Result<usize> {
        let reader = &mut self.reader.lock().ring;
        reader.wake_up();
        if reader.take_ring() {
            // Bells that are not taken would fill the socket in the end, and none would be heard any more.
            _ = take_bells(&bell);
        }
        if looks_again {
            let count = read(reader, &bell, room)?;
            if count > 0 {
                return Ok(count);
            }
        }
        for _ in 0..BELLS_MAX {
            let count = take(reader, &bell, room)?;
            if count > 0 || room.is_empty() {
                return Ok(count);
            }
            match take_bells(&bell) {
                // The bytes that were written before the end are there.
                Ok(0) => return take(reader, &bell, room),
                // The bytes that the bell was rung for are there.
                Ok(_) => {}
                Err(error) => return Err(error),
            }
        }
        match take(reader, &bell, room)? {
            0 => Err(io::ErrorKind::WouldBlock.into()),
            count => Ok(count),
        }
    }

    /// Returns whether more would be taken now. If not, the server rings when it would.
    pub(crate) fn has_room(&self) -> bool {
        // The sender finds a broken ring.
        !self.writer.lock().wait_for_room().unwrap_or(false)
    }

    /// Looks for a moment whether something comes, where that has been of use; if not, the server rings.
    pub(crate) fn await_bytes(&self) -> bool {
        let Incoming { ring, patience } = &mut *self.reader.lock();
        ring.wake_up();
        // The receiver finds a broken ring.
        if let Some(mut watch) = patience.begin() {
            while watch.goes_on() {
                if ring.has_bytes().unwrap_or(true) {
                    patience.found();
                    return true;
                }
            }
        }
        !ring.fall_asleep().unwrap_or(false)
    }
}

/// Takes all that there is room for. Where that was all there is, the reader sleeps.
fn take(reader: &mut Reader<Memory>, bell: impl AsFd, room: &mut [u8]) -> io::Result<usize> {
    let mut count = 0;
    loop {
        count += read(reader, &bell, room.get_mut(count..).unwrap_or_default())?;
        if count == room.len() || reader.fall_asleep().map_err(broken)? {
            return Ok(count);
        }
    }
}

/// Takes as many bytes as there is room for, and rings if the server waits for that.
fn read(reader: &mut Reader<Memory>, bell: impl AsFd, room: &mut [u8]) -> io::Result<usize> {
    let count = reader.read(room).map_err(broken)?;
    if reader.must_ring() {
        ring(bell);
    }
    Ok(count)
}

/// Takes the bells that have arrived; returns 0 if the connection has ended.
fn take_bells(bell: impl AsFd) -> io::Result<usize> {
    let (count, _) = rustix::io::retry_on_intr(|| rustix::net::recv(&bell, &mut [0; 64], RecvFlags::DONTWAIT))?;
    Ok(count)
}

/// Rings. If the socket takes nothing more, the server has enough bells that it has not heard. If it has ended, the reader is
/// told.
fn ring(bell: impl AsFd) {
    _ = send(bell, BELL, SEND_FLAGS);
}

fn broken(error: Broken) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}
