//! One engine: everything that its threads share.
//!
//! An [`Engine`] is data and locks; it runs nothing by itself. Sessions in the caller's thread (`session/local`) and workers
//! behind a listener (`boot`) work on the same engine at the same time. Dropping the last handle ends it.

mod answer;
pub(crate) mod clients;
mod failure;
pub mod journal;
pub(crate) mod keyspace;
pub(crate) mod migrate_target;
pub(crate) mod observe;
pub mod origin;
pub(crate) mod pause;
pub(crate) mod persistence;
pub(crate) mod readiness;
pub(crate) mod replication;
pub(crate) mod scripts;
pub(crate) mod values;
pub(crate) mod watchdog;

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use sleeve_disk::disk::Disk;
use sleeve_store::{Options, SHARDS_MAX, Store};

use crate::acl::Acl;
use crate::config::{Config, Opt};
use crate::engine::observe::hot_keys::HotKeys;
use crate::engine::observe::latency::Latency;
use crate::engine::observe::rates::Rates;
use crate::engine::observe::slowlog::SlowLog;
use crate::engine::observe::stats::Stats;
use crate::host::clock::{Instant, Ticker};
use crate::host::dice::Dice;
use crate::host::lazy_free::LazyFree;
use crate::host::waiting;
use crate::messaging::mail::{Letter, Mailbox};
use crate::messaging::pubsub::PubSub;
use crate::net::DriverKind;
use crate::net::listeners::Listeners;
use crate::net::tls::Tls;
use crate::request::renamed_commands::RenamedCommands;
use clients::Clients;
use clients::blocking::Blocking;
use clients::client_memory::ClientMemory;
use clients::crews::Crews;
use clients::tracking::Tracking;
use clients::watch::Watches;
use journal::{Journal, ShardOffsets};
use keyspace::eviction_pool::Candidates;
use keyspace::locks::AllOrEach;
use keyspace::memory_accounting::{Estimate, MemoryUse};
use migrate_target::Targets;
use origin::Origin;
use pause::Pause;
use persistence::Persistence;
use readiness::Readiness;
use replication::{Id, Replication};
use scripts::Scripts;
use watchdog::Watchdog;

/// Databases, configuration, journal, clients and counters of one running Sleeve.
pub struct Engine {
    /// The data.
    pub store: Store,
    /// The lock that lets one command have all shards, or any number go from shard to shard.
    pub(crate) all_or_each: AllOrEach,
    /// The options.
    pub config: Config,
    /// The names of the commands.
    pub names: RenamedCommands,
    /// The log of effects.
    pub journal: Arc<Journal>,
    /// The offset of the AOF for each shard.
    pub(crate) offsets: ShardOffsets,
    /// The users and their permissions.
    pub acl: Acl,
    /// The clients.
    pub clients: Clients,
    /// The memory of all clients together.
    pub client_memory: ClientMemory,
    /// The counters.
    pub stats: Stats,
    /// The latest slow commands.
    pub slowlog: SlowLog,
    /// The collection of the keys that take most.
    pub(crate) hot_keys: HotKeys,
    /// The times of slow events.
    pub latency: Latency,
    /// Rates and peaks.
    pub rates: Rates,
    /// About how much memory is in use.
    pub estimate: Estimate,
    /// The watchers of each key.
    pub watches: Watches,
    /// The blocked clients of each key.
    pub blocking: Blocking,
    /// The subscribers of each channel.
    pub pubsub: PubSub,
    /// The scripts and libraries.
    pub scripts: Arc<Scripts>,
    /// The best keys to evict when memory is short.
    pub candidates: Candidates,
    /// The clients that must be sent invalidations of the keys that they have read.
    pub tracking: Tracking,
    /// Connections to other servers, which MIGRATE may use again.
    pub targets: Targets,
    /// The offsets up to which the journal is durable, and the files for it and the data.
    pub persistence: Persistence,
    /// The servers that follow this one.
    pub replication: Replication,
    /// The disk with those files.
    pub(crate) disk: Arc<dyn Disk>,
    /// CLIENT PAUSE.
    pub pause: Pause,
    /// The conditions that keep the engine from serving all requests.
    pub readiness: Readiness,
    /// An AOF is being applied, which itself records the expired keys.
    pub(crate) is_replaying: AtomicBool,
    /// The time at which the engine was made.
    pub started: Instant,
    /// The converter from the counters' ticks to time.
    pub ticker: Ticker,
    /// The source of the threads' seeds.
    dice: Mutex<Dice>,
    /// 40 random hexadecimal digits, new with every start.
    pub run_id: String,
    /// The queue and threads that free large values.
    pub lazy_free: LazyFree,
    /// DEBUG SET-ACTIVE-EXPIRE and the like.
    pub debug: Debug,
    /// The watchdog, which logs when clients are not served.
    pub(crate) watchdog: Arc<Watchdog>,
    /// The sockets that the options name.
    pub listeners: Listeners,
    /// The TLS configuration of new connections.
    pub tls: Tls,
    /// The port that is served, 0 when none is.
    pub port: AtomicU32,
    /// The kind of its workers' drivers.
    pub(crate) io: Mutex<DriverKind>,
    /// The number of its workers.
    pub(crate) crews: Crews,
    mailboxes: Mutex<Vec<Arc<Mailbox>>>,
    /// The number of engines that this process had begun before.
    number: u64,
    /// Itself, for threads that it starts.
    own: Weak<Self>,
    /// The reason for the engine's end, once it has ended.
    failure: OnceLock<String>,
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").field("run_id", &self.run_id).finish_non_exhaustive()
    }
}

