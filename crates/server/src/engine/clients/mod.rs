//! The shared state of clients: their rows in CLIENT LIST, their memory, the keys that they wait for, watch or have read; and
//! the number of workers that serve them.

pub(crate) mod blocking;
pub(crate) mod client_info;
pub(crate) mod client_memory;
pub(crate) mod crews;
pub(crate) mod tracking;
pub(crate) mod watch;
