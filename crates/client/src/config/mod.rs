//! All settings of a client, with their defaults: from a URL, from methods, or from both.
//!
//! Pure data; reading a URL is in `url`. Any thread.

pub(crate) mod credentials;
pub(crate) mod endpoint;
pub(crate) mod event;
pub(crate) mod login_advice;
#[cfg(not(feature = "tls"))]
pub(crate) mod no_tls;
pub(crate) mod read_from;
#[cfg(feature = "tls")]
pub(crate) mod tls;
pub(crate) mod url;

use std::sync::Arc;
use std::time::Duration;

use crate::error::Error;
use crate::sys::callback::Foreign;
use credentials::{Credentials, Provider};
pub use endpoint::Endpoint;
use event::{Event, EventHook};
#[cfg(not(feature = "tls"))]
use no_tls::Tls;
use read_from::ReadFrom;
#[cfg(feature = "tls")]
use tls::Tls;

/// The behaviour of a call when the queue of unanswered requests is full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum QueueFull {
    /// The owner of the reply waits for room, for at most the command timeout. A future waits when it is awaited; a thread
    /// waits when it waits for the reply, hangs a callback on it, forgets or drops it. A thread that keeps many replies waits
    /// in the call itself once twice the bound is queued.
    #[default]
    Wait,
    /// The command fails with [`ErrorKind::QueueFull`](crate::ErrorKind::QueueFull) and is not sent.
    Fail,
}

/// The commands that are sent again by themselves after they had left: when their connection was lost, or when the server has
/// refused them for the moment.
///
/// A command that had not left whole was not executed, and always goes out on the next connection. Nor is a command executed
/// that the server refuses because it loads its data (`LOADING`), runs a script for long (`BUSY`), has lost its primary
/// (`MASTERDOWN`), or takes no writes any more while Sentinels know the server that does (`READONLY`). Any such command is
/// sent again after a pause, 10 ms at first and never more than 500 ms, until it times out. It leaves alone, and no later
/// command leaves on the connection before it is executed, except `SCRIPT KILL`, `FUNCTION KILL` and `SHUTDOWN NOSAVE`, which
/// leave at once. Only commands that were in flight already when it was refused may overtake it, if the server recovers
/// between the two. This does not hold in a [`Transaction`](crate::Transaction) or a [`Lease`](crate::Lease), nor for
/// scripts, which may return such an error themselves, nor for commands that end a script: there the error is returned at
/// once, with [`Effect::Refused`](crate::Effect::Refused).
///
/// ```
/// use sleeve::{Config, Resend};
///
/// let config = Config::from_url("redis://localhost")?.resend(Resend::Overwrites);
/// # Ok::<(), sleeve::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Resend {
    /// Commands that only read, as the command table knows them, for as long as they have time, and no more of them than a
    /// share of the server's answers. Messages that carry a number of their producer's (`XADD` with `IDMP` or `IDMPAUTO`),
    /// which the server adds once however often they arrive, are sent again too. Any other command that writes, or that waits
    /// on the server, never is.
    #[default]
    Reads,
    /// As `Reads`, and also writes that only overwrite: `SET` without a condition and without `GET`, `SETEX`, `PSETEX`,
    /// `MSET`, `HMSET`, `PFMERGE`. Executed twice in a row they leave and answer the same. But if another client has written
    /// the same key in between, the second time undoes that: for keys that have one writer, or with a last value that is as
    /// good as the one before.
    Overwrites,
    /// Sends no command again: every command that had left fails with [`Effect::Unknown`](crate::Effect::Unknown), and every
    /// command that was refused with the server's error.
    Nothing,
}

/// The protocol to ask the server for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Protocol {
    /// RESP3, and RESP2 where the server does not know it.
    #[default]
    Resp3,
    /// RESP2.
    Resp2,
}

/// The hook that is called with the errors of forgotten commands.
pub type ErrorHook = Arc<dyn Fn(&Error) + Send + Sync>;

/// The way to reach a server and to treat it.
///
/// ```
/// use std::time::Duration;
/// use sleeve::{Config, QueueFull};
///
/// let config = Config::from_url("redis://user:secret@localhost:6380/2?name=shop")?
///     .command_timeout(Some(Duration::from_secs(5)))
///     .queue_full(QueueFull::Fail);
/// # Ok::<(), sleeve::Error>(())
/// ```
#[derive(Clone)]
pub struct Config {
    pub(crate) endpoint: Endpoint,
    pub(crate) tls: Option<Tls>,
    pub(crate) login: Login,
    /// The login at the Sentinels; they have no provider.
    pub(crate) sentinel_login: Login,
    pub(crate) database: u32,
    pub(crate) name: Option<String>,
    pub(crate) protocol: Protocol,
    pub(crate) connect_timeout: Duration,
    pub(crate) command_timeout: Option<Duration>,
    pub(crate) silence_max: Option<Duration>,
    pub(crate) limits: Limits,
    pub(crate) retry: Retry,
    pub(crate) read_from: ReadFrom,
    pub(crate) same_machine: SameMachine,
    pub(crate) hooks: Hooks,
    /// Options of the embedded engine, with their values.
    pub(crate) settings: Vec<(String, String)>,
}

