//! The server side: the engine, embedded in a process or behind sockets.
//!
//! [`Engine`] is one running Sleeve. [`Local::open`] opens a session in the caller's thread; [`boot`] serves it over TCP
//! and Unix sockets.
//!
//! # The modules, from top to bottom
//!
//! A module uses only modules below it.
//!
//! | module | contents |
//! | --- | --- |
//! | `boot` | A server process starts and stops: its configuration, listeners, workers, signals. |
//! | `worker` | One thread with its driver, its connections and their sessions; letters from other threads; limits. |
//! | `peers` | The threads that speak with other servers: that of a replica, which follows a primary and applies its journal, and that of a cluster's node. |
//! | `loading` | The data comes back: from the AOF, from a snapshot, from a primary. |
//! | `session` | One client: bytes in, requests cut out of them, replies out; over sockets, or in the caller's own thread. |
//! | `execute` | The spine, and the only way in which a command runs: gates, locks, the command, the clients served by its change. |
//! | `commands` | The commands, a folder or file for each family, and the table that says which function runs which row. |
//! | `lua` | Scripts: the interpreter, the libraries that scripts find, commands called by them. |
//! | `context` | The view and the means of a running command: keys with their deadlines, effects, eviction, permissions, notifications. |
//! | `engine` | The shared state of all threads of one engine: clients, waiting keys, watched keys, scripts, the journal, the AOF and the snapshots, replicas, counters and times; below them the knowledge of each type of value, next to its commands. |
//! | `net` | How bytes arrive and leave: the drivers on epoll, io_uring or tokio, listening sockets, TLS. |
//! | `messaging` | The subscribers of each channel, and the letters that carry messages between threads. |
//! | `host` | The services of the process and the machine: time, memory, the server log. |
//! | `config` | The table of options, and configuration files. |
//! | `acl` | Users and their permissions. |
//! | `request` | A request as a command sees it, and the reply as it is built; the texts of errors. |

#[cfg(not(target_os = "linux"))]
compile_error!(
    "sleeve-server runs on Linux alone: it is built on epoll and on how Linux gives memory. Elsewhere use the client \
     (package `sleeve` without its feature \"embedded\") and a server on a Linux machine, or in a container."
);

mod acl;
pub mod boot;
mod commands;
pub mod config;
mod context;
pub mod engine;
mod execute;
pub mod host;
pub mod loading;
mod lua;
mod messaging;
mod net;
pub mod peers;
mod request;
mod session;
#[cfg(test)]
mod simulation;
mod worker;

pub use crate::config::{Config, Opt};
pub use crate::engine::Engine;
pub use crate::engine::persistence::shutdown::may_end;
pub use crate::engine::replication::Id;
pub use crate::engine::replication::primary::when_replicas_have;
pub use crate::engine::replication::role::Address;
pub use crate::engine::replication::role_change::follow_primary;
pub use crate::execute::replay::{Refused, Replay};
pub use crate::peers::follower::link;
pub use crate::session::local::{Closed, Local};

/// The version of Redis with this behaviour, for clients that decide by it.
pub const REDIS_VERSION: &str = "7.2.0";
