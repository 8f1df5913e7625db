//! A stream to a server, TCP or Unix.
//!
//! This module, `dial`, `rings`, `tls_session`, `reactor` and `sys` make all system calls of the client. Nothing here blocks
//! except the wait of a caller that reads by itself, which is bounded by a time. Any thread.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{RecvFlags, Shutdown, SocketAddrAny, getpeername, getsockname};

use super::rings::Rings;
#[cfg(feature = "tls")]
use super::tls_session::TlsSession;
#[cfg(not(feature = "tls"))]
use crate::config::no_tls::TlsSession;
use crate::reactor::TaskWaker;
use crate::reactor::state::Readiness;
use crate::sys::{Event, SEND_FLAGS, timespec};

/// A connected stream that never blocks.
pub(crate) struct Socket {
    fd: OwnedFd,
    /// The TLS session, with the waker of the task that sends the encrypted bytes that wait for room.
    tls_session: Option<(TlsSession, TaskWaker)>,
    /// The memory that is shared with the server, through which all bytes travel if there is no TLS; the stream is then its
    /// bell.
    rings: Option<Rings>,
}

impl Socket {
    /// Creates a stream that does not block, with or without TLS; the waker is that of the task that waits for the stream.
    pub(crate) fn new(fd: OwnedFd, tls_session: Option<(TlsSession, TaskWaker)>) -> Self {
        Self { fd, tls_session, rings: None }
    }

    /// Returns the same stream with the shared memory that the server has handed out over it.
    pub(crate) fn with(self, rings: Rings) -> Self {
        Self { rings: Some(rings), ..self }
    }

    /// Sends as many bytes as the kernel takes now.
    pub(crate) fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        if let Some(rings) = &self.rings {
            return rings.send(&self.fd, bytes);
        }
        if let Some((tls_session, task_waker)) = &self.tls_session {
            let count = tls_session.send(&self.fd, bytes)?;
            if tls_session.has_residue() {
                task_waker.wake();
            }
            return Ok(count);
        }
        Ok(rustix::io::retry_on_intr(|| rustix::net::send(&self.fd, bytes, SEND_FLAGS))?)
    }

    /// Receives the bytes that have arrived; returns 0 if the peer has closed the stream.
    pub(crate) fn receive(&self, room: &mut [u8]) -> io::Result<usize> {
        self.receive_between(room, false)
    }

    /// Receives as `receive` does. If the thread checks again before it sleeps, by `wait`, it need not be notified of bytes
    /// until then.
    pub(crate) fn receive_between(&self, room: &mut [u8], looks_again: bool) -> io::Result<usize> {
        if let Some(rings) = &self.rings {
            return rings.receive(&self.fd, room, looks_again);
        }
        if let Some((tls_session, _)) = &self.tls_session {
            return tls_session.receive(&self.fd, room);
        }
        let (count, _) = rustix::io::retry_on_intr(|| rustix::net::recv(&self.fd, &mut *room, RecvFlags::empty()))?;
        Ok(count)
    }

    /// Returns whether all bytes travel through shared memory, so that sending costs no system call.
    pub(crate) fn shares_memory(&self) -> bool {
        self.rings.is_some()
    }

    /// Sends the bytes that TLS has encrypted and the kernel has not taken, as far as it takes them now.
    pub(crate) fn flush(&self) -> io::Result<()> {
        self.tls_session.as_ref().map_or(Ok(()), |(tls_session, _)| tls_session.flush(&self.fd))
    }

    /// Ends both directions, so that every waiter on the stream is notified.
    pub(crate) fn shut(&self) {
        // The call fails only if the peer has closed the stream first, which has the wanted effect.
        let _ = rustix::net::shutdown(&self.fd, Shutdown::Both);
    }

    /// Returns whether it is a stream over TCP without TLS. A broken stream has no peer address any more, so its own address
    /// is checked.
    pub(crate) fn is_plain_tcp(&self) -> bool {
        self.tls_session.is_none() && getsockname(&self.fd).is_ok_and(|address| SocketAddr::try_from(address).is_ok())
    }

    /// Returns whether it has no TLS and both of its ends have the same IP address, so that the server is likely to be on
    /// this machine.
    pub(crate) fn is_plain_and_local(&self) -> bool {
        self.tls_session.is_none() && self.addresses().is_some_and(|(own, peer)| own.ip() == peer.ip())
    }

    /// Returns the addresses of both ends over TCP, its own first.
    pub(crate) fn addresses(&self) -> Option<(SocketAddr, SocketAddr)> {
        let of = |address: SocketAddrAny| SocketAddr::try_from(address).ok();
        Some((of(getsockname(&self.fd).ok()?)?, of(getpeername(&self.fd).ok()??)?))
    }

    /// Returns whether TLS holds bytes back until there is room.
    pub(crate) fn has_residue(&self) -> bool {
        self.tls_session.as_ref().is_some_and(|(tls_session, _)| tls_session.has_residue())
    }

    /// Returns whether a send that took fewer bytes than given did so because the kernel is full. (TLS takes no more than it
    /// encrypts at a time.)
    pub(crate) fn was_full(&self) -> bool {
        self.tls_session.as_ref().is_none_or(|(tls_session, _)| tls_session.has_residue())
    }

    /// Returns whether the kernel takes more bytes now. If not, it reports when it does.
    pub(crate) fn has_room(&self) -> bool {
        if let Some(rings) = &self.rings {
            return rings.has_room();
        }
        let mut fds = [PollFd::new(&self.fd, PollFlags::OUT)];
        wait_for(&mut fds, Some(&timespec(Duration::ZERO))).is_err() || !fds[0].revents().is_empty()
    }

    /// Sleeps until there are bytes to read, the event is raised, or the timeout has passed.
    pub(crate) fn wait(&self, event: &Event, timeout: Duration) -> io::Result<Readiness> {
        if self.rings.as_ref().is_some_and(Rings::await_bytes) {
            return Ok(Readiness { readable: true, ..Readiness::default() });
        }
        let has_plain = self.tls_session.as_ref().is_some_and(|(tls_session, _)| tls_session.has_plain());
        let timeout = timespec(if has_plain { Duration::ZERO } else { timeout });
        let mut fds = [PollFd::new(&self.fd, PollFlags::IN), PollFd::new(event, PollFlags::IN)];
        wait_for(&mut fds, Some(&timeout))?;
        let [stream, event] = fds.map(|fd| fd.revents());
        let hung_up = stream.intersects(PollFlags::ERR | PollFlags::HUP);
        let readable = has_plain || hung_up || stream.contains(PollFlags::IN);
        Ok(Readiness { readable, hung_up, woken: !event.is_empty(), ..Readiness::default() })
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

pub(crate) fn wait_for(fds: &mut [PollFd<'_>], timeout: Option<&Timespec>) -> io::Result<()> {
    match poll(fds, timeout) {
        // An interrupted wait has ended early; its owner checks again.
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