/// The user to log in as: given once, or by a provider that is asked whenever a connection is made.
#[derive(Clone, Default)]
pub(crate) struct Login {
    pub(crate) user: Option<String>,
    pub(crate) password: Option<String>,
    pub(crate) provider: Option<Provider>,
}

impl Login {
    /// Sets the user. A user without a password logs in with an empty one.
    pub(crate) fn set_user(&mut self, user: String) {
        self.user = Some(user);
        self.password.get_or_insert_default();
    }
}

/// The memory that requests and replies may take.
#[derive(Clone)]
pub(crate) struct Limits {
    pub(crate) queue_bytes_max: usize,
    pub(crate) queue_full: QueueFull,
    pub(crate) reply_bytes_max: usize,
}

/// The treatment of lost connections: which commands are sent again, and the pause before the next connection.
#[derive(Clone)]
pub(crate) struct Retry {
    pub(crate) resend: Resend,
    pub(crate) backoff_min: Duration,
    pub(crate) backoff_max: Duration,
}

/// The shortcuts to a server on the same machine.
#[derive(Clone)]
pub(crate) struct SameMachine {
    pub(crate) moves_to_unix_socket: bool,
    pub(crate) shares_memory: bool,
}

/// The application's code that is called with errors and events.
#[derive(Clone, Default)]
pub(crate) struct Hooks {
    pub(crate) error: Option<ErrorHook>,
    pub(crate) event: Option<EventHook>,
    /// The latency from which on a reply is an event.
    pub(crate) slow_after: Option<Duration>,
}

impl Default for Config {
    fn default() -> Self {
        Self::new(Endpoint::Tcp { host: "localhost".to_owned(), port: 6379 })
    }
}

impl Config {
    /// Creates the default configuration, for this server.
    pub fn new(endpoint: Endpoint) -> Self {
        Self {
            endpoint,
            tls: None,
            login: Login::default(),
            sentinel_login: Login::default(),
            database: 0,
            name: None,
            protocol: Protocol::default(),
            connect_timeout: Duration::from_secs(5),
            command_timeout: Some(Duration::from_secs(60)),
            silence_max: Some(Duration::from_secs(5)),
            limits: Limits {
                queue_bytes_max: 64 * 1024 * 1024,
                queue_full: QueueFull::default(),
                reply_bytes_max: 1024 * 1024 * 1024,
            },
            retry: Retry {
                resend: Resend::default(),
                backoff_min: Duration::from_millis(5),
                backoff_max: Duration::from_secs(2),
            },
            read_from: ReadFrom::default(),
            same_machine: SameMachine { moves_to_unix_socket: true, shares_memory: true },
            hooks: Hooks::default(),
            settings: Vec::new(),
        }
    }

    /// Sets an option of the embedded engine, as a configuration file has it: `("maxmemory", "10mb")`. Every option of a
    /// server's configuration is known, except those about a process or its sockets ([`Client::listen`] takes those).
    ///
    /// The option takes effect when the engine is created. A client that opens an existing engine by its name may only give
    /// the options that the engine has.
    ///
    /// [`Client::listen`]: crate::Client::open
    pub fn engine(mut self, option: impl Into<String>, value: impl Into<String>) -> Self {
        self.settings.push((option.into(), value.into()));
        self
    }

    /// Speaks TLS over TCP, as `rediss://` does.
    #[cfg(feature = "tls")]
    pub fn tls(mut self, tls: Tls) -> Self {
        self.tls = Some(tls);
        self
    }

    /// Sets the user to log in as; without this the server's default user. A user without a password logs in with an empty
    /// one.
    pub fn user(mut self, user: impl Into<String>) -> Self {
        self.login.set_user(user.into());
        self
    }

    /// Sets the password to log in with.
    pub fn password(mut self, password: impl Into<String>) -> Self {
        self.login.password = Some(password.into());
        self
    }

