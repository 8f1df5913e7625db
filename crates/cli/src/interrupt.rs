//! Ctrl-C, heard instead of suffered: a long-running mode ends in order, with its last line.
//!
//! From [`Interrupt::watch`] on SIGINT no longer ends the process, and from [`Interrupt::watch_end`] on SIGTERM neither. A
//! signal wakes the threads that wait here and is remembered until a caller clears it. A second one before that ends the
//! process at once, so that code that forgets to ask cannot keep a user waiting. Any thread may ask.

use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::Timespec;
use rustix::io::Errno;
use signal_hook::consts::{SIGINT, SIGTERM};

/// The exit code of a program that SIGINT ended early: 128 and the signal's number.
pub const INTERRUPTED: u8 = 130;

/// A listener for SIGINT, and for SIGTERM if the mode asks for it.
#[derive(Debug)]
pub struct Interrupt {
    heard: Arc<AtomicBool>,
    /// A byte arrives with every signal.
    wakes: UnixStream,
}

impl Interrupt {
    /// Catches every SIGINT from now on.
    pub fn watch() -> io::Result<Self> {
        Self::of(&[SIGINT])
    }

    /// Catches every SIGINT and SIGTERM from now on: for a mode that has started processes or files that must not outlive it.
    pub fn watch_end() -> io::Result<Self> {
        Self::of(&[SIGINT, SIGTERM])
    }

    fn of(signals: &[i32]) -> io::Result<Self> {
        let heard = Arc::new(AtomicBool::new(false));
        let (wakes, sender) = UnixStream::pair()?;
        wakes.set_nonblocking(true)?;
        for signal in signals {
            // The order matters: the first signal finds the flag down, the second finds it up.
            signal_hook::flag::register_conditional_shutdown(*signal, INTERRUPTED.into(), Arc::clone(&heard))?;
            signal_hook::flag::register(*signal, Arc::clone(&heard))?;
            signal_hook::low_level::pipe::register(*signal, sender.try_clone()?)?;
        }
        Ok(Self { heard, wakes })
    }

    /// Returns whether a signal has arrived and has not been cleared.
    pub fn is_heard(&self) -> bool {
        self.heard.load(Ordering::Acquire)
    }

    /// Forgets the signal; returns true if there was one to forget.
    pub fn clear(&self) -> bool {
        let mut bytes = [0; 64];
        while (&self.wakes).read(&mut bytes).is_ok_and(|length| length > 0) {}
        self.heard.swap(false, Ordering::AcqRel)
    }

    /// Waits until `peer` can be read, or at most for `limit`; returns false if a signal came first.
    ///
    /// # Errors
    /// `TimedOut` if `limit` has passed, and when a call to the system fails.
    pub fn wait_readable(&self, peer: impl AsFd, limit: Option<Duration>) -> io::Result<bool> {
        let peer = peer.as_fd();
        let end = limit.map(|limit| Instant::now() + limit);
        loop {
            if self.is_heard() {
                return Ok(false);
            }
            let mut descriptors = [PollFd::new(&peer, PollFlags::IN), PollFd::new(&self.wakes, PollFlags::IN)];
            let left = end.map(|end| end.saturating_duration_since(Instant::now()));
            let pause = left.and_then(|left| Timespec::try_from(left).ok());
            match poll(&mut descriptors, pause.as_ref()) {
                Ok(_) if descriptors.first().is_some_and(|peer| !peer.revents().is_empty()) => return Ok(true),
                Ok(0) if left.is_some_and(|left| left.is_zero()) => return Err(io::ErrorKind::TimedOut.into()),
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Sleeps; returns false if a signal came first.
    pub fn sleep(&self, time: Duration) -> bool {
        let end = Instant::now() + time;
        while !self.is_heard() {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return true;
            }
            let left = Timespec::try_from(left).ok();
            // The loop reads the clock and the flag again, however the wait ended.
            let _ = poll(&mut [PollFd::new(&self.wakes, PollFlags::IN)], left.as_ref());
        }
        false
    }
}

impl AsFd for Interrupt {
    /// Returns a descriptor that is readable as soon as a signal has come.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wakes.as_fd()
    }
}
