//! Linux's own calls that are cheaper than those of POSIX: an event is one descriptor, a socket is made with all its flags at
//! once, and the coarse clock is read without access to the hardware.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::{EventfdFlags, Timespec, eventfd};
use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, socket_with};
use rustix::time::ClockId;

/// The flags of a send. With them a closed peer causes an error, not a signal that ends the process.
pub(crate) const SEND_FLAGS: SendFlags = SendFlags::NOSIGNAL;

/// The longest wait that is asked of the system, which counts milliseconds in 31 bits before Linux 5.11.
const WAIT_MAX: Duration = Duration::from_secs(1_000_000);

/// An event that any thread may raise, and that ends a wait on descriptors.
pub(crate) struct Event {
    fd: OwnedFd,
}

impl Event {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self { fd: eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)? })
    }

    /// Raises the event: its descriptor becomes readable.
    pub(crate) fn raise(&self) {
        // The write fails only if the event was raised 2^64 times without being cleared.
        let _ = rustix::io::write(&self.fd, &1u64.to_ne_bytes());
    }

    /// Clears the event, however often it was raised.
    pub(crate) fn clear(&self) {
        // The read fails if the event was not raised, which is the wanted state.
        let _ = rustix::io::read(&self.fd, &mut [0; 8]);
    }
}

impl AsFd for Event {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Creates a stream socket that never blocks, and that started programs do not inherit.
pub(crate) fn stream(family: AddressFamily) -> io::Result<OwnedFd> {
    Ok(socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, None)?)
}

/// Returns the identity of the running kernel, which it draws when it boots, and the namespace of this process's process ids.
pub(crate) fn whereabouts() -> Option<(String, String)> {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?.trim_end().to_owned();
    Some((boot, std::fs::read_link("/proc/self/ns/pid").ok()?.to_str()?.to_owned()))
}

/// Returns the namespace in which this process has addresses and ports.
pub(crate) fn network() -> Option<String> {
    Some(std::fs::read_link("/proc/self/ns/net").ok()?.to_str()?.to_owned())
}

/// Returns the process that listens, or listened, at the Unix socket to which this stream leads; none if it has no process id
/// in this namespace.
pub(crate) fn peer_process(stream: impl AsFd) -> Option<u32> {
    let mut peer = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut length = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: the kernel writes no more than `length` bytes to where `peer` is, and any bytes are one.
    let outcome = unsafe {
        libc::getsockopt(
            stream.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut peer).cast(),
            &raw mut length,
        )
    };
    (outcome == 0).then_some(peer.pid).and_then(|pid| u32::try_from(pid).ok()).filter(|pid| *pid != 0)
}

/// The coarse clock, which is read without access to the hardware.
pub(crate) const COARSE_CLOCK: ClockId = ClockId::MonotonicCoarse;

/// The time by which the coarse clock may be behind the true time, in milliseconds: a tick of the slowest kernel.
pub(crate) const CLOCK_TICK_MS: u64 = 10;

/// Converts the timeout of a wait on descriptors to the system's form. A wait may end early, so a timeout that is too long
/// for the system is shortened.
pub(crate) fn timespec(duration: Duration) -> Timespec {
    let duration = duration.min(WAIT_MAX);
    Timespec { tv_sec: duration.as_secs() as _, tv_nsec: duration.subsec_nanos().into() }
}
