//! The AOF: the file to which the journal is written.
//!
//! | file | contents |
//! | --- | --- |
//! | `toggle` | Switching the AOF on and off. |
//! | `threads` | Its two threads: one writes and syncs, one heals and rewrites. |
//! | `writer` | Writing the journal to the AOF, syncing it, healing it. |
//! | `file` | [`Aof`]: the open AOF, and its state. |
//! | `totals` | The bytes, writes and fsyncs so far, for INFO. |
//! | `rotation` | Going on in a new increment at the instant of a snapshot. |
//! | `syncs` | The fsyncs: the turn to run one, their duration, the threads that may run or overlap one. |
//! | `group_commit` | The changes that one fsync covers. |
//! | `closing` | The end of an AOF that is switched off. |

mod closing;
mod file;
mod group_commit;
mod rotation;
mod syncs;
mod threads;
mod toggle;
mod totals;
mod writer;

pub use file::{Aof, LogStatus, OpenLog, Policy};
pub use syncs::OnWorker;
