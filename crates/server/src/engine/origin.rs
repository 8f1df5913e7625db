//! What an engine begins with that no option says: the time, what it draws by chance, and the disk of its log and snapshots.
//!
//! Everything random in an engine comes from here, so that one that is begun from a seed, and is then told the time with
//! each request ([`crate::Local::exchange_at`]), gives the same replies again to the byte. The exception is ACL GENPASS: a
//! password that a seed foretells is none, so it asks the machine.

use std::sync::Arc;

use sleeve_disk::disk::Disk;
use sleeve_disk::disk::real::RealDisk;

use crate::host::clock::{Instant, Ticker};
use crate::host::dice::{self, Dice};

/// The time, the chance and the disk that one engine begins with. Used up by the engine that begins with it.
#[derive(Debug)]
pub struct Origin {
    /// When the engine begins.
    pub(super) now: Instant,
    /// The secret of the keyed hash.
    pub(super) secret: [u8; 16],
    /// What the engine's name for this run is made of.
    pub(super) run_id: [u8; 20],
    /// What its stream to replicas is called at first.
    pub(super) replication_id: [u8; 20],
    /// The seed of the dice that give every thread its seed.
    pub(super) seed: u64,
    /// What turns measurements into time.
    pub(super) ticker: Ticker,
    /// Where the log and snapshots lie.
    pub(super) disk: Arc<dyn Disk>,
}

impl Origin {
    /// This machine's time, and secrets that nobody can foresee.
    pub fn of_machine() -> Self {
        let (mut secret, mut run_id, mut replication_id, mut seed) = ([0; 16], [0; 20], [0; 20], [0; 8]);
        dice::secret_bytes(&mut secret);
        dice::secret_bytes(&mut run_id);
        dice::secret_bytes(&mut replication_id);
        dice::secret_bytes(&mut seed);
        let (seed, ticker, disk) = (u64::from_ne_bytes(seed), Ticker::start(), Arc::new(RealDisk));
        Self { now: Instant::now(), secret, run_id, replication_id, seed, ticker, disk }
    }

    /// What this seed stands for, at a time that the caller names; whatever takes time seems to take none. For tests and
    /// simulations: who knows the seed knows where keys lie.
    pub fn of_seed(seed: u64, now: Instant) -> Self {
        let dice = Dice::new(seed);
        let (secret, run_id) = ([(); 16].map(|()| dice.number() as u8), [(); 20].map(|()| dice.number() as u8));
        let seed = dice.number();
        let replication_id = [(); 20].map(|()| dice.number() as u8);
        Self { now, secret, run_id, replication_id, seed, ticker: Ticker::stopped(), disk: Arc::new(RealDisk) }
    }

    /// The same with another disk for the log and snapshots.
    pub fn on(self, disk: Arc<dyn Disk>) -> Self {
        Self { disk, ..self }
    }
}
