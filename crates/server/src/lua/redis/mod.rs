//! The table `redis` of a script: commands pass through it from Lua to the engine, and replies back.

pub mod api;
pub mod call;
pub mod to_lua;
