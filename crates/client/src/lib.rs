//! A client of Redis, Valkey and Sleeve that never waits, and on demand the engine itself inside your program.
//!
//! ```toml
//! [dependencies]
//! sleeve = { version = "0.1", features = ["embedded"] } # without the feature: for servers alone
//! ```
//!
//! A [`Client`] is one cheap handle over one multiplexed connection. Clone it, and use it from any thread and in any async
//! runtime at the same time; it needs no runtime, because its connection has a thread of its own. A call sends at once and
//! returns a [`Reply`], which is awaited, waited for, given a callback, forgotten or dropped. So everything is pipelined,
//! without anyone asking for it:
//!
//! ```
//! # #[cfg(feature = "embedded")] {
//! use sleeve::{Client, prelude::*};
//!
//! let client = Client::connect("embedded://")?; // or "redis://localhost:6379", "valkeys://host", "unix:///run/redis.sock"
//! client.set("name", "Ann").forget(); // an error would reach the configuration's error hook
//! let name = client.get::<String>("name");
//! let visits = client.db(3).incr("visits"); // another database on the same connection
//! println!("{} was here {} times", name.wait()?, visits.wait()?);
//! # }
//! # Ok::<(), sleeve::Error>(())
//! ```
//!
//! In async code the same replies are awaited, whatever the runtime. What would block it (connecting, subscribing, closing)
//! has a form that does not:
//!
//! ```no_run
//! use sleeve::{Client, Error, prelude::*};
//!
//! async fn visit(user: &str) -> Result<i64, Error> {
//!     let client = Client::connect_async("valkey://localhost").await?;
//!     client.cmd("PING").send::<()>().await?; // any command by its name
//!     client.incr(format!("visits:{user}")).await
//! }
//! ```
//!
//! # Where the commands are
//!
//! Every command is a method with its own name in small letters (`ZADD` is `zadd`, `CONFIG SET` is `config_set`), in the
//! trait of its family. `use sleeve::prelude::*` brings all of them; the search of this page finds each.
//!
//! | family | for example |
//! | --- | --- |
//! | [`StringCommands`](prelude::StringCommands) | `get`, `set`, `set_with`, `incr`, `mget`, `append` |
//! | [`KeyCommands`](prelude::KeyCommands) | `del`, `exists`, `expire`, `ttl`, `rename`, `copy`, `dump`, `migrate` |
//! | [`HashCommands`](prelude::HashCommands) | `hget`, `hset`, `hgetall`, `hincrby`, `hexpire` |
//! | [`ListCommands`](prelude::ListCommands) | `lpush`, `rpop`, `lrange`, `lmove`, `sort` |
//! | [`SetCommands`](prelude::SetCommands) | `sadd`, `sismember`, `smembers`, `sinter`, `spop` |
//! | [`SortedSetCommands`](prelude::SortedSetCommands) | `zadd`, `zincrby`, `zrange`, `zrank`, `zunionstore` |
//! | [`StreamCommands`](prelude::StreamCommands) | `xadd`, `xread`, `xreadgroup`, `xack`, `xtrim` |
//! | [`GeoCommands`](prelude::GeoCommands), [`BitmapCommands`](prelude::BitmapCommands), [`HyperLogLogCommands`](prelude::HyperLogLogCommands) | `geosearch`, `setbit`, `pfadd` |
//! | [`ScanCommands`](prelude::ScanCommands) | `scan_all`, `sscan_all`, `hscan_all`, `zscan_all`: iterators and streams |
//! | [`BlockingCommands`](prelude::BlockingCommands) | `blpop`, `bzpopmin`: each on a connection that it has for itself |
//! | [`PubSubCommands`](prelude::PubSubCommands) | `publish`; to listen, [`Client::subscribe`] |
//! | [`ScriptCommands`](prelude::ScriptCommands) | `eval`, `fcall`, `function_load`; see also [`Script`] |
//! | [`ConnectionCommands`](prelude::ConnectionCommands), [`AdminCommands`](prelude::AdminCommands) | `ping`, `client_list`, `info`, `config_get`, `flushall` |
//!
//! Where a method is generic, its type is that of the whole answer: `get::<Option<String>>`, `mget::<Vec<Option<i64>>>`,
//! `hgetall::<HashMap<String, String>>`. The method with the command's name takes what the command needs; what it may be told
//! besides stands in the last argument of the same name with `_with`: `zadd_with("k", (1, "a"), AddOptions::new().if_absent())`.
//! Options are made by `new()` and said one after the other.
//!
//! # What else there is
//!
//! - [`Batch`]: commands that leave together. [`Transaction`]: commands that run as one, if their [`Condition`]s hold.
//!   [`Client::watch`]: read, decide and write, or begin again. [`Lease`]: a connection of one's own for a while.
//! - [`Subscription`]: channels as a stream of messages that outlives its connection, and gains and loses channels meanwhile.
//! - [`ToArg`], [`ToArgs`] and [`FromReply`]: which Rust values travel, and how to add one's own.
//! - [`Config`]: URLs, timeouts, the bound on the queue, reconnecting. A command that never left is sent on the next
//!   connection; one that left and was not answered fails, and [`Error::effect`] says what is known: [`Effect::None`] may be
//!   sent again, [`Effect::Unknown`] may have been executed.
//!
//! # Features
//!
//! - `tls` (on by default): `rediss://` and `valkeys://`, with rustls.
//! - `embedded`: `embedded://` and `Client::embedded()`, the engine inside the process; on Linux.
//!
//! Without `embedded` the client builds on macOS too.
#![warn(unreachable_pub)]

