//! The inputs of an engine that no option states: the time, its random numbers, and the disk of its AOF and snapshots.
//!
//! All random numbers of an engine come from here. So if an engine is made from a seed, and is then given the time with each
//! request ([`crate::Local::exchange_at`]), it gives the same replies again, to the byte. The exception is ACL GENPASS: a
//! password that a seed foretells is no secret, so the machine makes it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use sleeve_disk::disk::Disk;
use sleeve_disk::disk::real::RealDisk;

use crate::host::clock::{Instant, Ticker};
use crate::host::dice::{self, Dice};

/// The time, the random numbers and the disk with which one engine begins. Making the engine uses it up.
#[derive(Debug)]
pub struct Origin {
    /// The time at which the engine begins.
    pub(super) now: Instant,
    /// The secret of the keyed hash.
    pub(super) secret: [u8; 16],
    /// The bytes of the engine's id for this run.
    pub(super) run_id: [u8; 20],
    /// The bytes of the first replication id.
    pub(super) replication_id: [u8; 20],
    /// The seed of the dice that give every thread its seed.
    pub(super) seed: u64,
    /// The converter from ticks to time.
    pub(super) ticker: Ticker,
    /// The disk of the AOF and the snapshots.
    pub(super) disk: Arc<dyn Disk>,
}

impl Origin {
    /// Returns an origin with this machine's time, and with unpredictable secrets.
    pub fn of_machine() -> Self {
        let (mut secret, mut run_id, mut replication_id, mut seed) = ([0; 16], [0; 20], [0; 20], [0; 8]);
        dice::secret_bytes(&mut secret);
        dice::secret_bytes(&mut run_id);
        dice::secret_bytes(&mut replication_id);
        dice::secret_bytes(&mut seed);
        let (seed, ticker, disk) = (u64::from_ne_bytes(seed), Ticker::start(), Arc::new(RealDisk));
        Self { now: Instant::now(), secret, run_id, replication_id, seed, ticker, disk }
    }

    /// Returns the origin of this seed, at a time that the caller names; measured durations are all zero. For tests and
    /// simulations: a client that knows the seed knows where keys lie.
    pub fn of_seed(seed: u64, now: Instant) -> Self {
        let dice = Dice::new(seed);
        let (secret, run_id) = ([(); 16].map(|()| dice.number() as u8), [(); 20].map(|()| dice.number() as u8));
        let seed = dice.number();
        let replication_id = [(); 20].map(|()| dice.number() as u8);
        Self { now, secret, run_id, replication_id, seed, ticker: Ticker::stopped(), disk: Arc::new(RealDisk) }
    }

    /// Returns this origin with another disk for the AOF and snapshots.
    pub fn on(self, disk: Arc<dyn Disk>) -> Self {
        Self { disk, ..self }
    }
}

/// The number of engines that this process has begun.
static BEGUN: AtomicU64 = AtomicU64::new(0);

/// The values that an engine keeps from its [`Origin`]: start time, clock ticker, run id and source of seeds.
pub struct Identity {
    /// The time at which the engine was made.
    pub started: Instant,
    /// The converter from the counters' ticks to time.
    pub ticker: Ticker,
    /// The id of this run: 40 random hexadecimal digits.
    pub run_id: String,
    /// The source of the threads' seeds.
    dice: Mutex<Dice>,
    /// The number of engines that this process had begun before.
    number: u64,
}

impl Identity {
    pub(super) fn new(started: Instant, ticker: Ticker, run_id: &[u8], seed: u64) -> Self {
        Self {
            started,
            ticker,
            run_id: run_id.iter().map(|byte| format!("{byte:02x}")).collect(),
            dice: Mutex::new(Dice::new(seed)),
            number: BEGUN.fetch_add(1, Ordering::Relaxed),
        }
    }

    /// Returns the source of random numbers for a thread that begins.
    pub(crate) fn dice(&self) -> Dice {
        Dice::new(self.dice.lock().number())
    }

    /// Returns a mark for the names of files that this engine is writing, so that they differ from those of any other engine:
    /// its process id, as in Redis, and, if the process has begun engines before, the engine's number.
    pub(crate) fn mark(&self) -> String {
        let process = std::process::id();
        if self.number == 0 { process.to_string() } else { format!("{process}-{}", self.number) }
    }
}
