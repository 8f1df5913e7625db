//! Faults for tests of the simulation: a test plants one of them, and the simulation has to find it. Only tests can plant
//! them.

#[cfg(test)]
use std::cell::Cell;

/// A fault that a test can plant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The primary sends a replica bytes that this server may still lose.
    SendsEarly,
    /// A replica removes expired keys by itself, and puts that into its journal.
    OwnEffects,
    /// A server goes on under the id that it had before it crashed.
    KeepsId,
    /// A primary counts the bytes that it has sent to a replica as applied.
    CountsSent,
    /// A server that has become a primary grants a partial sync to replicas of the previous primary that are ahead of the
    /// offset at which it became one.
    ContinuesAhead,
}

#[cfg(test)]
thread_local! {
    static PLANTED: Cell<Option<Fault>> = const { Cell::new(None) };
}

/// Plants a fault in this thread, or removes it.
#[cfg(test)]
pub fn plant(fault: Option<Fault>) {
    PLANTED.set(fault);
}

/// Returns whether this fault is planted. Outside of the tests of this crate none ever is.
#[inline]
pub fn has(fault: Fault) -> bool {
    #[cfg(test)]
    let planted = PLANTED.get();
    #[cfg(not(test))]
    let planted = None;
    planted == Some(fault)
}
