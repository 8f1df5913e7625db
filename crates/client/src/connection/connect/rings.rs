//! The memory that a server has handed out, and through which bytes travel without the kernel (`sleeve-rings`).
//!
//! The Unix socket over which the memory came stays: a byte on it is the server's bell, and its end is the connection's. Code
//! that waits for the socket waits for both, so no code above knows of the rings. When a reader has read all bytes it marks
//! its ring as asleep, so that the server rings for later bytes. Any thread.

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

/// The longest time for which a caller busy polls for a reply, before the server has to ring. It is longer than the server's
/// own busy poll, because the server may have to be woken first.
const LOOK_MAX: Duration = Duration::from_micros(50);

/// The byte of the bell.
const BELL: &[u8] = b"!";

/// The largest number of bells in a row for which a read checks for received bytes: a server may ring without need, and other
/// connections wait.
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
            // No thread reads yet, so the server has to ring for the first bytes.
            ring.fall_asleep().map_err(broken)?;
            let reader = Incoming { ring, patience: Patience::new(LOOK_MAX) };
            io::Result::Ok(Self { writer: Mutex::new(writer), reader: Mutex::new(reader) })
        });
        Ok((count, rings.transpose()?))
    }

    /// Writes as many bytes as there is room for.
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

    /// Takes the bytes that have arrived; returns 0 when the server has closed the connection and all have been taken. The
    /// server rings for later bytes. It need not if bytes were taken and the reader checks again before it sleeps
    /// (`looks_again`).
    pub(crate) fn receive(&self, bell: impl AsFd, room: &mut [u8], looks_again: bool) -> io::Result<usize> {
        let reader = &mut self.reader.lock().ring;
        reader.wake_up();
        if reader.take_ring() {
            // Bells that are not taken would in the end fill the socket, and no later bell would arrive.
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
                // The connection has ended; the bytes that were written before are still in the ring.
                Ok(0) => return take(reader, &bell, room),
                // The server has rung, so there are bytes.
                Ok(_) => {}
                Err(error) => return Err(error),
            }
        }
        match take(reader, &bell, room)? {
            0 => Err(io::ErrorKind::WouldBlock.into()),
            count => Ok(count),
        }
    }

    /// Returns whether the ring has room now. If not, the server rings when it has.
    pub(crate) fn has_room(&self) -> bool {
        // A broken ring counts as room, so that the sender finds the fault.
        !self.writer.lock().wait_for_room().unwrap_or(false)
    }

    /// Busy polls for bytes for a moment, if earlier busy polls were of use. If none arrive, the server rings for them.
    pub(crate) fn await_bytes(&self) -> bool {
        let Incoming { ring, patience } = &mut *self.reader.lock();
        ring.wake_up();
        // A broken ring ends the busy poll, so that the receiver finds the fault.
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

/// Takes as many bytes as there is room for. If no bytes are left, the reader sleeps.
fn take(reader: &mut Reader<Memory>, bell: impl AsFd, room: &mut [u8]) -> io::Result<usize> {
    let mut count = 0;
    loop {
        count += read(reader, &bell, room.get_mut(count..).unwrap_or_default())?;
        if count == room.len() || reader.fall_asleep().map_err(broken)? {
            return Ok(count);
        }
    }
}

/// Takes as many bytes as there is room for, and rings if the server waits for room.
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

/// Rings. If the socket is full, the server has enough bells that it has not taken. If it has ended, the reader finds that.
fn ring(bell: impl AsFd) {
    _ = send(bell, BELL, SEND_FLAGS);
}

fn broken(error: Broken) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}
