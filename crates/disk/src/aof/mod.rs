//! The append-only file (AOF): a folder with a manifest, a base and increments, as Redis 7 has it, written and kept whole.
//!
//! [`Folder`] opens the existing files and reads them back; it becomes an [`AofWriter`], which is appended to. An AOF has no
//! thread and no clock. Every call that may wait for the disk (all but [`AofWriter::append`]) is a *job*: it is taken from the
//! AOF, run by any thread while others append, and its result is given back to the AOF. Of the jobs that write the manifest
//! (all but syncing) one is out at a time: another is refused until that one's result is given back or dropped, and an
//! increment that was made before the AOF was healed or rewritten is not switched to.
//!
//! | to | take | run | give back |
//! | --- | --- | --- | --- |
//! | sync | [`AofWriter::sync_job`] | [`SyncJob::run`] | [`AofWriter::synced`] or [`AofWriter::sync_failed`] |
//! | begin an increment, as a rewrite does | [`AofWriter::rotation`] | [`Rotation::run`] | [`AofWriter::switch`] |
//! | end a rewrite | [`AofWriter::rewrite`] | [`Rewrite::run`] | [`AofWriter::rewritten`] |
//! | remove the files that a rewrite has left over | [`AofWriter::history`] | [`History::run`] | [`AofWriter::history_removed`] |
//! | heal after a sync that failed | [`AofWriter::healing`] | [`Healing::append`] or [`Healing::append_old`], [`Healing::run`] | [`AofWriter::healed`] or [`AofWriter::not_healed`] |
//!
//! **Durability.** A manifest is written beside its place, synced, renamed and its folder synced, and the files that it names
//! are durable before that. An increment is named before anything is appended to it. A base is named when it is whole. Where
//! a file has its name before that manifest is in its place, the manifest is on the disk beside its place before that: so a
//! start tells files that were never finished from files that a manifest has lost. Nothing is removed before the manifest
//! that does without it is durable.
//!
//! **A failing disk.** After an append that failed, the file is cut back and the same bytes can be appended again. After a
//! sync that failed the file is not trusted: see [`AofWriter::healing`]. [`AofWriter::health`] says which; while it is not good
//! no write is to be acknowledged.

mod base;
mod directory;
mod folder;
mod heal;
mod increment;
mod left_over;
mod repair;
mod rewrite;
mod rewrite_limit;
mod tampering;
mod unnamed;
mod writer;

pub use base::BaseWriter;
pub use directory::{Options, manifest_path};
pub use folder::{Folder, NotBegun, OpenError};
pub use heal::{Healed, Healing};
pub use repair::repair;
pub use rewrite::{History, NewBase, Rewrite, Rewritten, Rotated, Rotation};
pub use rewrite_limit::RewriteLimit;
pub use tampering::Tampering;
pub use unnamed::{Unnamed, unnamed};
pub use writer::{AofWriter, Health, SyncJob};
