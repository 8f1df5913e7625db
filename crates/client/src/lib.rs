//! What asks: a Redis client that never waits.
#![warn(unreachable_pub)]

pub(crate) mod argument;
pub(crate) mod ask;
pub(crate) mod batch;
pub(crate) mod callback;
pub(crate) mod client;
pub(crate) mod cmd;
pub mod commands;
pub(crate) mod config;
pub(crate) mod decode;
#[cfg(feature = "embedded")]
pub(crate) mod embedded;
pub(crate) mod entry;
pub(crate) mod error;
pub(crate) mod exchange;
pub(crate) mod handshake;
pub(crate) mod intake;
pub(crate) mod io;
pub(crate) mod lease;
pub(crate) mod link;
pub(crate) mod lone;
pub(crate) mod options;
pub(crate) mod origin;
pub(crate) mod payload;
pub(crate) mod pipe;
pub(crate) mod read;
pub(crate) mod refusal;
pub(crate) mod reply;
pub(crate) mod request;
pub(crate) mod route;
#[cfg(test)]
mod simulation;
pub(crate) mod slot;
pub(crate) mod socket;
pub(crate) mod transaction;
pub(crate) mod url;
pub(crate) mod value;

pub use batch::Batch;
pub use client::{Client, Db};
pub use cmd::Cmd;
pub use config::{Config, Endpoint, ErrorHook, Protocol, QueueFull};
pub use decode::FromReply;
pub use error::{Effect, Error, ErrorKind};
pub use lease::Lease;
pub use options::{
    BitField, BitOperation, BitRange, BitUnit, ClientFilter, ClientType, CommandFilter, CopyOptions, ExpireIf, Expiry,
    FlushMode, LcsOptions, PauseMode, ScanOptions, SetOptions, Switch, Unblock,
};
pub use reply::Reply;
pub use request::{Request, ToArg, ToArgs};
pub use sleeve_wire::frame::Frame;
pub use transaction::{Condition, Transaction};
pub use value::Value;

/// The traits that carry the commands' methods: `use sleeve::prelude::*`.
pub mod prelude {
    pub use crate::ask::Ask;
    pub use crate::commands::admin::AdminCommands;
    pub use crate::commands::bitmap::BitmapCommands;
    pub use crate::commands::connection::ConnectionCommands;
    pub use crate::commands::key::KeyCommands;
    pub use crate::commands::string::StringCommands;
}
