//! A client of Redis, Valkey and Sleeve that never waits, and on demand the engine itself inside your program.
//!
//! ```toml
//! [dependencies]
//! sleeve = { version = "0.1", features = ["embedded"] } # without the feature: for servers alone
//! ```
//!
//! A [`Client`] is one cheap handle over one multiplexed connection. Clone it, and use it from any thread and in any async
//! runtime at the same time; it needs no runtime, because all connections of a process share a thread of their own (with the
//! feature `tokio` the runtime of the waiting tasks does that thread's reading). A call sends at once and returns a
//! [`Reply`], which is awaited, waited for, given a callback, forgotten or dropped. So everything
//! is pipelined, without any request for it:
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
//! In async code the same replies are awaited, in any runtime. Each call that would block it (connecting, subscribing,
//! closing) has a form that does not:
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
//! If a method is generic, its type is that of the whole answer: `get::<Option<String>>`, `mget::<Vec<Option<i64>>>`,
//! `hgetall::<HashMap<String, String>>`. The method with the command's name takes the arguments that the command needs; its
//! options are the last argument of the method of the same name with `_with`: `zadd_with("k", (1, "a"),
//! AddOptions::new().if_absent())`. Options are made by `new()` and set one after the other.
//!
//! # Further features of the API
//!
//! - [`Batch`]: commands that leave together. [`Transaction`]: commands that are executed as one, if their [`Condition`]s
//!   hold. [`Client::watch`]: read, decide and write, or begin again. [`Lease`]: a connection for one caller for a while.
//! - [`Client::at`]: calls with a deadline, which holds in every phase of a call.
//! - [`Client::lanes`]: large calls take a second connection by themselves; [`Client::priority`]: calls of any size on a
//!   second connection.
//! - [`Client::timed`]: the times for which a reply was queued, travelled, waited to be taken and was decoded.
//! - [`Coalescing`]: calls that are gathered for a moment and leave as commands for many, SETs as MSET, with the same
//!   replies.
//! - [`Subscription`]: channels as a stream of messages that outlives its connection, with channels that can be added and
//!   removed.
//! - [`Consumer`]: the entries of a stream's group as a stream, each at least once, with acknowledgements and a graceful end.
//! - [`Client::cached`]: reads that are answered in this process, from replies that the server invalidates.
//! - [`Reply::synced`]: the answer once the command's effect is on the server's disk.
//! - [`ToArg`], [`ToArgs`] and [`FromReply`]: which Rust values travel, and how to add one's own or derive it ([`Fields`]);
//!   [`each`] for iterators, [`Text`] for values that are written as a text (UUIDs, dates, URLs).
//! - [`Key`]: the name of a key, or of many with one prefix, with the type of its value.
//! - [`Reply::map`]: transform an answer before it is there.
//! - `testing`: engines for tests, with a clock that the test advances, a seed, and faults on demand.
//! - [`Endpoint::Sentinel`]: the primary of a service, found by its Sentinels and followed when it changes:
//!   `redis+sentinel://host1,host2/service`. [`Config::read_from`]: reads from replicas, there and in a cluster.
//! - [`Client::metrics`]: the metrics of the connection, as a page for Prometheus; [`Config::on_event`]: its events, and the
//!   replies that took long, with the causes.
//! - [`Config`]: URLs, timeouts, the bound on the queue, reconnecting. A command that never left is sent on the next
//!   connection. A command that left and was not answered is sent again if it only reads. A command that the server has
//!   refused for the moment is sent again in any case ([`Resend`]). A command that may have written fails, and
//!   [`Error::effect`] says how much is known: [`Effect::None`] and [`Effect::Refused`] may be sent again,
//!   [`Effect::Unknown`] may have been executed.
//!
//! # Features
//!
//! - `tls` (on by default): `rediss://` and `valkeys://`, with rustls.
//! - `embedded`: `embedded://` and `Client::embedded()`, the engine inside the process; on Linux.
//! - `serde`: `Json` and `MsgPack`, for all types that serde writes and reads.
//! - `tokio`: tasks of a tokio runtime with I/O enabled read their replies in the runtime's own event loop, so that an awaited
//!   call wakes no other thread. A runtime without I/O leaves the reading to the thread of the connections; tokio then prints
//!   its message on disabled I/O once, and a program that aborts on panics ends with it.
//! - `tracing`: connections, slow replies ([`Config::slow_after`]) and calls that fail are events of the crate `tracing`,
//!   with target `sleeve`; a call that fails belongs to its caller's span.
//!
//! Without `embedded` the client builds on macOS too, and with Rust 1.88; the engine needs Rust 1.95.
#![warn(unreachable_pub)]

