//! The twin for every Unix but Linux: each wait names all sockets again, as POSIX requires.
//!
//! A socket that was reported is not watched again until its task waits for it again. A task costs a second descriptor here,
//! so that a wait never names one that is closed.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;

use crate::reactor::state::Readiness;
use crate::sys::lock::Mutex;
use crate::sys::{Event, timespec};

/// The sockets of all tasks.
pub(crate) struct Poller {
    event: Event,
    /// The watched sockets. The lock is held during a wait; sockets are added and removed on the thread that waits.
    entries: Mutex<Vec<WatchedSocket>>,
}

/// A socket that is watched.
struct WatchedSocket {
    /// The descriptor by which the task knows the socket.
    known_as: RawFd,
    stream: OwnedFd,
    number: u64,
    /// The wanted events.
    flags: PollFlags,
}

/// The result of a wait: tasks and their events.
pub(crate) struct Events(Vec<(u64, Readiness)>);

impl Events {
    pub(crate) fn new() -> Self {
        Self(Vec::new())
    }

    /// Returns whether the wait reported no event.
    #[cfg(all(test, any(not(target_os = "linux"), sleeve_portable)))]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes the events.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = (u64, Readiness)> {
        self.0.drain(..)
    }
}

impl Poller {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self { event: Event::new()?, entries: Mutex::default() })
    }

    /// Ends the present or the next wait.
    pub(crate) fn wake(&self) {
        self.event.raise();
    }

    /// Reports events of this stream under this number. Present readiness is reported too.
    pub(crate) fn add(&self, stream: &impl AsFd, number: u64) -> io::Result<()> {
        let stream = stream.as_fd();
        let entry = WatchedSocket {
            known_as: stream.as_raw_fd(),
            stream: stream.try_clone_to_owned()?,
            number,
            flags: PollFlags::IN | PollFlags::OUT,
        };
        self.entries.lock().push(entry);
        Ok(())
    }

    /// Goes on reporting arrivals, and room for writing if `writes`.
    pub(crate) fn arm(&self, stream: &impl AsFd, _number: u64, _was_armed: bool, writes: bool) -> io::Result<()> {
        self.look_for(stream, if writes { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN });
        Ok(())
    }

    /// Stops the reports of a stream, except that of its end.
    pub(crate) fn disarm(&self, stream: &impl AsFd, _number: u64) -> io::Result<()> {
        self.look_for(stream, PollFlags::empty());
        Ok(())
    }

    fn look_for(&self, stream: &impl AsFd, flags: PollFlags) {
        let known_as = stream.as_fd().as_raw_fd();
        if let Some(entry) = self.entries.lock().iter_mut().find(|entry| entry.known_as == known_as) {
            entry.flags = flags;
        }
    }

    /// Stops all reports of a stream.
    pub(crate) fn remove(&self, stream: &impl AsFd) {
        let known_as = stream.as_fd().as_raw_fd();
        self.entries.lock().retain(|entry| entry.known_as != known_as);
    }

    /// Waits until an event arrives, or for this long.
    pub(crate) fn wait(&self, events: &mut Events, timeout: Option<Duration>) -> io::Result<()> {
        let mut entries = self.entries.lock();
        let timeout = timeout.map(timespec);
        // A socket that hung up and was reported is left out: it would end every wait.
        let looked_for = || entries.iter().filter(|entry| !entry.flags.is_empty());
        let mut fds: Vec<PollFd<'_>> = looked_for().map(|entry| PollFd::new(&entry.stream, entry.flags)).collect();
        fds.push(PollFd::new(&self.event, PollFlags::IN));
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) => {}
            Err(Errno::INTR) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
        let found: Vec<PollFlags> = fds.iter().map(PollFd::revents).collect();
        drop(fds);
        if found.last().is_some_and(|flags| !flags.is_empty()) {
            self.event.clear();
        }
        let looked_for = entries.iter_mut().filter(|entry| !entry.flags.is_empty());
        for (entry, flags) in looked_for.zip(found).filter(|(_, flags)| !flags.is_empty()) {
            let hung_up = flags.intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL);
            let readable = hung_up || flags.contains(PollFlags::IN);
            let writable = hung_up || flags.contains(PollFlags::OUT);
            entry.flags -= flags;
            if hung_up {
                entry.flags = PollFlags::empty();
            }
            events.0.push((entry.number, Readiness { readable, writable, hung_up, woken: false }));
        }
        Ok(())
    }
}