    /// Sets the provider that is asked for user and password whenever a connection is made, instead of [`user`](Config::user)
    /// and [`password`](Config::password): for secrets that are rotated, and tokens that run out.
    ///
    /// It runs on a thread of its own, so it may take its time, within the time that a connection may
    /// [take](Config::connect_timeout). Async code is run by its runtime's handle: `move || handle.block_on(fetch())`. Its
    /// credentials may say [when to ask again](Credentials::refresh_after); then the server is shown the new password on the
    /// living connection. Subscriptions are logged in once, and an engine in this process not at all. When the provider fails
    /// or needs more time, or the server refuses its credentials, the [event hook](Config::on_event) is called and there is
    /// another attempt; without a connection, commands wait for it. A call that hangs is left alone, and the provider is
    /// called again on another thread.
    ///
    /// ```
    /// use std::time::Duration;
    /// use sleeve::{Config, Credentials};
    ///
    /// let config = Config::from_url("rediss://cache.example.com")?.credentials(|| {
    ///     let token = std::fs::read_to_string("/run/secrets/cache-token")?;
    ///     Ok::<_, std::io::Error>(Credentials::new(token.trim()).user("shop").refresh_after(Duration::from_secs(600)))
    /// });
    /// # Ok::<(), sleeve::Error>(())
    /// ```
    pub fn credentials<E: Into<Box<dyn std::error::Error + Send + Sync>>>(
        mut self,
        provider: impl Fn() -> Result<Credentials, E> + Send + Sync + 'static,
    ) -> Self {
        self.login.provider = Some(Provider::new(provider));
        self
    }

    /// Sets the user to log in as at the Sentinels, which have users of their own; without this their default user.
    pub fn sentinel_user(mut self, user: impl Into<String>) -> Self {
        self.sentinel_login.set_user(user.into());
        self
    }

    /// Sets the password to log in with at the Sentinels; without this the client does not log in there.
    pub fn sentinel_password(mut self, password: impl Into<String>) -> Self {
        self.sentinel_login.password = Some(password.into());
        self
    }

    /// Sets the database that [`Client`](crate::Client) itself works on; 0 without this.
    pub fn database(mut self, database: u32) -> Self {
        self.database = database;
        self
    }

    /// Sets the name that CLIENT LIST shows.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Sets which protocol to ask for.
    pub fn protocol(mut self, protocol: Protocol) -> Self {
        self.protocol = protocol;
        self
    }

    /// Sets how long one attempt to connect and log in may take; 5 seconds without this.
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// Sets how long a command may take from its call to its answer, or `None` for as long as it takes; 60 seconds without
    /// this.
    ///
    /// It also bounds how long a command waits for a lost connection to come back. It is measured coarsely: up to a tenth
    /// later.
    pub fn command_timeout(mut self, timeout: Option<Duration>) -> Self {
        self.command_timeout = timeout;
        self
    }

    /// Sets how long a server may be silent while commands wait for their answers; 5 seconds without this, `None` for ever.
    ///
    /// A server that is silent for half of it is asked on a second connection, and the first is given up only when there is
    /// no answer there either, so that neither a long script nor a pause costs a connection. Twice as long may pass if
    /// nothing, or a command that waits, is in flight. It is measured coarsely: up to an eighth later. The node of a cluster
    /// is given up sooner, after a second or a fifth of this, if the others say that it has no slots any more.
    ///
    /// An idle connection sends a PING once in 5 to 9 seconds by default. A server with a shorter `timeout` closes it once. From
    /// then on the client sends a PING within half of the time after which that happened, also with `None`, so that the
    /// connection stays.
    pub fn silence_max(mut self, silence: Option<Duration>) -> Self {
        self.silence_max = silence;
        self
    }

    /// Sets how many bytes unanswered requests may take before a call waits or fails; 64 MiB without this. Each counts for
    /// its own bytes and 128 more, which is about the size of its entry.
    ///
    /// A caller that waits for the answer in its own way may exceed this by as much again.
    pub fn queue_bytes_max(mut self, bytes: usize) -> Self {
        self.limits.queue_bytes_max = bytes;
        self
    }

    /// Sets the behaviour of a call when that many bytes are unanswered.
    pub fn queue_full(mut self, policy: QueueFull) -> Self {
        self.limits.queue_full = policy;
        self
    }

    /// Sets the maximum length of one reply, or one message of a subscription, as it travels, in bytes; 1 GiB without this,
    /// which leaves room for the longest string of a server (512 MiB). Less than 64 KiB counts as that.
    ///
    /// It bounds the bytes that a server can make the client keep, for any data that it sends and any lengths that it claims:
    /// this number for each connection. A reply that turns out to be longer, or says that it will be, ends its connection.
    /// The call that it answers fails with [`ErrorKind::Protocol`](crate::ErrorKind::Protocol) and is not sent again;
    /// requests in flight behind it are treated as on any lost connection. Decoded values take their own memory: a list of
    /// short strings several times as much.
    pub fn reply_bytes_max(mut self, bytes: usize) -> Self {
        self.limits.reply_bytes_max = bytes;
        self
    }

