//! The system's report of events: twins with the same calls, of which one is chosen here.

#[cfg(all(target_os = "linux", not(sleeve_portable)))]
mod epoll;
#[cfg(any(not(target_os = "linux"), sleeve_portable, test))]
pub(super) mod poll;

#[cfg(all(target_os = "linux", not(sleeve_portable)))]
pub(super) use epoll::{Events, Poller};
#[cfg(not(all(target_os = "linux", not(sleeve_portable))))]
pub(super) use poll::{Events, Poller};

/// True if an arrival is reported once, and not for as long as it is unread.
pub(super) const REPORTS_ONCE: bool = cfg!(all(target_os = "linux", not(sleeve_portable)));
