//! One engine: everything that its threads share.
//!
//! An [`Engine`] is data and locks; it runs nothing by itself. Sessions in the caller's thread (`embedded`) and workers behind
//! a listener (`boot`) work on the same engine at the same time. Dropping the last handle ends it.

mod answer;
pub(crate) mod clients;
pub(crate) mod durability;
mod failure;
pub mod journal;
pub(crate) mod keyspace;
pub(crate) mod migrate_target;
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
use crate::driver::Kind;
use crate::driver::listeners::Listeners;
use crate::driver::tls::Tls;
use crate::host::clock::{Instant, Ticker};
use crate::host::dice::Dice;
use crate::host::lazy_free::LazyFree;
use crate::host::waiting;
use crate::messaging::mail::{Letter, Mailbox};
use crate::messaging::pubsub::PubSub;
use crate::observe::hot_keys::HotKeys;
use crate::observe::latency::Latency;
use crate::observe::rates::Rates;
use crate::observe::slowlog::SlowLog;
use crate::observe::stats::Stats;
use crate::request::renamed_commands::RenamedCommands;
use clients::blocking::Blocking;
use clients::client_info::Clients;
use clients::client_memory::ClientMemory;
use clients::crews::Crews;
use clients::tracking::Tracking;
use clients::watch::Watches;
use durability::Durability;
use journal::{Journal, ShardOffsets};
use keyspace::eviction_pool::Candidates;
use keyspace::locks::AllOrEach;
use keyspace::memory_accounting::{Estimate, MemoryUse};
use migrate_target::Targets;
use origin::Origin;
use pause::Pause;
use readiness::Readiness;
use replication::{Id, Replication};
use scripts::Scripts;
use watchdog::Watchdog;

/// Databases, configuration, journal, clients and counters of one running Sleeve.
pub struct Engine {
    /// The data.
    pub store: Store,
    /// Whether one command has all shards of it, or any number go from shard to shard.
    pub(crate) all_or_each: AllOrEach,
    /// The options.
    pub config: Config,
    /// What the commands are called.
    pub names: RenamedCommands,
    /// The log of effects.
    pub journal: Arc<Journal>,
    /// How far the log goes about each shard.
    pub(crate) offsets: ShardOffsets,
    /// The users and what they may do.
    pub acl: Acl,
    /// The clients.
    pub clients: Clients,
    /// The memory of all clients together.
    pub client_memory: ClientMemory,
    /// The counters.
    pub stats: Stats,
    /// The latest slow commands.
    pub slowlog: SlowLog,
    /// Which keys take most, while that is collected.
    pub(crate) hot_keys: HotKeys,
    /// When something was slow.
    pub latency: Latency,
    /// Rates and peaks.
    pub rates: Rates,
    /// About how much memory is in use.
    pub estimate: Estimate,
    /// Who watches which key.
    pub watches: Watches,
    /// Who waits for which key.
    pub blocking: Blocking,
    /// Who listens to which channel.
    pub pubsub: PubSub,
    /// The scripts and libraries.
    pub scripts: Arc<Scripts>,
    /// Which keys may go when memory is short.
    pub candidates: Candidates,
    /// Who must hear of changes to keys that it has read.
    pub tracking: Tracking,
    /// Connections to other servers, which MIGRATE may use again.
    pub targets: Targets,
    /// How far the journal has outlived the process, and the files that it and the data are kept in.
    pub durability: Durability,
    /// The servers that follow this one.
    pub replication: Replication,
    /// Where those files lie.
    pub(crate) disk: Arc<dyn Disk>,
    /// CLIENT PAUSE.
    pub pause: Pause,
    /// What keeps the engine from doing all that is asked of it.
    pub readiness: Readiness,
    /// A log is being applied, which itself says what has expired.
    pub(crate) is_replaying: AtomicBool,
    /// When the engine was made.
    pub started: Instant,
    /// What turns the counters' ticks into time.
    pub ticker: Ticker,
    /// Gives the threads their seeds.
    dice: Mutex<Dice>,
    /// 40 random hexadecimal digits, new with every start.
    pub run_id: String,
    /// What frees large values.
    pub lazy_free: LazyFree,
    /// DEBUG SET-ACTIVE-EXPIRE and the like.
    pub debug: Debug,
    /// Tells the log when clients are not served.
    pub(crate) watchdog: Arc<Watchdog>,
    /// The sockets that the options name.
    pub listeners: Listeners,
    /// What connections with TLS begin with.
    pub tls: Tls,
    /// The port that is served, 0 when none is.
    pub port: AtomicU32,
    /// The kind of its workers' drivers.
    pub(crate) io: Mutex<Kind>,
    /// Its workers, as to their number.
    pub(crate) crews: Crews,
    mailboxes: Mutex<Vec<Arc<Mailbox>>>,
    /// How many engines this process had begun before.
    number: u64,
    /// Itself, for threads that it starts.
    own: Weak<Self>,
    /// Why the engine is over, once it is.
    failure: OnceLock<String>,
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").field("run_id", &self.run_id).finish_non_exhaustive()
    }
}

/// How many engines this process has begun.
static BEGUN: AtomicU64 = AtomicU64::new(0);