    /// Sets how long to wait before reconnecting: `min` after the first failure, twice as long after each further one, never
    /// more than `max`, each shortened at random by up to a half. 5 ms and 2 s without this.
    pub fn backoff(mut self, min: Duration, max: Duration) -> Self {
        self.retry.backoff_min = min;
        self.retry.backoff_max = max.max(min);
        self
    }

    /// Sets which commands are sent again by themselves when their connection was lost, or the server has refused them for
    /// the moment. Without this, reads are sent again, and commands that were refused.
    pub fn resend(mut self, resend: Resend) -> Self {
        self.retry.resend = resend;
        self
    }

    /// Sets which servers reads may go to, in a cluster and behind Sentinels; the primary alone without this.
    ///
    /// A command goes to a replica only if it is sent by itself, and only reads keys that it names, by the command table.
    /// Transactions, batches, scripts, commands that may wait, calls that are [gathered](crate::Client::coalescing), leases
    /// and [`watch`](crate::Client::watch) stay with the primary.
    ///
    /// **No order is promised between a write and a read from a replica**: it may answer with the value from before the
    /// write, and two reads may go to two replicas, of which the second is behind the first.
    ///
    /// A read that a replica refuses, or that is lost with its connection, is sent to the primary, within the time that it
    /// has.
    pub fn read_from(mut self, servers: ReadFrom) -> Self {
        self.read_from = servers;
        self
    }

    /// Sets whether a connection over TCP moves to the server's Unix socket before it is used, if both are on one machine and
    /// the server offers that; it does without this.
    ///
    /// Sleeve offers it if it has one (`unixsocket`) and is not told otherwise (`unixsocket-offer`). The client logs in there
    /// as over TCP, and only if the process at that socket has proved to be the one at the other end of the connection over
    /// TCP. If the move does not succeed the connection stays as it is, without a word; with TLS it always does. CLIENT LIST
    /// shows the transport of a client. On Linux alone.
    pub fn unix_socket(mut self, moves: bool) -> Self {
        self.same_machine.moves_to_unix_socket = moves;
        self
    }

    /// Sets whether a connection over a Unix socket goes on through memory that it shares with the server, if the server
    /// hands some out; it does without this.
    ///
    /// Sleeve does (`unixsocket-rings`): two rings of 64 KiB a connection. The kernel need not carry the bytes that are
    /// written there. A caller that waits for a reply on a thread of its own busy polls for some microseconds before it
    /// sleeps, if that was of use before. CLIENT LIST shows which clients use it (`rings`). On Linux alone.
    pub fn shared_memory(mut self, shares: bool) -> Self {
        self.same_machine.shares_memory = shares;
        self
    }

    /// Sets the hook that is called with the error of a command with a [forgotten](crate::Reply::forget) reply.
    ///
    /// It runs on the callback thread, so it may take its time and may use the client.
    pub fn on_error(mut self, hook: impl Fn(&Error) + Send + Sync + 'static) -> Self {
        // The values that it has captured are the application's code as well, and a connection's task may be the last to have
        // it.
        let hook = Foreign::new(hook);
        self.hooks.error = Some(Arc::new(move |error| hook.get().into_iter().for_each(|hook| hook(error))));
        self
    }

    /// Sets the hook that is called with the events of the client's connections: made, refused, lost, and replies that took
    /// [long](Config::slow_after). An engine in this process has no connections.
    ///
    /// It runs on the callback thread, so it may take its time and may use the client.
    ///
    /// ```
    /// use std::time::Duration;
    /// use sleeve::Config;
    ///
    /// let config = Config::from_url("redis://localhost")?
    ///     .slow_after(Some(Duration::from_millis(100)))
    ///     .on_event(|event| eprintln!("sleeve: {event}")); // or feature `tracing`
    /// # Ok::<(), sleeve::Error>(())
    /// ```
    pub fn on_event(mut self, hook: impl Fn(&Event) + Send + Sync + 'static) -> Self {
        let hook = Foreign::new(hook);
        self.hooks.event = Some(Arc::new(move |event| hook.get().into_iter().for_each(|hook| hook(event))));
        self
    }

    /// Sets the latency from which on a reply is [reported](Config::on_event) as slow, with the cause of its wait; never
    /// without this. With feature `tracing` it is an event there, too.
    pub fn slow_after(mut self, time: Option<Duration>) -> Self {
        self.hooks.slow_after = time;
        self
    }
}

impl std::fmt::Debug for Config {
    /// Writes everything but the password, and the user if there is no password: it may be a password in the wrong place.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let has_password = self.login.password.as_ref().is_some_and(|password| !password.is_empty());
        f.debug_struct("Config")
            .field("endpoint", &self.endpoint)
            .field("user", &self.login.user.as_ref().filter(|_| has_password))
            .field("database", &self.database)
            .field("protocol", &self.protocol)
            .finish_non_exhaustive()
    }
}
