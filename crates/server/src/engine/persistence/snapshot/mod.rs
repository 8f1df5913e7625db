//! Writing snapshots.
//!
//! | file | contents |
//! | --- | --- |
//! | `save_schedule` | Snapshots and rewrites that begin by themselves: `save`, and an AOF that has grown. |
//! | `save` | Starting a snapshot, its thread, its outcome. |
//! | `base` | A snapshot as a base of the AOF: its increments around it. |
//! | `replicas` | A snapshot for replicas: into their sockets, or into a file that they are sent. |
//! | `walk` | The walk through the store as it was at one instant. |
//! | `output` | Encoding a snapshot. |
//! | `base_in_requests` | A base of the AOF in the form of requests. |
//! | `snapshots` | [`Snapshots`]: the snapshot that runs, and those that are scheduled. |

mod base;
mod base_in_requests;
mod output;
mod replicas;
pub mod save;
mod save_schedule;
mod snapshots;
pub mod walk;

pub use snapshots::{SnapshotStatus, Snapshots};
