//! The client's system calls on every Unix but Linux: an event that ends a wait, sockets that never block, clocks.
//!
//! Every call here is in POSIX, except for one option of BSD's. The twin of `linux`, with the same calls. Any thread.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::event::Timespec;
use rustix::io::{FdFlags, fcntl_setfd, ioctl_fionbio};
use rustix::net::{AddressFamily, SendFlags, SocketType, socket};
use rustix::time::ClockId;

/// The flags of a send. Apple's systems have an option of the socket instead, by which a closed peer causes an error, not a
/// signal that ends the process.
#[cfg(target_vendor = "apple")]
pub(crate) const SEND_FLAGS: SendFlags = SendFlags::empty();
/// The flags of a send. With them a closed peer causes an error, not a signal that ends the process.
#[cfg(not(target_vendor = "apple"))]
pub(crate) const SEND_FLAGS: SendFlags = SendFlags::NOSIGNAL;

/// The longest wait that is asked of the system; some systems count milliseconds in 31 bits.
const WAIT_MAX: Duration = Duration::from_secs(1_000_000);

/// An event that any thread may raise, and that ends a wait on descriptors: bytes in a pair of sockets.
pub(crate) struct Event {
    raised: UnixStream,
    raising: UnixStream,
}

impl Event {
    pub(crate) fn new() -> io::Result<Self> {
        let (raised, raising) = UnixStream::pair()?;
        raised.set_nonblocking(true)?;
        raising.set_nonblocking(true)?;
        Ok(Self { raised, raising })
    }

    /// Raises the event: its descriptor becomes readable.
    pub(crate) fn raise(&self) {
        // The write fails if the socket is full, and then the event is raised already.
        let _ = (&self.raising).write(&[1]);
    }

    /// Clears the event, however often it was raised.
    pub(crate) fn clear(&self) {
        let mut room = [0; 256];
        while matches!((&self.raised).read(&mut room), Ok(count) if count == room.len()) {}
    }
}

impl AsFd for Event {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.raised.as_fd()
    }
}

/// Creates a stream socket that never blocks, and that programs that are started later do not inherit.
pub(crate) fn stream(family: AddressFamily) -> io::Result<OwnedFd> {
    let stream = socket(family, SocketType::STREAM, None)?;
    fcntl_setfd(&stream, FdFlags::CLOEXEC)?;
    ioctl_fionbio(&stream, true)?;
    #[cfg(target_vendor = "apple")]
    rustix::net::sockopt::set_socket_nosigpipe(&stream, true)?;
    Ok(stream)
}

/// Returns none: the running kernel and the namespace of processes are unknown.
pub(crate) fn whereabouts() -> Option<(String, String)> {
    None
}

/// Returns none: the network namespace is unknown.
pub(crate) fn network() -> Option<String> {
    None
}

/// Returns none: the process at the other end is unknown.
pub(crate) fn peer_process(_stream: impl AsFd) -> Option<u32> {
    None
}

/// The clock in place of a coarse one: that of POSIX.
pub(crate) const COARSE_CLOCK: ClockId = ClockId::Monotonic;

/// The time by which that clock may be behind the true time, in milliseconds: the fraction of a millisecond that is cut off.
pub(crate) const CLOCK_TICK_MS: u64 = 1;

/// Converts the timeout of a wait on descriptors to the system's form. A wait may end early, so a timeout that is too long
/// for the system is shortened.
pub(crate) fn timespec(duration: Duration) -> Timespec {
    let duration = duration.min(WAIT_MAX);
    Timespec { tv_sec: duration.as_secs() as _, tv_nsec: duration.subsec_nanos().into() }
}
