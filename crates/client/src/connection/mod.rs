//! One connection: the way to a server that has greeted, its owner, its writers and readers, its life as a task of the
//! reactor, and the check whether a silent server is still there.
//!
//! - `connect` leads from an endpoint to a connection that has been greeted.
//! - `link` owns the lock: a caller sends and writes there; `send` has the other forms of requests, and the bound on the
//!   queue; `owner` lends, pools and closes it.
//! - `task` connects, writes the bytes that are left for it, and reads with `read`, in which callers read as well.
//! - `fail_pending` fails the requests that get no answer, `refusals` sends those again that the server has refused for the
//!   moment, `durability` waits for the disk and the replicas, `tracker` reports writes to the cache.
//! - `heartbeat` judges a silence, and `probe` asks the server on another connection.

pub(crate) mod connect;
mod driver;
mod durability;
mod fail_pending;
pub(crate) mod heartbeat;
mod link;
pub(crate) mod metrics;
mod owner;
pub(crate) mod probe;
mod read;
mod readers;
mod refusals;
pub(crate) mod send;
mod state;
pub(crate) mod task;
mod tracker;

pub(crate) use link::Link;
#[cfg(feature = "embedded")]
pub(crate) use link::no_such_database;
