//! Scripting: Lua 5.1 with what Redis 7.2 gives to scripts.
//!
//! From top to bottom: `evaluate` runs a script for a command; `station` keeps each thread's Lua states, `script_room` and
//! `libraries` what is compiled and loaded in them, `realm` is one state and `sandbox` what a script may reach in it;
//! `api` is the table `redis`, whose `call` finds the running command (`scene`) on the `stage`; `bare` goes past mlua; `inbound` and `outbound` turn
//! replies into values and values into replies; `json_*`, `msgpack`, `structs`, `bit` and `random` are the libraries, and
//! `strings` with `pattern`, `copies`, `tables`, `collector` and `protected` what takes the place of functions of Lua's own. Whatever
//! lasts feels the `pulse`: Lua's code by its `hook`, the rest by what it counts (`native`, `allowance`).
//! `scripts`, `flags` and `running` know nothing of Lua: they are what an engine keeps of its scripts.

pub mod evaluate;
pub mod flags;
pub mod running;
pub mod scripts;

mod allowance;
mod api;
mod bare;
mod base;
mod bit;
mod call;
mod collector;
mod copies;
mod hook;
mod inbound;
mod json;
mod json_decode;
mod json_encode;
mod libraries;
mod msgpack;
mod native;
mod numbers;
mod outbound;
mod pattern;
mod protected;
mod pulse;
mod raised;
mod random;
mod realm;
mod sandbox;
mod scene;
mod script_room;
mod source;
mod stage;
mod station;
mod strings;
mod structs;
mod tables;
