//! An engine: the state that its threads share.
//!
//! An [`Engine`] is data and locks; it runs nothing by itself. Sessions in the caller's thread (`session/local`) and workers
//! behind a listener (`boot`) work on the same engine at the same time. When the last handle is dropped, the engine ends.

mod answer;
pub(crate) mod clients;
pub mod cluster;
mod failure;
pub mod journal;
pub(crate) mod keyspace;
pub mod lifecycle;
pub(crate) mod network;
pub(crate) mod observe;
pub mod origin;
pub(crate) mod persistence;
pub(crate) mod readiness;
pub(crate) mod replication;
pub(crate) mod scripts;
pub(crate) mod values;
pub(crate) mod watchdog;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use sleeve_store::{Options, SHARDS_MAX};

use crate::acl::Acl;
use crate::config::{Config, Opt};
use crate::host::clock::Instant;
use crate::host::lazy_free::LazyFree;
use crate::host::waiting;
use crate::messaging::mail::Letter;
use crate::messaging::pubsub::PubSub;
use crate::request::renamed_commands::RenamedCommands;
use clients::Clients;
use cluster::Cluster;
use journal::Journal;
use keyspace::Keyspace;
use keyspace::memory_accounting::MemoryUse;
use network::Network;
use observe::Observations;
use origin::{Identity, Origin};
use persistence::Persistence;
use readiness::{Hindrance, Readiness};
use replication::{Id, Replication};
use scripts::Scripts;

pub use lifecycle::{Lifecycle, Service};

/// Databases, configuration, journal, clients and counters of one running Sleeve.
pub struct Engine {
    /// The data.
    pub keyspace: Keyspace,
    /// The options.
    pub config: Config,
    /// The names of the commands.
    pub names: RenamedCommands,
    /// The log of effects.
    pub journal: Arc<Journal>,
    /// The users and their permissions.
    pub acl: Acl,
    /// The clients.
    pub clients: Clients,
    /// Counters and measurements.
    pub observe: Observations,
    /// The subscribers of each channel.
    pub pubsub: PubSub,
    /// The scripts and libraries.
    pub scripts: Arc<Scripts>,
    /// The offsets up to which the journal is durable, and the files for it and the data.
    pub persistence: Persistence,
    /// The servers that follow this one, and the primary that it follows.
    pub replication: Replication,
    /// The state of a node of a cluster; none in a server that is no node.
    pub cluster: OnceLock<Cluster>,
    /// The sockets.
    pub network: Network,
    /// The engine's start time, clock ticker, run id and source of seeds.
    pub identity: Identity,
    /// The engine's readiness, watchdog and failure.
    pub lifecycle: Lifecycle,
    /// DEBUG SET-ACTIVE-EXPIRE and the like.
    pub debug: Debug,
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").field("run_id", &self.identity.run_id).finish_non_exhaustive()
    }
}

/// The switches of DEBUG.
#[derive(Debug)]
pub struct Debug {
    /// Keys expire without being accessed.
    pub active_expire: AtomicBool,
    /// The periodic work stands still, including the shutdown that a signal asks for.
    pub pauses_cron: AtomicBool,
    /// Scripts may call commands that are not for scripts.
    pub allows_all_to_scripts: AtomicBool,
    /// The checksums of payloads and snapshots are not checked.
    pub skips_checksums: AtomicBool,
    /// Microseconds to wait before each write to the AOF.
    pub log_delay_us: AtomicU64,
    /// The size in bytes from which on an element of a list is stored alone; 0 for the limit of its packs.
    pub packed_threshold: std::sync::atomic::AtomicUsize,
    /// The end of DEBUG SLEEP, until which no client is served, in monotonic milliseconds; see [`Engine::sleep_out`].
    pub asleep_until_ms: AtomicU64,
    /// INCR and its like have a race (`commands/string/seeded_bug`). Only builds with debug assertions use it.
    #[cfg(debug_assertions)]
    pub seeded_bug: AtomicBool,
    /// A reply to a command that has only read is sent at once. Only builds with debug assertions use it.
    #[cfg(debug_assertions)]
    pub reads_do_not_wait: AtomicBool,
}

impl Engine {
    /// Makes an empty engine. No thread is started, no file is touched.
    pub fn new(config: Config) -> Arc<Self> {
        Self::begin(config, Origin::of_machine())
    }