/// The number of engines that this process has begun.
static BEGUN: AtomicU64 = AtomicU64::new(0);

/// The switches of DEBUG.
#[derive(Debug)]
pub struct Debug {
    /// True if keys expire without being accessed.
    pub active_expire: AtomicBool,
    /// True if scripts may call commands that are not for scripts.
    pub allows_all_to_scripts: AtomicBool,
    /// True if the checksums of payloads and snapshots are not checked.
    pub skips_checksums: AtomicBool,
    /// Microseconds to wait before each write to the AOF.
    pub log_delay_us: AtomicU64,
    /// The size in bytes from which on an element of a list is stored alone; 0 for the limit of its packs.
    pub packed_threshold: std::sync::atomic::AtomicUsize,
    /// The end of DEBUG SLEEP, until which no client is served, in monotonic milliseconds; see [`Engine::sleep_out`].
    pub asleep_until_ms: AtomicU64,
    /// True if INCR and its like have a race (`commands/string/seeded_bug`). Only builds with debug assertions use it.
    #[cfg(debug_assertions)]
    pub seeded_bug: AtomicBool,
    /// True if a reply that has only read is sent at once. Only builds with debug assertions use it.
    #[cfg(debug_assertions)]
    pub reads_do_not_wait: AtomicBool,
}

impl Engine {
    /// An empty engine. No thread is started, no file is touched.
    pub fn new(config: Config) -> Arc<Self> {
        Self::begin(config, Origin::of_machine())
    }

    /// Begins an engine with an origin that the caller names.
    pub fn begin(config: Config, origin: Origin) -> Arc<Self> {
        let Origin { now, secret, run_id, replication_id, seed, ticker, disk } = origin;
        let options = Options { databases: config.number(Opt::Databases) as usize, shards: shards_of(&config), secret };
        Arc::new_cyclic(|own: &Weak<Self>| Self {
            store: Store::new(options),
            all_or_each: AllOrEach::new(()),
            journal: Arc::new(Journal::new(config.number(Opt::JournalMaxBytes) as usize)),
            offsets: ShardOffsets::new(options.shards),
            acl: acl_of(&config),
            names: config.names(),
            config,
            clients: Clients::default(),
            client_memory: ClientMemory::default(),
            stats: Stats::default(),
            slowlog: SlowLog::default(),
            hot_keys: HotKeys::default(),
            latency: Latency::default(),
            rates: Rates::default(),
            estimate: Estimate::new(options.shards),
            watches: Watches::default(),
            blocking: Blocking::default(),
            pubsub: PubSub::default(),
            scripts: Arc::default(),
            candidates: Candidates::default(),
            tracking: Tracking::default(),
            targets: Targets::default(),
            persistence: Persistence::new(now),
            replication: Replication::new(Id::of_bytes(replication_id)),
            disk,
            pause: Pause::default(),
            readiness: Readiness::default(),
            is_replaying: AtomicBool::new(false),
            started: now,
            ticker,
            dice: Mutex::new(Dice::new(seed)),
            run_id: run_id.iter().map(|byte| format!("{byte:02x}")).collect(),
            lazy_free: LazyFree::new(fail_on_panic("sleeve-free", Weak::clone(own))),
            debug: Debug {
                active_expire: true.into(),
                allows_all_to_scripts: false.into(),
                skips_checksums: false.into(),
                log_delay_us: 0.into(),
                asleep_until_ms: 0.into(),
                packed_threshold: 0.into(),
                #[cfg(debug_assertions)]
                seeded_bug: false.into(),
                #[cfg(debug_assertions)]
                reads_do_not_wait: false.into(),
            },
            watchdog: Arc::default(),
            listeners: Listeners::default(),
            tls: Tls::default(),
            port: AtomicU32::new(0),
            io: Mutex::new(DriverKind::Epoll),
            crews: Crews::default(),
            mailboxes: Mutex::default(),
            number: BEGUN.fetch_add(1, Ordering::Relaxed),
            own: Weak::clone(own),
            failure: OnceLock::new(),
        })
    }

