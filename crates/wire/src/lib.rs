//! What travels: the command table, requests and replies to and from bytes. No I/O, no state.
//!
//! - [`commands`]: what a command is, one row each; [`grammar`]: its arguments as a tree.
//! - [`request`]: a peer's bytes to requests ([`arguments`], [`protocol_error`]); [`inline`]: requests typed as text.
//! - [`reply`]: values to the bytes of RESP2 or RESP3; [`frame`]: those bytes back to values.
//! - [`number`], [`long_double`], [`pattern`]: numbers and glob patterns, exactly as Redis reads and writes them.
//!
//! Nothing here knows a socket, a clock or a database, and nothing keeps anything beyond one connection's unfinished
//! request. Foreign bytes end in a value or an error, never in a panic, a long loop or an allocation that they chose.
#![forbid(unsafe_code)]

pub mod arguments;
pub mod attribute;
pub mod commands;
pub mod frame;
pub mod grammar;
pub mod inline;
pub mod long_double;
pub mod number;
pub mod pattern;
pub mod protocol_error;
pub mod reply;
pub mod request;
