//! A TCP stream with TLS that blocks or not, as its owner likes: the tools' use of the client's TLS session.
//!
//! The TLS session itself never blocks, so that a thread that reads does not keep another from writing; waiting is done here.
//! Writing always waits until all of it has left. Any thread.

use std::io;
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::Timespec;
use sleeve::{Tls, TlsSession};

/// The timeout of a TLS handshake.
const HANDSHAKE_TIME_MAX: Duration = Duration::from_secs(10);

/// A stream with TLS around it, which blocks.
#[derive(Debug)]
pub struct TlsStream {
    stream: TcpStream,
    tls_session: TlsSession,
    never_waits: AtomicBool,
    /// The timeout of a read, in milliseconds; 0 for none.
    read_ms_max: AtomicU64,
}

impl TlsStream {
    /// Does the TLS handshake.
    pub fn new(stream: TcpStream, tls: &Tls, host: &str) -> io::Result<Self> {
        let tls_session = TlsSession::handshake(&stream, tls, host, Instant::now() + HANDSHAKE_TIME_MAX)?;
        Ok(Self { stream, tls_session, never_waits: AtomicBool::new(false), read_ms_max: AtomicU64::new(0) })
    }

    /// Returns the stream under it.
    pub fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// Sets whether reads return at once.
    pub fn set_nonblocking(&self, on: bool) {
        self.never_waits.store(on, Ordering::Relaxed);
    }

    /// Sets the timeout of a read.
    pub fn set_read_timeout(&self, limit: Option<Duration>) {
        self.read_ms_max.store(limit.map_or(0, |limit| limit.as_millis().max(1) as u64), Ordering::Relaxed);
    }

    /// Reads the available bytes; returns 0 when the peer has closed.
    pub fn read(&self, into: &mut [u8]) -> io::Result<usize> {
        let limit_ms = self.read_ms_max.load(Ordering::Relaxed);
        let deadline = (limit_ms != 0).then(|| Instant::now() + Duration::from_millis(limit_ms));
        loop {
            match self.tls_session.receive(&self.stream, into) {
                Err(error)
                    if error.kind() == io::ErrorKind::WouldBlock && !self.never_waits.load(Ordering::Relaxed) => {}
                outcome => return outcome,
            }
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            let left = left.and_then(|left| Timespec::try_from(left).ok());
            match poll(&mut [PollFd::new(&self.stream, PollFlags::IN)], left.as_ref()) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Writes everything.
    pub fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        self.tls_session.send_all(&self.stream, bytes)?;
        Ok(bytes.len())
    }
}

impl AsFd for TlsStream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}
