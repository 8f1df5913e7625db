//! The append-only log: a folder with a manifest, a base and increments, as Redis 7 has it, written and kept whole.
//!
//! [`Folder`] opens what is there and reads it back; it becomes a [`Log`], which is appended to. A log has no thread and
//! no clock. Whatever may wait for the disk (everything but [`Log::append`]) is a *job*: it is taken from the log, run by
//! whoever has the time while others append, and its result is given back to the log. Of those that write the manifest (all but
//! syncing) one is out at a time: another is refused until that one's result is given back or dropped, and an increment that was
//! made before the log was healed or rewritten is not switched to.
//!
//! | to | take | run | give back |
//! | --- | --- | --- | --- |
//! | sync | [`Log::sync_job`] | [`SyncJob::run`] | [`Log::synced`] or [`Log::sync_failed`] |
//! | begin an increment, as a rewrite does | [`Log::rotation`] | [`Rotation::run`] | [`Log::switch`] |
//! | end a rewrite | [`Log::rewrite`] | [`Rewrite::run`] | [`Log::rewritten`] |
//! | remove what a rewrite has left over | [`Log::history`] | [`History::run`] | [`Log::history_removed`] |
//! | heal after a sync that failed | [`Log::healing`] | [`Healing::append`] or [`Healing::append_old`], [`Healing::run`] | [`Log::healed`] or [`Log::not_healed`] |
//!
//! **What is durable when.** A manifest is written beside its place, synced, renamed and its folder synced, and what it
//! names is durable before that. An increment is named before anything is appended to it. A base is named when it is whole.
//! Where a file has its name before that manifest is in its place, the manifest is on the disk beside its place before that:
//! so a start tells what was never finished from what a manifest has lost.
//! Nothing is removed before the manifest that does without it is durable.
//!
//! **A failing disk.** After an append that failed, the file is cut back and the same bytes can be appended again. After a
//! sync that failed the file is not trusted: see [`Log::healing`]. [`Log::health`] says which; while it is not good no write
//! is to be acknowledged.

mod base;
mod folder;
mod heal;
mod left_over;
mod past;
mod place;
mod repair;
mod rewrite;
mod rewrite_limit;
mod sync;
mod tampering;
mod unnamed;
mod writer;

pub use base::BaseWriter;
pub use folder::{Folder, NotBegun, OpenError};
pub use heal::{Healed, Healing};
pub use place::{Options, manifest_path};
pub use repair::repair;
pub use rewrite::{History, NewBase, Rewrite, Rewritten, Rotated, Rotation};
pub use rewrite_limit::RewriteLimit;
pub use sync::SyncJob;
pub use tampering::Tampering;
pub use unnamed::{Unnamed, unnamed};
pub use writer::{Health, Log};
