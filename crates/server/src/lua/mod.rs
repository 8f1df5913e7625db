//! Scripting: Lua 5.1 with the functions that Redis 7.2 gives to scripts.
//!
//! From top to bottom: `evaluate` runs a script for a command, and `from_lua` makes a reply of the value that it returns;
//! `interpreter` keeps the Lua states of each thread and the scripts and libraries that are compiled and loaded in them;
//! `redis` is the table of that name, with the way of a command out of Lua and of its reply back; `library` has the other
//! libraries that a script finds; `native` is the common part of the functions that Lua calls: their arguments and errors,
//! the invocation that they belong to, and the pulse that all code checks which may take long, so that a script can be
//! interrupted.

pub mod evaluate;
mod from_lua;
mod interpreter;
pub mod library;
mod native;
pub mod redis;