/// What DEBUG can turn.
#[derive(Debug)]
pub struct Debug {
    /// Whether keys expire without being looked at.
    pub active_expire: AtomicBool,
    /// Whether scripts may call commands that are not for scripts.
    pub allows_all_to_scripts: AtomicBool,
    /// Whether the checksums of payloads and snapshots are passed over when they are read.
    pub skips_checksums: AtomicBool,
    /// Microseconds to wait in front of each write to the log.
    pub log_delay_us: AtomicU64,
    /// From how many bytes on an element of a list stands alone; 0 as the limit of its packs says.
    pub packed_threshold: std::sync::atomic::AtomicUsize,
    /// Until when nobody is served, monotonic milliseconds; see [`Engine::sleep_out`].
    pub asleep_until_ms: AtomicU64,
    /// Whether INCR and its like have a race (`commands/string/seeded_bug`). Only builds with debug assertions know of it.
    #[cfg(debug_assertions)]
    pub seeded_bug: AtomicBool,
    /// Whether a reply leaves at once that has only read. Only builds with debug assertions know of it.
    #[cfg(debug_assertions)]
    pub reads_do_not_wait: AtomicBool,
}

impl Engine {
    /// An empty engine. No thread is started, no file is touched.
    pub fn new(config: Config) -> Arc<Self> {
        Self::begin(config, Origin::of_machine())
    }

    /// The same, from an origin that the caller names.
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
            durability: Durability::new(now),
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
            io: Mutex::new(Kind::Hybrid),
            crews: Crews::default(),
            mailboxes: Mutex::default(),
            number: BEGUN.fetch_add(1, Ordering::Relaxed),
            own: Weak::clone(own),
            failure: OnceLock::new(),
        })
    }

    /// What a thread that begins draws from.
    pub(crate) fn dice(&self) -> Dice {
        Dice::new(self.dice.lock().number())
    }

    /// Enters a mailbox to which letters for everybody go.
    pub fn enter_mailbox(&self, mailbox: &Arc<Mailbox>) {
        self.mailboxes.lock().push(Arc::clone(mailbox));
    }

    /// Strikes out a mailbox whose owner has ended.
    pub fn leave_mailbox(&self, mailbox: &Arc<Mailbox>) {
        self.mailboxes.lock().retain(|other| !Arc::ptr_eq(other, mailbox));
    }

    /// From how many ticks on a command may have been slow, 0 to have every one looked at, and from how many bytes on its
    /// request or its reply may be large. While HOTKEYS collects, all commands are both.
    #[inline]
    pub fn conspicuous(&self) -> (u64, usize) {
        if self.hot_keys.is_collecting() {
            return (0, 0);
        }
        (self.config.slow_ticks(), self.config.large_bytes())
    }

    /// Tells everybody that a pause may have ended.
    pub fn post_resume(&self) {
        self.mailboxes().iter().for_each(|mailbox| mailbox.post(Letter::Resume));
    }

    /// Tells everybody that users may do less now.
    pub fn post_users(&self) {
        self.mailboxes().iter().for_each(|mailbox| mailbox.post(Letter::Users));
    }

    /// Has the whole server do nothing for so long: DEBUG SLEEP. All shards are locked; workers that need none hear of it, and
    /// the link to a primary looks.
    pub fn sleep(&self, time: Duration, now: Instant) {
        let until_ms = now.monotonic_ms().saturating_add(u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
        self.debug.asleep_until_ms.store(until_ms, Ordering::Relaxed);
        self.mailboxes().iter().for_each(|mailbox| mailbox.post(Letter::Sleep));
        waiting::sleep(time);
    }

    /// Waits until DEBUG SLEEP is over, if one runs at this time.
    pub fn sleep_out(&self, now_ms: u64) {
        let left_ms = self.debug.asleep_until_ms.load(Ordering::Relaxed).saturating_sub(now_ms);
        if left_ms != 0 {
            waiting::sleep(Duration::from_millis(left_ms));
        }
    }

    /// Tells everybody to stop.
    pub fn post_stop(&self) {
        self.listeners.shut();
        self.mailboxes().iter().for_each(|mailbox| mailbox.post(Letter::Stop));
        // Whoever has come meanwhile is told too; whoever comes later finds that the others have been told.
        self.mailboxes().iter().filter(|mailbox| !mailbox.is_stopped()).for_each(|mailbox| mailbox.post(Letter::Stop));
    }

    /// How many mailboxes there are, for tests of who leaves them.
    #[cfg(test)]
    pub(crate) fn mailbox_count(&self) -> usize {
        self.mailboxes.lock().len()
    }

    /// Everybody's mailbox. A copy: to post is to call the owner's own code, which may come or go meanwhile.
    pub(crate) fn mailboxes(&self) -> Vec<Arc<Mailbox>> {
        self.mailboxes.lock().clone()
    }

    /// Background rounds a second for the clients that there are.
    pub fn rounds_a_second(&self) -> u32 {
        self.config.rounds_a_second(self.clients.len())
    }

    /// Closes connections that nobody uses, and samples rates and peaks if that is due; whoever ticks calls it, with no
    /// shard locked. A shard that is in use is not waited for: what it weighed last will do.
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

    /// Brings the estimate up to date as to what is in no shard; all of that.
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

    /// Where memory goes, the shards taking `data_bytes`. No shard is locked for it.
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

/// What ends the engine, if it is still there, when one of its threads has panicked: it is given what the panic said.
fn fail_on_panic(thread: &'static str, engine: Weak<Engine>) -> impl Fn(&str) + Send + Sync {
    move |why| {
        if let Some(engine) = engine.upgrade() {
            engine.fail(&format!("{thread} panicked: {why}"));
        }
    }
}

/// The users before any are loaded: everybody, with the password that the options name.
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
