//! What asks: a client of Sleeve, Redis and Valkey that never waits.
//!
//! A [`Client`] is one cheap handle over one multiplexed connection. It may be cloned, and used from any thread and in any
//! async runtime at the same time; it needs none, because its connection has a thread of its own. A call sends at once and
//! returns a [`Reply`], which is awaited, waited for, given a callback, forgotten or dropped. So everything is pipelined,
//! without anyone asking for it:
//!
//! ```
//! # #[cfg(feature = "embedded")] {
//! use sleeve::{Client, prelude::*};
//!
//! let client = Client::connect("embedded://")?;
//! client.set("name", "Ann").forget(); // an error would reach the configuration's error hook
//! let name = client.get::<String>("name");
//! let visits = client.db(3).incr("visits"); // another database on the same connection
//! println!("{} was here {} times", name.wait()?, visits.wait()?);
//! # }
//! # Ok::<(), sleeve::Error>(())
//! ```
//!
//! In async code the same replies are awaited, whatever the runtime:
//!
//! ```no_run
//! use sleeve::{Client, Error, prelude::*};
//!
//! async fn visit(client: &Client, user: &str) -> Result<i64, Error> {
//!     client.cmd("PING").send::<()>().await?; // any command by its name
//!     client.incr(format!("visits:{user}")).await
//! }
//! ```
//!
//! - [`Batch`]: commands that leave together. [`Transaction`]: commands that run as one, if their [`Condition`]s hold.
//!   [`Client::watch`]: read, decide and write, or begin again. [`Lease`]: a connection of one's own for a while.
//! - Commands that wait on the server ([`BlockingCommands`](commands::blocking::BlockingCommands)): each has a connection for
//!   itself by itself, so that nobody waits with it.
//! - [`Client::subscribe`]: channels as a stream of messages that outlives its connection ([`Subscription`]).
//! - [`ToArg`], [`ToArgs`] and [`FromReply`]: which Rust values travel, and how to add one's own.
//! - [`Config`]: URLs (`redis://`, `unix://`, `embedded://`), timeouts, the bound on the queue, reconnecting. A command that
//!   never left is sent on the next connection; one that left and was not answered fails, and [`Error::effect`] says that
//!   nobody knows whether it was executed.
//! - With the feature `embedded`, `Client::embedded()` is the same over an engine inside the process.
//!
//! # Inside
//!
//! From top to bottom; a file uses only files below it. `client`, `batch`, `transaction`, `lease`, `subscription` (with
//! `listener` or `seat`; where calls begin) and `commands` (a line a command) → `origin`, `turn` (a connection for a command
//! that waits, as `patience` reads it), `route` (over a connection, or into an engine) → `io` (the connection's thread), with
//! `dial` and `handshake` (an `attempt` to connect) and `vigil` (is a silent server still there?), and
//! `lone` (a caller that reads for itself) → `read`, `link` (requests in, somebody writes them) → `intake` (frames to their
//! askers), `pipe` (**the spine**: order, databases, what a broken connection loses) → `segment`, `exchange` (a transaction on
//! the wire), `slot` (where an answer lands), `payload`, `request`, `decode`. `pipe` and `intake` take bytes and give bytes, so
//! that a whole life of cuts and timeouts is simulated in one thread from one seed.
#![warn(unreachable_pub)]

