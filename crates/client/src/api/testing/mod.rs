//! The embedded engine as a test double: a clock that the test turns, a seed, and faults on demand.
//!
//! The engine is the one of a server, with another clock. Clients in this process call it in their own threads; all others,
//! in any language, reach it at an address of this machine (`link`), where the faults happen as well. Any thread.

pub(crate) mod faults;
mod link;

use std::hash::{BuildHasher, RandomState};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use sleeve_server::Local;
use sleeve_server::host::clock::Instant;

use super::handles::Client;
use crate::api::origin::Origin;
use crate::config::{Config, Endpoint};
use crate::error::{Error, ErrorKind};
use crate::sys::lock::Mutex;
use crate::transport::Transport;
use crate::transport::embedded::Embedded;
use crate::transport::embedded::engines::EngineInstance;
use faults::{Fault, Faults};
use link::Link;

/// The time at which an engine with a seed begins: the first second of the year 2025, in microseconds.
const SEEDED_START_US: i64 = 1_735_689_600_000_000;

/// An engine for one test: empty, with no other user in it, and gone with its last handle and client. Its clock stands until
/// the test turns it.
///
/// ```
/// use std::time::Duration;
/// use sleeve::testing::Engine;
/// use sleeve::{Expiry, SetOptions, prelude::*};
///
/// let engine = Engine::new();
/// let client = engine.client(); // each call runs in this thread, without a socket
/// let minute = SetOptions::new().expiry(Expiry::After(Duration::from_secs(60)));
/// client.set_with::<()>("session", "Ann", minute).wait()?;
///
/// engine.advance(Duration::from_secs(59));
/// assert_eq!(client.pttl("session").wait()?, 1_000);
/// engine.advance(Duration::from_secs(2));
/// assert_eq!(client.get::<Option<String>>("session").wait()?, None);
/// # Ok::<(), sleeve::Error>(())
/// ```
///
/// Code that needs a URL, in any language, gets an address of this machine; there faults can be had:
///
/// ```
/// use sleeve::testing::{Engine, Fault};
/// use sleeve::{Client, Effect, ErrorKind, prelude::*};
///
/// let engine = Engine::new();
/// let client = Client::connect(&engine.url()?)?; // or redis-py, Lettuce, redis-cli, ...
///
/// // The third write from now is executed, and the connection breaks before the answer has come.
/// engine.fault(Fault::cut_after().on_writes().skip(2));
/// client.incr("a").wait()?;
/// client.incr("a").wait()?;
/// let error = client.incr("a").wait().unwrap_err();
/// assert_eq!((error.kind(), error.effect()), (ErrorKind::Disconnected, Effect::Unknown));
/// assert_eq!(client.get::<i64>("a").wait()?, 3);
/// # Ok::<(), sleeve::Error>(())
/// ```
///
/// With a seed everything that is random is drawn from it, and the clock begins at the same time, so that a test that failed
/// can be run again: the same calls get the same replies, to the byte.
///
/// ```
/// use sleeve::testing::Engine;
/// use sleeve::prelude::*;
///
/// let draw = || {
///     let client = Engine::seeded(7).client();
///     client.sadd("names", ["Ann", "Bob", "Cid", "Dan"]).wait()?;
///     client.srandmember::<String>("names").wait()
/// };
/// assert_eq!(draw()?, draw()?);
/// # Ok::<(), sleeve::Error>(())
/// ```
#[derive(Clone)]
pub struct Engine {
    inner: Arc<Inner>,
}

struct Inner {
    instance: Arc<EngineInstance>,
    seed: u64,
    faults: Arc<Faults>,
    /// The listener of the address; none before the address is asked for.
    link: Mutex<Option<Link>>,
    /// A session without a client, which is run so that the engine notices the passing of time.
    passing: Mutex<Local>,
}

impl Engine {
    /// Creates an empty engine with a clock that stands at the present time.
    pub fn new() -> Self {
        let seed = RandomState::new().hash_one(0);
        Self::begin(seed, Instant::now(), &[]).expect("an engine without options begins")
    }

    /// Creates an engine that begins from a seed, at the same time for each seed: midnight of 1 January 2025, UTC.
    pub fn seeded(seed: u64) -> Self {
        Self::seeded_with::<&str>(seed, []).expect("an engine without options begins")
    }

