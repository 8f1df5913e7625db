//! The store from outside: each type beside a plain twin.
//!
//! One program for all files, because linking a program takes longer than running most of them.

mod elsewhere;
mod file;
mod hyperloglog;
mod list;
mod listpack;
mod map;
mod model;
mod random;
mod rdb_files;
mod set;
mod slots;
mod snapshot;
mod sorted_set;
mod stream;
mod walks;
