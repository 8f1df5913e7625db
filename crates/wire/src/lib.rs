//! The protocol: the command table, and requests and replies to and from bytes. No I/O, no state.
//!
//! # The rooms, from top to bottom
//!
//! A room uses only rooms below it.
//!
//! | room | contents |
//! | --- | --- |
//! | `grammar` | The arguments of a command as a tree, from the text in its row. |
//! | `commands` | The facts of each command, one row each. |
//! | `request` | A peer's bytes to requests. |
//! | `inline` | Requests that are typed as text. |
//! | `arguments` | The arguments of a request: places in a buffer, or a copy. |
//! | `reply` | Values to the bytes of RESP2 or RESP3. |
//! | `attribute` | Attributes in front of RESP3's frames. |
//! | `frame` | Those bytes back to values. |
//! | `protocol_error` | The faults of a peer's bytes. |
//! | `number` | Numbers as text, exactly as Redis reads and writes them. |
//! | `long_double` | The floating point of 80 bits that INCRBYFLOAT is defined by. |
//! | `pattern` | Glob patterns, exactly as Redis reads them. |
//! | `slot` | The slot of a key in a cluster. |
//!
//! Nothing here knows a socket, a clock or a database, and nothing keeps state beyond one connection's unfinished request.
//! Foreign bytes end in a value or an error, never in a panic, a long loop or an allocation that they chose.
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
pub mod slot;