    /// Creates an engine as [`seeded`](Engine::seeded) does, with options of the engine's configuration: `[("maxmemory",
    /// "1mb")]`.
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`](crate::ErrorKind::Configuration) for an option that is unknown, or none of an engine.
    pub fn seeded_with<T: Into<String>>(seed: u64, options: impl IntoIterator<Item = (T, T)>) -> Result<Self, Error> {
        let start = Instant { wall_us: SEEDED_START_US, monotonic_us: 1_000_000 };
        let settings: Vec<_> = options.into_iter().map(|(option, value)| (option.into(), value.into())).collect();
        Self::begin(seed, start, &settings)
    }

    fn begin(seed: u64, now: Instant, settings: &[(String, String)]) -> Result<Self, Error> {
        let instance = EngineInstance::at_manual_clock(settings, seed, now)?;
        let passing = Mutex::new(instance.clock.connect(&instance.engine, || {}));
        let inner = Inner { instance, seed, faults: Arc::default(), link: Mutex::default(), passing };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Returns the seed, to be printed by a test that fails.
    pub fn seed(&self) -> u64 {
        self.inner.seed
    }

    /// Returns a client with calls that run in the threads that make them. It uses no link, so it meets no faults.
    pub fn client(&self) -> Client {
        let transport = Transport::Local(Embedded::open_in(Arc::clone(&self.inner.instance)));
        Client { origin: Origin::new(transport), database: 0 }
    }

    /// Returns an address of this machine at which clients of any kind reach the engine, for as long as the engine exists.
    ///
    /// # Errors
    /// [`ErrorKind::Connect`](crate::ErrorKind::Connect) when the system gives no port or no thread.
    pub fn address(&self) -> Result<SocketAddr, Error> {
        let mut link = self.inner.link.lock();
        if let Some(link) = &*link {
            return Ok(link.address());
        }
        let (instance, faults) = (Arc::clone(&self.inner.instance), Arc::clone(&self.inner.faults));
        let opened = Link::open((Ipv4Addr::LOCALHOST, 0).into(), instance, faults);
        let opened =
            opened.map_err(|error| Error::unsent(ErrorKind::Connect, format!("the engine has no address: {error}")))?;
        Ok(link.insert(opened).address())
    }

    /// Returns the address as a URL.
    ///
    /// # Errors
    /// As for [`address`](Engine::address).
    pub fn url(&self) -> Result<String, Error> {
        self.address().map(|address| format!("redis://{address}"))
    }

    /// Connects a client that reaches the engine through its address, so that it meets the faults.
    ///
    /// # Errors
    /// As for [`Client::connect`].
    pub fn connect(&self) -> Result<Client, Error> {
        let address = self.address()?;
        let endpoint = Endpoint::Tcp { host: address.ip().to_string(), port: address.port() };
        Client::connect_with(Config::new(endpoint))
    }

    /// Turns the clock forward. Keys with deadlines before the new time are expired (as in a server, a key still exists in
    /// the millisecond of its deadline). If the clock is turned by a tenth of a second or more, they have been removed, with
    /// their events, when this returns. Blocked commands with timeouts that have passed are answered.
    pub fn advance(&self, by: Duration) {
        let clock = &self.inner.instance.clock;
        clock.advance(by);
        // The session fails only if other code has ended all clients; then there is nothing to do.
        let _ = clock.exchange(&mut self.inner.passing.lock(), &[], &mut Vec::new());
    }

    /// Returns the time of the engine's clock.
    pub fn now(&self) -> SystemTime {
        let wall_us = u64::try_from(self.inner.instance.clock.now().wall_us).unwrap_or_default();
        SystemTime::UNIX_EPOCH + Duration::from_micros(wall_us)
    }

    /// Adds a fault for clients at the address; see [`Fault`]. Faults are checked in the order in which they were added.
    pub fn fault(&self, fault: Fault) {
        self.inner.faults.add(fault);
    }

    /// Removes all faults that have not happened yet.
    pub fn heal(&self) {
        self.inner.faults.clear();
    }

    /// Breaks all connections to the address, now. A client that connects again is served.
    pub fn cut(&self) {
        if let Some(link) = &*self.inner.link.lock() {
            link.cut();
        }
    }

    /// Breaks all connections to the address, and each new one, until [`up`](Engine::up).
    pub fn down(&self) {
        self.inner.faults.set_down(true);
        self.cut();
    }

    /// Serves the address again after [`down`](Engine::down).
    pub fn up(&self) {
        self.inner.faults.set_down(false);
    }
}

impl Default for Engine {
    fn default() -> Self {
        Self::new()
    }
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").field("seed", &self.inner.seed).finish_non_exhaustive()
    }
}
