//! Rust values as the arguments of commands, and replies as Rust values.

pub(crate) mod argument;
pub(crate) mod counted;
pub(crate) mod decode;
pub(crate) mod fields;
#[cfg(feature = "serde")]
pub(crate) mod json;
#[cfg(feature = "serde")]
pub(crate) mod msgpack;
pub(crate) mod number;
pub(crate) mod options;
pub(crate) mod text;
pub(crate) mod value;