// The rooms, from top to bottom; a room uses only rooms below it.
//
// | room | content |
// | --- | --- |
// | `api` | Handles on which calls begin: clients, databases, batches, transactions, leases, scans, scripts. |
// | `commands` | The commands as methods, one line each. |
// | `pubsub` | Subscriptions: over a connection of their own, or in the embedded engine. |
// | `lanes` | A second connection for large calls, and the order of the calls on both. |
// | `cache` | The near cache: reads that are answered in this process from replies that the server invalidates. |
// | `transport` | The destinations of requests: a connection, a cluster, or an engine in this process. |
// | `reply` | A reply in flight: all ways to wait for it, and the wait for the disk. |
// | `connection` | One connection's life: the way to a greeted server, its writer, its reader, whether the server is still there. |
// | `reactor` | One thread for all connections: the order of its tasks, and the events that it waits for. |
// | `pipe` | The centre: the bytes to write, the askers that wait for the replies, the loss of a broken connection. |
// | `resp` | A command as the bytes that travel, Rust values as its arguments and options, and replies as Rust values. |
// | `config` | The settings of a client; URLs. |
// | `sys` | The system's calls, on Linux and elsewhere; forks, locks that a forked child can use, threads for foreign code. |
// | `error` | The errors of a command, and whether it may have been executed all the same. |

mod api;
mod cache;
pub mod commands;
mod config;
mod connection;
mod error;
mod lanes;
mod pipe;
mod pubsub;
mod reactor;
mod reply;
mod resp;
#[cfg(test)]
mod simulation;
mod sys;
mod transport;

