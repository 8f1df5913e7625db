//! A stream to a server, TCP or Unix, and a bell that wakes the thread which sleeps on it.
//!
//! With `dial`, `tls_stream` and `sys` the only room that makes system calls. Nothing here blocks except the waits,
//! and each of them is bounded by a time. Any thread.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{RecvFlags, Shutdown};

#[cfg(feature = "tls")]
use super::tls_stream::Seal;
#[cfg(not(feature = "tls"))]
use crate::config::no_tls::Seal;
use crate::sys::{Event, SEND_FLAGS, timespec};

/// A connected stream that never blocks.
pub(crate) struct Socket {
    fd: OwnedFd,
    /// TLS, with what wakes the thread that sends what waits for room.
    seal: Option<(Seal, Bell)>,
}

/// What a wait on a socket ended with.
#[derive(Clone, Copy, Default)]
pub(crate) struct Readiness {
    pub(crate) readable: bool,
    pub(crate) writable: bool,
    pub(crate) rung: bool,
}

impl Socket {
    /// A stream that does not block, with TLS or without; the bell is that of the thread which waits for it.
    pub(crate) fn new(fd: OwnedFd, seal: Option<(Seal, Bell)>) -> Self {
        Self { fd, seal }
    }

    /// Sends as much as the kernel takes now.
    pub(crate) fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        if let Some((seal, bell)) = &self.seal {
            let count = seal.send(&self.fd, bytes)?;
            if seal.has_residue() {
                bell.ring();
            }
            return Ok(count);
        }
        Ok(rustix::io::retry_on_intr(|| rustix::net::send(&self.fd, bytes, SEND_FLAGS))?)
    }

    /// Receives what is there now; 0 when the peer has closed.
    pub(crate) fn receive(&self, room: &mut [u8]) -> io::Result<usize> {
        if let Some((seal, _)) = &self.seal {
            return seal.receive(&self.fd, room);
        }
        let (count, _) = rustix::io::retry_on_intr(|| rustix::net::recv(&self.fd, &mut *room, RecvFlags::empty()))?;
        Ok(count)
    }

    /// Sends what TLS has encrypted and the kernel would not take, if it does now.
    pub(crate) fn flush(&self) -> io::Result<()> {
        self.seal.as_ref().map_or(Ok(()), |(seal, _)| seal.flush(&self.fd))
    }

    /// Ends both directions, so that whoever waits on the stream is told.
    pub(crate) fn shut(&self) {
        // It fails only when the peer was faster, which is what was wanted.
        let _ = rustix::net::shutdown(&self.fd, Shutdown::Both);
    }

    /// Sleeps until there is something to read, room to write (if asked for), the bell rings, or the time is up.
    pub(crate) fn wait(&self, bell: Option<&Bell>, write: bool, timeout: Option<Duration>) -> io::Result<Readiness> {
        let seal = self.seal.as_ref().map(|(seal, _)| seal);
        let has_plain = seal.is_some_and(Seal::has_plain);
        let has_residue = seal.is_some_and(Seal::has_residue);
        let timeout = if has_plain { Some(Duration::ZERO) } else { timeout };
        let flags = if write || has_residue { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
        let stream = PollFd::new(&self.fd, flags);
        let bell = bell.map(|bell| PollFd::new(&bell.event, PollFlags::IN));
        let timeout = timeout.map(timespec);
        let (stream, bell) = match bell {
            Some(bell) => {
                let mut fds = [stream, bell];
                wait_for(&mut fds, timeout.as_ref())?;
                (fds[0].revents(), fds[1].revents())
            }
            None => {
                let mut fds = [stream];
                wait_for(&mut fds, timeout.as_ref())?;
                (fds[0].revents(), PollFlags::empty())
            }
        };
        if has_residue && stream.contains(PollFlags::OUT) {
            self.flush()?;
        }
        Ok(Readiness {
            readable: has_plain || stream.intersects(PollFlags::IN | PollFlags::ERR | PollFlags::HUP),
            writable: stream.intersects(PollFlags::OUT | PollFlags::ERR | PollFlags::HUP),
            rung: !bell.is_empty(),
        })
    }
}

pub(crate) fn wait_for(fds: &mut [PollFd<'_>], timeout: Option<&Timespec>) -> io::Result<()> {
    match poll(fds, timeout) {
        // An interrupted wait is one that ended early; its owner looks again.
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Wakes a thread that waits on a socket, or on nothing but the bell.
pub(crate) struct Bell {
    event: Event,
}

impl Bell {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self { event: Event::new()? })
    }

    /// Another handle to the same bell.
    pub(crate) fn twin(&self) -> io::Result<Self> {
        Ok(Self { event: self.event.twin()? })
    }

    /// Rings; the next or present wait ends.
    pub(crate) fn ring(&self) {
        self.event.raise();
    }

    /// Takes all ringing back.
    pub(crate) fn hear(&self) {
        self.event.clear();
    }

    /// Sleeps until it rings or the time is up.
    pub(crate) fn wait(&self, timeout: Option<Duration>) -> io::Result<()> {
        wait_for(&mut [PollFd::new(&self.event, PollFlags::IN)], timeout.map(timespec).as_ref())
    }
}
