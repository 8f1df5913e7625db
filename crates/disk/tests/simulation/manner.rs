//! The manner of a run of the simulation: the demands on the AOF, and the planted fault.

use super::faulty::Lapse;

/// The manner of a run, beside its seed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Manner {
    pub lapse: Option<Lapse>,
    pub promises_early: bool,
    pub tears_pieces: bool,
    pub checksums: bool,
    /// True if lives end only by the death of the process, and the power is never cut.
    pub keeps_power: bool,
    /// True if no sync is asked for.
    pub never_syncs: bool,
    /// True if the journal drops the written bytes, synced or not.
    pub forgets: bool,
}

/// A manner without a fault.
pub const SOUND: Manner = Manner {
    lapse: None,
    promises_early: false,
    tears_pieces: false,
    checksums: true,
    keeps_power: false,
    never_syncs: false,
    forgets: false,
};
