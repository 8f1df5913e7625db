//! The table `redis` of a script, and the way of a command from Lua into the engine and back.

pub mod api;
pub mod call;
pub mod to_lua;
