//! Events on Linux: epoll, edge-triggered.
//!
//! A socket is registered once, for as long as it lives, and each of its events is reported once: no system call in each turn
//! says which events are wanted, and another thread may read arrived bytes without repeated reports. On the reactor's thread
//! alone.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;

use crate::reactor::state::{NOBODY, Readiness};
use crate::sys::{Event, timespec};

/// The largest number of events that one wait returns.
const EVENTS_MAX: usize = 256;

const ARMED: EventFlags = EventFlags::IN.union(EventFlags::OUT).union(EventFlags::RDHUP).union(EventFlags::ET);
const DISARMED: EventFlags = EventFlags::ET;
const HUNG_UP: EventFlags = EventFlags::RDHUP.union(EventFlags::HUP).union(EventFlags::ERR);

/// The sockets of all tasks.
pub(crate) struct Poller {
    epoll: OwnedFd,
    event: Event,
}

/// The result of a wait: tasks and their events.
pub(crate) struct Events(Vec<epoll::Event>);

impl Events {
    pub(crate) fn new() -> Self {
        Self(Vec::with_capacity(EVENTS_MAX))
    }

    /// Returns whether the wait reported no event.
    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes the events.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = (u64, Readiness)> {
        self.0.drain(..).filter_map(|event| {
            let (flags, number) = (event.flags, event.data.u64());
            let hung_up = flags.intersects(HUNG_UP);
            let readable = hung_up || flags.contains(EventFlags::IN);
            let writable = hung_up || flags.contains(EventFlags::OUT);
            (number != NOBODY).then_some((number, Readiness { readable, writable, hung_up, woken: false }))
        })
    }
}

impl Poller {
    pub(crate) fn new() -> io::Result<Self> {
        let (epoll, event) = (epoll::create(CreateFlags::CLOEXEC)?, Event::new()?);
        // Each raising of the event is reported once (edge-triggered), so it need not be cleared.
        epoll::add(&epoll, &event, EventData::new_u64(NOBODY), EventFlags::IN | EventFlags::ET)?;
        Ok(Self { epoll, event })
    }

    /// Ends the present or the next wait.
    pub(crate) fn wake(&self) {
        self.event.raise();
    }

    /// Reports events of this stream under this number. Present readiness is reported too.
    pub(crate) fn add(&self, stream: &impl AsFd, number: u64) -> io::Result<()> {
        Ok(epoll::add(&self.epoll, stream, EventData::new_u64(number), ARMED)?)
    }

    /// Goes on reporting arrivals. Room for writing is always reported, once.
    pub(crate) fn arm(&self, stream: &impl AsFd, number: u64, was_armed: bool, _writes: bool) -> io::Result<()> {
        if was_armed {
            return Ok(());
        }
        Ok(epoll::modify(&self.epoll, stream, EventData::new_u64(number), ARMED)?)
    }

    /// Stops the reports of a stream, except that of its end.
    pub(crate) fn disarm(&self, stream: &impl AsFd, number: u64) -> io::Result<()> {
        Ok(epoll::modify(&self.epoll, stream, EventData::new_u64(number), DISARMED)?)
    }

    /// Stops all reports of a stream. A descriptor of the same stream in a forked process would otherwise keep it registered
    /// here.
    pub(crate) fn remove(&self, stream: &impl AsFd) {
        // This fails only if the stream was never added.
        let _ = epoll::delete(&self.epoll, stream);
    }

    /// Waits until an event arrives, or for this long.
    pub(crate) fn wait(&self, events: &mut Events, timeout: Option<Duration>) -> io::Result<()> {
        let mut timeout = timeout.map(timespec);
        if let Some(short) = timeout.filter(|timeout| timeout.tv_sec == 0 && (1..1_000_000).contains(&timeout.tv_nsec))
        {
            // The timeout of epoll_wait is in milliseconds on older kernels, so a shorter wait polls the epoll descriptor.
            match poll(&mut [PollFd::new(&self.epoll, PollFlags::IN)], Some(&short)) {
                Ok(0) | Err(Errno::INTR) => return Ok(()),
                Ok(_) => timeout = Some(timespec(Duration::ZERO)),
                Err(error) => return Err(error.into()),
            }
        }
        match epoll::wait(&self.epoll, spare_capacity(&mut events.0), timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}
