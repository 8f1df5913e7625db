//! Scripting: Lua 5.1 with the functions that Redis 7.2 gives to scripts.
//!
//! From top to bottom: `evaluate` runs a script for a command, and `from_lua` turns the value that it returns into a reply.
//! `interpreter` keeps the Lua states of each thread, with the scripts and libraries that are compiled and loaded in them.
//! `redis` is the table of that name: it passes a command from Lua to the engine and the reply back. `library` has the other
//! libraries that a script finds. `native` is the common part of the functions that Lua calls: their arguments and errors,
//! the invocation to which they belong, and the pulse: the check, made by all code that may take long, whether the script is
//! to be interrupted.

pub mod evaluate;
mod from_lua;
mod interpreter;
pub mod library;
mod native;
pub mod redis;
