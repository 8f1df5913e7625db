//! What everybody may know of the clients: their rows in CLIENT LIST, the memory that they take, the keys that they wait for,
//! watch or have read; and how many workers serve them.

pub(crate) mod blocking;
pub(crate) mod client_info;
pub(crate) mod client_memory;
pub(crate) mod crews;
pub(crate) mod monitor_line;
pub(crate) mod tracking;
pub(crate) mod watch;
