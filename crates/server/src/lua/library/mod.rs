//! The libraries that a script finds, as Lua calls them: replacements of Lua's own functions, and the libraries that Redis
//! adds.

pub mod base;
pub mod bit;
pub mod collector;
pub mod copies;
pub mod json;
pub mod json_decode;
pub mod json_encode;
pub mod msgpack;
pub mod protected;
pub mod random;
pub mod strings;
pub mod structs;
pub mod tables;
