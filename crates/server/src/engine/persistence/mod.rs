//! What outlives the process: the log that the journal is written to, snapshots, and when either is written.
//!
//! With a log, a reply leaves when what it shows is written to the log's file (`appendfsync` `everysec` and `no`: the death of
//! the process loses nothing that was answered) or synced (`always`: nor does that of the machine). [`Engine::passes`] says
//! whether it may. What is known of all this, and who waits for it, is kept in `engine/durability`.
//!
//! | file | what is in it |
//! | --- | --- |
//! | `passing` | Whether a reply may leave. |
//! | `log` | Writing the journal to the log, syncing it, healing it. |
//! | `threads` | The two threads of a log. |
//! | `switch` | Switching the log on and off. |
//! | `save` | The thread that writes a snapshot, to a file or as a new base of the log. |
//! | `base` | The same as a base of the log: its increments around it. |
//! | `for_replicas` | The same for replicas: into their sockets, or into a file that they are sent. |
//! | `snapshot_output` | How a snapshot is put into bytes. |
//! | `requests` | A base of the log in words of requests. |
//! | `rules` | What is begun by itself: `save`, and rewrites of a log that has grown. |
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
