//! Rust values as the arguments of commands, and replies as Rust values.

pub(crate) mod argument;
pub(crate) mod counted;
pub(crate) mod decode;
pub(crate) mod number;
pub(crate) mod value;
