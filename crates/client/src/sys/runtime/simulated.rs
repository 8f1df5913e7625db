//! Runtimes of a simulation, in one thread: for tests alone.
//!
//! As in tokio, events are those of an edge-triggered epoll, a report stays until the bytes behind it were read, and wakers
//! are called by the runtime's own round ([`drive`]), which the simulation calls when it likes.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};

use crate::sys::timespec;

thread_local! {
    /// The runtime that has its turn.
    static CURRENT: Cell<Option<u64>> = const { Cell::new(None) };
    static RUNTIMES: RefCell<BTreeMap<u64, Runtime>> = const { RefCell::new(BTreeMap::new()) };
    static SOCKETS: Cell<u64> = const { Cell::new(0) };
    /// The number of reads by runtimes.
    static READS: Cell<u64> = const { Cell::new(0) };
}

/// A runtime's sockets.
struct Runtime {
    epoll: OwnedFd,
    sockets: BTreeMap<u64, Socket>,
}

#[derive(Default)]
struct Socket {
    is_ready: bool,
    waker: Option<Waker>,
}

/// Returns the runtime that has its turn.
pub(super) fn current() -> Option<u64> {
    CURRENT.get()
}

/// Starts a runtime of this number.
pub(crate) fn start(number: u64) {
    let epoll = epoll::create(CreateFlags::CLOEXEC).expect("an epoll descriptor");
    RUNTIMES.with_borrow_mut(|runtimes| runtimes.insert(number, Runtime { epoll, sockets: BTreeMap::new() }));
}

/// Ends a runtime: its sockets report an error from now on.
pub(crate) fn end(number: u64) {
    let ended = RUNTIMES.with_borrow_mut(|runtimes| runtimes.remove(&number));
    wake_in(
        number,
        ended.into_iter().flat_map(|runtime| runtime.sockets.into_values()).filter_map(|socket| socket.waker),
    );
}

/// Returns the number of reads by runtimes in this thread since the last call.
pub(crate) fn take_reads() -> u64 {
    READS.take()
}

/// Runs a turn of this runtime's task.
pub(crate) fn in_turn<T>(number: u64, turn: impl FnOnce() -> T) -> T {
    let before = CURRENT.replace(Some(number));
    let result = turn();
    CURRENT.set(before);
    result
}

/// Takes the events of a runtime's sockets, and calls their wakers. Returns whether there were any.
pub(crate) fn drive(number: u64) -> bool {
    let mut events = Vec::with_capacity(64);
    let wakers: Vec<Waker> = RUNTIMES.with_borrow_mut(|runtimes| {
        let Some(runtime) = runtimes.get_mut(&number) else { return Vec::new() };
        epoll::wait(&runtime.epoll, spare_capacity(&mut events), Some(&timespec(Duration::ZERO))).expect("events");
        let sockets = &mut runtime.sockets;
        let woken = events.iter().filter_map(|event| {
            let socket = sockets.get_mut(&event.data.u64())?;
            socket.is_ready = true;
            socket.waker.take()
        });
        woken.collect()
    });
    wake_in(number, wakers.into_iter());
    !events.is_empty()
}

fn wake_in(number: u64, wakers: impl Iterator<Item = Waker>) {
    in_turn(number, || wakers.for_each(Waker::wake));
}

/// A socket that a simulated runtime watches.
pub(crate) struct Watched {
    runtime: u64,
    number: u64,
    second: OwnedFd,
}

impl Watched {
    pub(super) fn new(socket: &impl AsFd) -> io::Result<Self> {
        let runtime = CURRENT.get().expect("a runtime has its turn");
        let (number, second) = (SOCKETS.replace(SOCKETS.get() + 1), socket.as_fd().try_clone_to_owned()?);
        RUNTIMES.with_borrow_mut(|runtimes| {
            let runtime = runtimes.get_mut(&runtime).ok_or(io::ErrorKind::NotFound)?;
            let flags = EventFlags::IN | EventFlags::RDHUP | EventFlags::ET;
            epoll::add(&runtime.epoll, &second, EventData::new_u64(number), flags)?;
            runtime.sockets.insert(number, Socket::default());
            Ok(Self { runtime: CURRENT.get().expect("as before"), number, second })
        })
    }

    fn with<T>(&self, act: impl FnOnce(&mut Socket) -> T) -> Option<T> {
        RUNTIMES
            .with_borrow_mut(|runtimes| Some(act(runtimes.get_mut(&self.runtime)?.sockets.get_mut(&self.number)?)))
    }

    pub(super) fn poll_readable(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let is_ready = self.with(|socket| {
            if !socket.is_ready {
                socket.waker = Some(context.waker().clone());
            }
            socket.is_ready
        });
        match is_ready {
            Some(false) => Poll::Pending,
            Some(true) => Poll::Ready(Ok(())),
            None => Poll::Ready(Err(io::Error::other("the runtime has ended"))),
        }
    }

    pub(super) fn read(&self, read: impl FnOnce() -> bool) {
        READS.set(READS.get() + 1);
        let has_read_all = read();
        _ = self.with(|socket| socket.is_ready = !has_read_all);
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        RUNTIMES.with_borrow_mut(|runtimes| {
            if let Some(runtime) = runtimes.get_mut(&self.runtime) {
                _ = epoll::delete(&runtime.epoll, &self.second);
                runtime.sockets.remove(&self.number);
            }
        });
    }
}
