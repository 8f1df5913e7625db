//! What a run of the simulation is like: what is asked of the log, and which fault is planted.

use super::faulty::Lapse;

/// What a run is like, beside its seed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Manner {
    pub lapse: Option<Lapse>,
    pub promises_early: bool,
    pub tears_pieces: bool,
    pub checksums: bool,
    /// Whether only the process ends, never the power.
    pub keeps_power: bool,
    /// Whether nobody asks for a sync.
    pub never_syncs: bool,
    /// Whether the journal lets go of what is written, synced or not.
    pub forgets: bool,
}

/// Nothing is wrong with it.
pub const SOUND: Manner = Manner {
    lapse: None,
    promises_early: false,
    tears_pieces: false,
    checksums: true,
    keeps_power: false,
    never_syncs: false,
    forgets: false,
};
