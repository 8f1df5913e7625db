//! Configuration: one table of options, their values, and every way to read and change them.
//!
//! `table` lists the options, `value` (with `size`, `limits`, `events`, `shutdown`, `oom_values`, `save_points`,
//! `title_template`) reads and shows one value, `state` keeps the values of one engine, `enums` names the options that are
//! one of several words. Above them, `file` cuts a configuration file into lines, `arguments` makes the command line part of
//! it, `load` gives both to the options (`unsupported` lists those of missing features), and `rewrite` writes a file back.
//! This file only names them; the dependencies are between the others.

pub mod arguments;
pub mod enums;
pub mod events;
pub mod file;
pub mod limits;
pub mod load;
pub mod oom_values;
pub mod rewrite;
pub mod save_points;
pub mod shutdown;
pub mod size;
pub mod state;
pub mod table;
pub mod title_template;
mod unsupported;
pub mod value;

pub use enums::{Access, ClientCertificates, DisklessLoad, LogLevel, MaxmemoryPolicy};
pub use limits::{ClientClass, OutputLimit};
pub use state::Config;
pub use table::Opt;