    /// Makes an engine with an origin that the caller gives.
    pub fn begin(config: Config, origin: Origin) -> Arc<Self> {
        let Origin { now, secret, run_id, replication_id, seed, ticker, disk } = origin;
        let options = Options {
            databases: databases_of(&config),
            shards: shards_of(&config),
            slot_of: config.flag(Opt::ClusterEnabled).then_some(sleeve_wire::slot::of_key),
            ..Options::new(secret)
        };
        Arc::new_cyclic(|own: &Weak<Self>| Self {
            keyspace: Keyspace::new(options, LazyFree::new(fail_on_panic("sleeve-free", Weak::clone(own)))),
            journal: Arc::new(Journal::new(config.number(Opt::JournalMaxBytes) as usize)),
            acl: acl_of(&config),
            names: config.names(),
            config,
            clients: Clients::default(),
            observe: Observations::default(),
            pubsub: PubSub::default(),
            scripts: Arc::new(Scripts::new(options.shards)),
            persistence: Persistence::new(now, disk),
            replication: Replication::new(Id::of_bytes(replication_id)),
            cluster: OnceLock::new(),
            network: Network::default(),
            identity: Identity::new(now, ticker, &run_id, seed),
            lifecycle: Lifecycle {
                own: Weak::clone(own),
                failure: OnceLock::new(),
                readiness: Readiness::default(),
                watchdog: Arc::default(),
            },
            debug: Debug {
                active_expire: true.into(),
                pauses_cron: false.into(),
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
        })
    }

    /// Stops the whole server for so long: DEBUG SLEEP. All shards are locked. Workers that need no shard are notified by
    /// letter, and the link to a primary checks for it.
    pub fn sleep(&self, time: Duration, now: Instant) {
        let until_ms = now.monotonic_ms().saturating_add(u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
        self.debug.asleep_until_ms.store(until_ms, Ordering::Relaxed);
        self.clients.mailboxes().iter().for_each(|mailbox| mailbox.post(Letter::Sleep));
        waiting::sleep(time);
    }

    /// Waits until the end of DEBUG SLEEP, if it is in effect. Returns whether it was.
    pub fn sleep_out(&self, now_ms: u64) -> bool {
        let left_ms = self.debug.asleep_until_ms.load(Ordering::Relaxed).saturating_sub(now_ms);
        if left_ms != 0 {
            waiting::sleep(Duration::from_millis(left_ms));
        }
        left_ms != 0
    }

    /// Notifies all threads to stop.
    pub fn post_stop(&self) {
        self.network.listeners.shut();
        self.clients.post_stop();
    }

    /// Returns the number of background rounds a second for the present number of clients.
    pub fn rounds_a_second(&self) -> u32 {
        self.config.rounds_a_second(self.clients.list.len())
    }

    /// Closes idle connections, and samples rates and peaks if that is due. Every thread that ticks calls it, with no shard
    /// locked. It does not wait for a shard that is in use: the last size of that shard is good enough.
    pub fn sample(&self, now: Instant) {
        let now_ms = now.monotonic_ms();
        self.network.targets.sweep(now_ms);
        if !self.observe.rates.is_due(now_ms) {
            return;
        }
        if self.observe.rates.are_samples_old(now_ms) {
            self.observe.stats.halve_key_samples();
        }
        for index in 0..self.keyspace.store.shards() {
            if let Some(shard) = self.keyspace.store.try_lock(index) {
                self.keyspace.estimate.note(index, shard.memory());
            }
        }
        self.observe.rates.sample(
            now_ms,
            self.observe.stats.traffic(),
            self.keyspace.estimate.shards() + self.weigh_overhead().overhead(),
        );
    }

    /// Returns an estimate of the memory that is compared with `maxmemory`, while that is set. Costs a few loads.
    #[inline]
    pub fn estimated_bytes(&self) -> u64 {
        self.keyspace.estimate.total() + self.clients.memory.sum()
    }

    /// Updates the part of the estimate that belongs to no shard, and returns the use of that memory.
    fn weigh_overhead(&self) -> MemoryUse {
        let memory_use = self.memory_use(0);
        self.keyspace.estimate.note_overhead(memory_use.overhead() - memory_use.uncounted() - memory_use.clients);
        memory_use
    }

    /// Returns the bytes of all memory. Locks each shard once, so the caller holds none.
    pub fn used_bytes(&self) -> u64 {
        for index in 0..self.keyspace.store.shards() {
            self.keyspace.estimate.note(index, self.keyspace.store.lock(index).memory());
        }
        self.keyspace.estimate.shards() + self.weigh_overhead().overhead()
    }

    /// Returns the use of memory, with `data_bytes` for the shards. Locks no shard.
    pub fn memory_use(&self, data_bytes: u64) -> MemoryUse {
        let (scripts, libraries) = (&self.scripts, self.scripts.libraries());
        let (clients, replicas) = self.clients.list.bytes();
        MemoryUse {
            data: data_bytes,
            fixed: self.keyspace.estimate.startup().max(self.keyspace.store.fixed_memory() as u64),
            journal: self.journal.memory(),
            clients: clients as u64,
            replicas: replicas as u64,
            scripts: scripts.size().1 as u64,
            functions: libraries.bytes() as u64,
            tracking: self.clients.tracking.bytes() as u64,
        }
    }

    /// Returns the name of the mode in which the server runs.
    pub fn mode(&self) -> &'static str {
        if self.cluster.get().is_some() { "cluster" } else { "standalone" }
    }

    /// Makes this server a node of a cluster. No client is served yet.
    pub fn join_cluster(&self, cluster: Cluster) {
        if self.cluster.set(cluster).is_ok() {
            self.lifecycle.readiness.set(Hindrance::Clustered, true);
        }
    }

    /// Returns another handle, for a thread that outlives the call.
    ///
    /// # Panics
    /// While the last handle is being dropped.
    pub fn handle(&self) -> Arc<Self> {
        self.lifecycle.own.upgrade().expect("whoever calls has a handle")
    }
}

/// Returns a function for a thread of the engine: if the thread has panicked, the function gets the panic's message and ends
/// the engine, if it still exists.
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

/// Returns the number of databases: that of `cluster-databases` in a node of a cluster.
fn databases_of(config: &Config) -> usize {
    let option = if config.flag(Opt::ClusterEnabled) { Opt::ClusterDatabases } else { Opt::Databases };
    config.number(option) as usize
}

/// The number of shards for each of several workers: enough that two workers seldom want the same one, and no more, because
/// the cache has to hold each shard's lock and table.
const SHARDS_A_WORKER: usize = 8;

/// The number of shards: one worker alone is best served by one lock, which it takes once for a whole batch.
fn shards_of(config: &Config) -> usize {
    match (config.number(Opt::Shards), config.number(Opt::Workers)) {
        (0, 1) => 1,
        (0, workers) => (workers as usize * SHARDS_A_WORKER).next_power_of_two().min(SHARDS_MAX),
        (shards, _) => shards as usize,
    }
}
