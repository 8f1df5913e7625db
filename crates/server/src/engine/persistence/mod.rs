//! Data that outlives the process: the AOF that the journal is written to, snapshots, and when either is written.
//!
//! With an AOF, a reply leaves when the changes it shows are written to the AOF's file (`appendfsync` `everysec` and `no`:
//! the death of the process loses nothing that was answered) or synced (`always`: nor does the death of the machine).
//! [`Engine::passes`] says whether it may. The state behind all this, and the waiters, are kept in `engine/durability`.
//!
//! | file | contents |
//! | --- | --- |
//! | `passing` | The check that lets a reply leave. |
//! | `log` | Writing the journal to the AOF, syncing it, healing it. |
//! | `threads` | The two threads of an AOF. |
//! | `switch` | Switching the AOF on and off. |
//! | `save` | The thread that writes a snapshot, to a file or as a new base of the AOF. |
//! | `base` | A snapshot as a base of the AOF: its increments around it. |
//! | `for_replicas` | A snapshot for replicas: into their sockets, or into a file that they are sent. |
//! | `snapshot_output` | Encoding a snapshot. |
//! | `requests` | A base of the AOF in the form of requests. |
//! | `rules` | Snapshots and rewrites that begin by themselves: `save`, and an AOF that has grown. |
//! | `shutdown` | The last snapshot of a server that ends. |
//!
//! [`Engine::passes`]: crate::engine::Engine::passes

mod base;
mod for_replicas;
mod log;
mod passing;
mod requests;
mod rules;
pub mod save;
pub mod shutdown;
mod snapshot_output;
mod switch;
mod threads;