#[cfg(feature = "embedded")]
pub(crate) mod alarm;
pub(crate) mod argument;
pub(crate) mod ask;
pub(crate) mod attempt;
pub(crate) mod batch;
pub(crate) mod callback;
pub(crate) mod client;
pub(crate) mod cmd;
pub mod commands;
pub(crate) mod config;
pub(crate) mod counted;
pub(crate) mod decode;
pub(crate) mod dial;
#[cfg(feature = "embedded")]
pub(crate) mod embedded;
pub(crate) mod entry;
pub(crate) mod error;
pub(crate) mod exchange;
pub(crate) mod fork;
pub(crate) mod geo;
pub(crate) mod handshake;
#[cfg(feature = "embedded")]
pub(crate) mod house;
pub(crate) mod inbox;
pub(crate) mod intake;
pub(crate) mod io;
pub(crate) mod lease;
pub(crate) mod link;
pub(crate) mod listener;
pub(crate) mod lone;
pub(crate) mod news;
#[cfg(not(feature = "tls"))]
pub(crate) mod no_tls;
pub(crate) mod options;
pub(crate) mod origin;
pub(crate) mod patience;
pub(crate) mod payload;
pub(crate) mod pipe;
pub(crate) mod probe;
pub(crate) mod ranking;
pub(crate) mod read;
pub(crate) mod refusal;
pub(crate) mod reply;
pub(crate) mod request;
pub(crate) mod route;
pub(crate) mod script;
#[cfg(feature = "tls")]
pub(crate) mod seal;
#[cfg(feature = "embedded")]
pub(crate) mod seat;
pub(crate) mod segment;
#[cfg(test)]
mod simulation;
pub(crate) mod slot;
pub(crate) mod socket;
pub(crate) mod sorting;
pub(crate) mod stream;
pub(crate) mod subscription;
#[cfg(feature = "tls")]
pub(crate) mod tls;
pub(crate) mod transaction;
pub(crate) mod turn;
pub(crate) mod url;
pub(crate) mod value;
pub(crate) mod vigil;

pub use batch::Batch;
pub use client::{Client, Db};
pub use cmd::Cmd;
pub use config::{Config, Endpoint, ErrorHook, Protocol, QueueFull};
pub use decode::FromReply;
pub use error::{Effect, Error, ErrorKind};
pub use geo::{GeoArea, GeoCentre, GeoOptions, GeoUnit};
pub use lease::Lease;
pub use news::{Message, News};
pub use options::{
    BitField, BitOperation, BitRange, BitUnit, ClientFilter, ClientType, CommandFilter, CopyOptions, ExpireIf, Expiry,
    FieldsIf, FlushMode, LcsOptions, MembersScan, MigrateTarget, PauseMode, RestoreOptions, RestorePolicy, ScanOptions,
    SetOptions, Switch, Unblock,
};
pub use ranking::{AddOptions, CombineOptions, RankEnd, RankRange};
pub use reply::Reply;
pub use request::{Request, ToArg, ToArgs};
pub use script::{Runs, Script, ScriptReply};
#[cfg(feature = "tls")]
pub use seal::Seal;
pub use sleeve_wire::frame::{Frame, FrameError, Items};
pub use sorting::{ListEnd, ListSide, PosOptions, SortOptions};
pub use stream::{ClaimOptions, GroupStart, ReadOptions, StreamTrim};
pub use subscription::{Next, Subscription};
#[cfg(feature = "tls")]
pub use tls::Tls;
pub use transaction::{Condition, Transaction};
pub use value::Value;

/// The traits that carry the commands' methods: `use sleeve::prelude::*`.
pub mod prelude {
    pub use crate::ask::Ask;
    pub use crate::commands::admin::AdminCommands;
    pub use crate::commands::bitmap::BitmapCommands;
    pub use crate::commands::blocking::BlockingCommands;
    pub use crate::commands::connection::ConnectionCommands;
    pub use crate::commands::geo::GeoCommands;
    pub use crate::commands::hash::HashCommands;
    pub use crate::commands::hyperloglog::HyperLogLogCommands;
    pub use crate::commands::key::KeyCommands;
    pub use crate::commands::list::ListCommands;
    pub use crate::commands::pubsub::PubSubCommands;
    pub use crate::commands::script::ScriptCommands;
    pub use crate::commands::set::SetCommands;
    pub use crate::commands::sorted_set::SortedSetCommands;
    pub use crate::commands::stream::StreamCommands;
    pub use crate::commands::string::StringCommands;
}
