//! What the client asks of a system in that system's own way: a wake-up, a socket, a coarse clock.
//!
//! Linux has its own twin, because eventfd, flags at a socket's making and a clock without a look at the hardware are each
//! cheaper there. Every other Unix has the portable one. Both are tested on Linux; a build of Linux with
//! `--cfg sleeve_portable` uses the portable one throughout. Any thread.

#[cfg(all(target_os = "linux", not(sleeve_portable)))]
mod linux;
#[cfg(any(not(target_os = "linux"), sleeve_portable, test))]
mod portable;
#[cfg(test)]
mod tests;

#[cfg(all(target_os = "linux", not(sleeve_portable)))]
pub(crate) use linux::{
    CLOCK_TICK_MS, Event, SEND_FLAGS, clock_ms, clock_us, exact_clock_ms, stream, timespec, uptime_ms,
};
#[cfg(not(all(target_os = "linux", not(sleeve_portable))))]
pub(crate) use portable::{
    CLOCK_TICK_MS, Event, SEND_FLAGS, clock_ms, clock_us, exact_clock_ms, stream, timespec, uptime_ms,
};