    /// Returns the source of random numbers for a thread that begins.
    pub(crate) fn dice(&self) -> Dice {
        Dice::new(self.dice.lock().number())
    }

    /// Adds a mailbox that gets letters for all threads.
    pub fn enter_mailbox(&self, mailbox: &Arc<Mailbox>) {
        self.mailboxes.lock().push(Arc::clone(mailbox));
    }

    /// Removes a mailbox after the end of its owner.
    pub fn leave_mailbox(&self, mailbox: &Arc<Mailbox>) {
        self.mailboxes.lock().retain(|other| !Arc::ptr_eq(other, mailbox));
    }

    /// Returns the ticks from which on a command may have been slow, 0 for all commands, and the bytes from which on its
    /// request or its reply may be large. While HOTKEYS collects, all commands are both.
    #[inline]
    pub fn conspicuous(&self) -> (u64, usize) {
        if self.hot_keys.is_collecting() {
            return (0, 0);
        }
        (self.config.slow_ticks(), self.config.large_bytes())
    }

    /// Tells all threads that a pause may have ended.
    pub fn post_resume(&self) {
        self.mailboxes().iter().for_each(|mailbox| mailbox.post(Letter::Resume));
    }

    /// Tells all threads that users may have fewer permissions now.
    pub fn post_users(&self) {
        self.mailboxes().iter().for_each(|mailbox| mailbox.post(Letter::Users));
    }