pub use crate::api::at::At;
pub use crate::api::batch::Batch;
pub use crate::api::cached::Cached;
pub use crate::api::cmd::Cmd;
pub use crate::api::coalesce::handle::Coalescing;
pub use crate::api::coalesce::options::CoalesceOptions;
pub use crate::api::consumer::entry::{Delivery, Entry};
pub use crate::api::consumer::handle::ConsumerHandle;
pub use crate::api::consumer::{Consumer, Entries};
pub use crate::api::handles::{Client, Db};
pub use crate::api::lanes::handle::Lanes;
pub use crate::api::lanes::priority::Priority;
pub use crate::api::lease::Lease;
pub use crate::api::scan::{Scan, ScanIter};
pub use crate::api::script::{Runs, Script, ScriptReply};
pub use crate::api::timed::Timed;
pub use crate::api::transaction::{Condition, Transaction};
pub use crate::api::typed_key::Key;
pub use crate::cache::options::CacheOptions;
pub use crate::cache::stats::CacheStats;
pub use crate::config::credentials::Credentials;
pub use crate::config::event::{Event, EventHook, SlowCause};
pub use crate::config::read_from::ReadFrom;
#[cfg(feature = "tls")]
pub use crate::config::tls::Tls;
#[cfg(feature = "tls")]
#[doc(hidden)]
pub use crate::config::url::ServerUrl;
pub use crate::config::{Config, Endpoint, ErrorHook, Protocol, QueueFull, Resend};
#[cfg(feature = "tls")]
#[doc(hidden)]
pub use crate::connection::connect::tls_session::TlsSession;
pub use crate::connection::metrics::{Latency, Metrics, Role};
pub use crate::error::{Effect, Error, ErrorKind};
pub use crate::lanes::options::LaneOptions;
pub use crate::pubsub::event::{Message, SubscriptionEvent};
pub use crate::pubsub::subscription::{Messages, Recv, Subscription};
pub use crate::reply::Reply;
#[doc(hidden)]
pub use crate::reply::by_hand::PipeByHand;
pub use crate::reply::mapped::Mapped;
pub use crate::reply::synced::Synced;
pub use crate::reply::timed::{TimedReply, Timing};
pub use crate::resp::argument::{Each, each};
pub use crate::resp::decode::FromReply;
pub use crate::resp::fields::{Fields, Row};
#[cfg(feature = "serde")]
pub use crate::resp::json::Json;
#[cfg(feature = "serde")]
pub use crate::resp::msgpack::MsgPack;
pub use crate::resp::number::Number;
pub use crate::resp::options::bits::{BitField, BitRange};
pub use crate::resp::options::geo::{GeoArea, GeoCentre, GeoOptions, GeoUnit};
pub use crate::resp::options::key::{CopyOptions, MembersScan, MigrateTarget, RestoreOptions, ScanOptions};
pub use crate::resp::options::list::{ListEnd, ListSide, PosOptions, SortOptions};
pub use crate::resp::options::sorted_set::{AddOptions, CombineOptions, RankEnd, RankRange};
pub use crate::resp::options::stream::{ClaimOptions, ConsumerOptions, GroupStart, ReadOptions, StreamTrim};
pub use crate::resp::options::{
    BitOperation, ClientFilter, ClientType, CommandFilter, ExpireIf, Expiry, FieldsIf, FlushMode, LcsOptions,
    PauseMode, RestorePolicy, SetOptions, Switch, Unblock,
};
pub use crate::resp::request::{Request, ToArg, ToArgs};
pub use crate::resp::text::Text;
pub use crate::resp::value::Value;
pub use sleeve_derive::{FromReply, ToArg, ToArgs};
pub use sleeve_wire::frame::{Frame, FrameError, Items};

/// The embedded engine as the test double of a program that uses a server: see [`Engine`](testing::Engine). With feature
/// `embedded`.
#[cfg(feature = "embedded")]
pub mod testing {
    pub use crate::api::testing::Engine;
    pub use crate::api::testing::faults::Fault;
}

/// The functions and traits that the code of the derives calls.
///
/// Types that the derives do not take are refused while the program is compiled:
///
/// ```compile_fail
/// #[derive(sleeve::FromReply)]
/// struct Pair(i64, i64);
/// ```
/// ```compile_fail
/// #[derive(sleeve::FromReply)]
/// struct Twice { name: String, #[sleeve(rename = "name")] other: String }
/// ```
/// ```compile_fail
/// #[derive(sleeve::ToArg)]
/// struct Several(Vec<String>);
/// ```
/// ```compile_fail
/// #[derive(sleeve::ToArg)]
/// struct Fields { name: String }
/// ```
/// ```compile_fail
/// #[derive(sleeve::ToArgs)]
/// enum Shape { Circle(f64) }
/// ```
/// ```compile_fail
/// #[derive(sleeve::FromReply)]
/// struct Unknown { #[sleeve(renamed = "n")] name: String }
/// ```
#[doc(hidden)]
pub mod derived {
    pub use crate::resp::fields::{Found, by_name, is_nothing, within, word, write_field, write_one};
}

/// The traits that carry the commands' methods: `use sleeve::prelude::*`.
pub mod prelude {
    pub use crate::api::scan::commands::ScanCommands;
    pub use crate::commands::admin::AdminCommands;
    pub use crate::commands::ask::Ask;
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

/// The pages with examples that are run with the tests.
#[cfg(all(doctest, feature = "embedded", feature = "serde"))]
mod pages {
    #[doc = include_str!("../../../docs/coming-from-clients.md")]
    struct ComingFromClients;
    #[doc = include_str!("../../../docs/cookbook.md")]
    struct Cookbook;
}
