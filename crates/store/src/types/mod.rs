//! The types of values, one file or folder each. A small collection is one packed run of bytes inside its entry; a
//! large one has a structure of its own.

pub mod hash;
pub mod hyperloglog;
pub mod list;
pub mod set;
pub mod sorted_set;
pub mod stream;
