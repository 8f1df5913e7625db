//! RESP as the client's programs see it: requests as the bytes that travel (`request`), Rust values as the arguments of
//! commands, and replies as Rust values.

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
pub(crate) mod request;
pub(crate) mod text;
pub(crate) mod value;