pub(crate) mod apart;
pub(crate) mod argument;
pub(crate) mod ask;
pub(crate) mod attempt;
pub(crate) mod batch;
pub(crate) mod bits;
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
pub(crate) mod intake;
pub(crate) mod io;
pub(crate) mod key_options;
pub(crate) mod lease;
pub(crate) mod link;
pub(crate) mod lone;
pub(crate) mod name;
#[cfg(not(feature = "tls"))]
pub(crate) mod no_tls;
pub(crate) mod number;
pub(crate) mod options;
pub(crate) mod origin;
pub(crate) mod patience;
pub(crate) mod payload;
pub(crate) mod pipe;
pub(crate) mod probe;
pub(crate) mod pubsub;
pub(crate) mod queued;
pub(crate) mod ranking;
pub(crate) mod read;
pub(crate) mod refusal;
pub(crate) mod reply;
pub(crate) mod request;
pub(crate) mod route;
pub(crate) mod scan;
pub(crate) mod script;
#[cfg(feature = "tls")]
pub(crate) mod seal;
pub(crate) mod segment;
pub(crate) mod shared;
#[cfg(test)]
mod simulation;
pub(crate) mod slot;
pub(crate) mod socket;
pub(crate) mod sorting;
pub(crate) mod stream;
pub(crate) mod sys;
pub(crate) mod timeout;
#[cfg(feature = "tls")]
pub(crate) mod tls;
pub(crate) mod transaction;
pub(crate) mod turn;
pub(crate) mod url;
pub(crate) mod value;
pub(crate) mod vigil;

pub use batch::Batch;
pub use bits::{BitField, BitRange};
pub use client::{Client, Db};
pub use cmd::Cmd;
pub use config::{Config, Endpoint, ErrorHook, Protocol, QueueFull};
pub use decode::FromReply;
pub use error::{Effect, Error, ErrorKind};
pub use geo::{GeoArea, GeoCentre, GeoOptions, GeoUnit};
pub use key_options::{CopyOptions, MembersScan, MigrateTarget, RestoreOptions, ScanOptions};
pub use lease::Lease;
pub use number::Number;
pub use options::{
    BitOperation, ClientFilter, ClientType, CommandFilter, ExpireIf, Expiry, FieldsIf, FlushMode, LcsOptions,
    PauseMode, RestorePolicy, SetOptions, Switch, Unblock,
};
pub use pubsub::news::{Message, News};
pub use pubsub::subscription::{Messages, Recv, Subscription};
pub use ranking::{AddOptions, CombineOptions, RankEnd, RankRange};
pub use reply::Reply;
pub use request::{Request, ToArg, ToArgs};
pub use scan::{Scan, ScanIter};
pub use script::{Runs, Script, ScriptReply};
#[cfg(feature = "tls")]
#[doc(hidden)]
pub use seal::Seal;
pub use sleeve_wire::frame::{Frame, FrameError, Items};
pub use sorting::{ListEnd, ListSide, PosOptions, SortOptions};
pub use stream::{ClaimOptions, GroupStart, ReadOptions, StreamTrim};
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
    pub use crate::commands::scan::ScanCommands;
    pub use crate::commands::script::ScriptCommands;
    pub use crate::commands::set::SetCommands;
    pub use crate::commands::sorted_set::SortedSetCommands;
    pub use crate::commands::stream::StreamCommands;
    pub use crate::commands::string::StringCommands;
}
