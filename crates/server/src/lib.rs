//! What serves: the engine, embedded in a process or behind sockets.
//!
//! [`Engine`] is one running Sleeve. [`Engine::connect`] opens a session in the caller's thread; [`boot`] serves it over
//! TCP and Unix sockets.

#[cfg(not(target_os = "linux"))]
compile_error!(
    "sleeve-server runs on Linux alone: it is built on epoll and on how Linux gives memory. Elsewhere use the client \
     (package `sleeve` without its feature \"embedded\") and a server on a Linux machine, or in a container."
);

pub mod allocator;
pub mod boot;
pub mod check;
pub mod clock;
pub mod config;
pub mod engine;
pub mod histogram;
mod invalidation;
mod journal;
mod latency;
pub mod local;

mod access;
mod acl;
mod audience;
mod blocking;
mod busy;
mod candidates;
mod client_memory;
mod commands;
mod crash;
mod cx;
mod desk;
mod doors;
mod driver;
mod error;
mod execute;
mod expire;
mod failure;
mod field_expiry;
mod footprint;
mod free;
mod gates;
mod gauge;
mod locks;
mod log;
mod lua;
mod mail;
mod message;
mod monitor;
mod names;
mod notify;
mod oom;
mod outbox;
mod output;
mod patience;
mod pause;
mod peer;
mod prepare;
mod process;
mod publish;
mod pubsub;
mod queue;
mod request;
mod secrets;
mod serve;
mod session;
mod signals;
mod slowlog;
mod state;
mod stats;
mod subscription;
mod supervisor;
mod target;
mod title;
mod tls;
mod tracking;
mod watch;
mod worker;
mod zone;

pub use config::{Config, Opt};
pub use engine::Engine;
pub use local::{Closed, Local};

/// The version of Redis whose behaviour this is, for clients that decide by it.
pub const REDIS_VERSION: &str = "7.2.0";