    /// Stops the whole server for so long: DEBUG SLEEP. All shards are locked. Workers that need none are told by letter, and
    /// the link to a primary checks for it.
    pub fn sleep(&self, time: Duration, now: Instant) {
        let until_ms = now.monotonic_ms().saturating_add(u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
        self.debug.asleep_until_ms.store(until_ms, Ordering::Relaxed);
        self.mailboxes().iter().for_each(|mailbox| mailbox.post(Letter::Sleep));
        waiting::sleep(time);
    }

    /// Waits until the end of DEBUG SLEEP, if one runs at this time.
    pub fn sleep_out(&self, now_ms: u64) {
        let left_ms = self.debug.asleep_until_ms.load(Ordering::Relaxed).saturating_sub(now_ms);
        if left_ms != 0 {
            waiting::sleep(Duration::from_millis(left_ms));
        }
    }

    /// Tells all threads to stop.
    pub fn post_stop(&self) {
        self.listeners.shut();
        self.mailboxes().iter().for_each(|mailbox| mailbox.post(Letter::Stop));
        // Mailboxes that were added in the meantime are told too. Those that are added later find that the others have been
        // told.
        self.mailboxes().iter().filter(|mailbox| !mailbox.is_stopped()).for_each(|mailbox| mailbox.post(Letter::Stop));
    }

    /// Returns the number of mailboxes, for tests of their removal.
    #[cfg(test)]
    pub(crate) fn mailbox_count(&self) -> usize {
        self.mailboxes.lock().len()
    }

    /// Returns all mailboxes. It is a copy: posting calls the owner's own code, which may add or remove mailboxes.
    pub(crate) fn mailboxes(&self) -> Vec<Arc<Mailbox>> {
        self.mailboxes.lock().clone()
    }

    /// Background rounds a second for the clients that there are.
    pub fn rounds_a_second(&self) -> u32 {
        self.config.rounds_a_second(self.clients.len())
    }

    /// Closes idle connections, and samples rates and peaks if that is due. Every thread that ticks calls it, with no shard
    /// locked. It does not wait for a shard that is in use: the last size of that shard is good enough.
    pub fn sample(&self, now: Instant) {
        let now_ms = now.monotonic_ms();
        self.targets.sweep(now_ms);
        if !self.rates.is_due(now_ms) {
            return;
        }
        if self.rates.are_samples_old(now_ms) {
            self.stats.halve_key_samples();
        }
        for index in 0..self.store.shards() {
            if let Some(shard) = self.store.try_lock(index) {
                self.estimate.note(index, shard.memory());
            }
        }
        self.rates.sample(now_ms, self.stats.traffic(), self.estimate.shards() + self.weigh_overhead().overhead());
    }

    /// About how many bytes everything takes that is compared with `maxmemory`, while that is set. Costs a few loads.
    #[inline]
    pub fn estimated_bytes(&self) -> u64 {
        self.estimate.total() + self.client_memory.sum()
    }

    /// Updates the part of the estimate that is in no shard, and returns all of that memory.
    fn weigh_overhead(&self) -> MemoryUse {
        let memory_use = self.memory_use(0);
        self.estimate.note_overhead(memory_use.overhead() - memory_use.uncounted() - memory_use.clients);
        memory_use
    }

    /// The bytes of everything. Locks each shard once, so the caller holds none.
    pub fn used_bytes(&self) -> u64 {
        for index in 0..self.store.shards() {
            self.estimate.note(index, self.store.lock(index).memory());
        }
        self.estimate.shards() + self.weigh_overhead().overhead()
    }

    /// Returns the use of memory, with `data_bytes` for the shards. No shard is locked for it.
    pub fn memory_use(&self, data_bytes: u64) -> MemoryUse {
        let (scripts, libraries) = (&self.scripts, self.scripts.libraries());
        let (clients, replicas) = self.clients.bytes();
        MemoryUse {
            data: data_bytes,
            fixed: self.estimate.startup().max(self.store.fixed_memory() as u64),
            journal: self.journal.memory(),
            clients: clients as u64,
            replicas: replicas as u64,
            scripts: scripts.size().1 as u64,
            functions: libraries.bytes() as u64,
            tracking: self.tracking.bytes() as u64,
        }
    }

    /// A handle of its own, for a thread that outlives the call.
    ///
    /// # Panics
    /// While the last handle is being dropped.
    pub fn handle(&self) -> Arc<Self> {
        self.own.upgrade().expect("whoever calls has a handle")
    }

    /// The port that is served, 0 when none is.
    pub fn port(&self) -> u32 {
        self.port.load(Ordering::Relaxed)
    }
}

/// Returns the function that ends the engine, if it still exists, when one of its threads has panicked: it gets the panic's
/// message.
fn fail_on_panic(thread: &'static str, engine: Weak<Engine>) -> impl Fn(&str) + Send + Sync {
    move |why| {
        if let Some(engine) = engine.upgrade() {
            engine.fail(&format!("{thread} panicked: {why}"));
        }
    }
}

/// Returns the users before any are loaded: the default user, with the password that the options name.
fn acl_of(config: &Config) -> Acl {
    let acl = Acl::default();
    acl.set_default_password(&config.text(Opt::Requirepass));
    acl
}

/// Shards for each of several workers: so many that two of them seldom want the same, and no more, because each has its
/// own lock and table to keep in the cache.
const SHARDS_A_WORKER: usize = 8;

/// The number of shards: one worker alone is best served by one lock, which it takes once for a whole batch.
fn shards_of(config: &Config) -> usize {
    match (config.number(Opt::Shards), config.number(Opt::Workers)) {
        (0, 1) => 1,
        (0, workers) => (workers as usize * SHARDS_A_WORKER).next_power_of_two().min(SHARDS_MAX),
        (shards, _) => shards as usize,
    }
}
