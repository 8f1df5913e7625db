//! A simulation's time, random numbers and network in one thread, in place of the machine's: for tests alone.
//!
//! While a simulation is on, it sets the clocks and draws the random numbers. A connection is one end of a pair of sockets,
//! the other end of which is in the simulation. So connections live in one thread, and behave the same again from the same
//! seed.

use std::cell::{Cell, RefCell};
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// The function that makes a connection to an address.
type Connect = Box<dyn FnMut(&SocketAddr) -> io::Result<OwnedFd>>;

thread_local! {
    /// The time at which the simulation has begun, and the value of its clock then and now, in microseconds.
    static NOW: Cell<Option<(Instant, u64, u64)>> = const { Cell::new(None) };
    static CHANCE: Cell<u64> = const { Cell::new(0) };
    static CONNECT: RefCell<Option<Connect>> = const { RefCell::new(None) };
}

/// A simulation in this thread, until this value is dropped.
pub(crate) struct On(());

impl On {
    /// Begins a simulation with this clock; `connect` makes the connections.
    pub(crate) fn begin(clock_us: u64, seed: u64, connect: Connect) -> Self {
        NOW.set(Some((Instant::now(), clock_us, clock_us)));
        CHANCE.set(seed);
        CONNECT.replace(Some(connect));
        Self(())
    }

    /// Sets the clock.
    pub(crate) fn set_clock_us(&self, clock_us: u64) {
        NOW.set(NOW.get().map(|(began, first, _)| (began, first, clock_us)));
    }
}

impl Drop for On {
    fn drop(&mut self) {
        NOW.set(None);
        CONNECT.take();
    }
}

/// Returns the simulation's time, if one is on.
pub(super) fn now() -> Option<Instant> {
    NOW.get().map(|(began, first, clock_us)| began + Duration::from_micros(clock_us - first))
}

/// Returns the value of the simulation's clock, in microseconds.
pub(super) fn clock_us() -> Option<u64> {
    NOW.get().map(|(_, _, clock_us)| clock_us)
}

/// Returns the simulation's next random number (SplitMix64, Steele and others 2014).
pub(super) fn chance() -> Option<u64> {
    NOW.get()?;
    let seed = CHANCE.get().wrapping_add(0x9E37_79B9_7F4A_7C15);
    CHANCE.set(seed);
    let mixed = (seed ^ (seed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    Some(mixed ^ (mixed >> 31))
}

/// Opens a connection to this address in the simulation, if one is on.
pub(super) fn connect(address: &SocketAddr) -> Option<io::Result<OwnedFd>> {
    NOW.get()?;
    CONNECT.with_borrow_mut(|connect| connect.as_mut().map(|connect| connect(address)))
}
