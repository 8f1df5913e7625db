//! The libraries that a script finds, as Lua calls them: those of Lua that are our own, and those that Redis adds.

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
