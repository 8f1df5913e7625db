//! Golden transcripts: conversations with a server, written down with the exact bytes of every reply.
//!
//! A transcript is a text file that a person can read and edit. It holds cases; a case holds requests, and under each
//! request the bytes that a real server answered. [`play`] sends the requests of a file to any server and lists where the
//! bytes differ; [`record`] writes the replies of a real server into the file and leaves everything else as it was.
//! It does not know the meaning of a command: it sees requests, frames and bytes. Its frame scanner is deliberately
//! not the product's, so that a mistake in one cannot hide in the other.
//!
//! The form, line by line:
//!
//! ```text
//! # A comment; kept when recording.
//! == SET with a condition          a case: it starts with empty databases and new connections
//! @config maxmemory-policy noeviction   set before the case, put back after it
//! > SET k v NX                     a request on connection `a`, words quoted as redis-cli quotes them
//! < +OK\r\n                        the reply, the same in both protocols
//! b> GET k                         another connection
//! 2< $-1\r\n                       the reply where only RESP2 answers so
//! 3< _\r\n                         the reply where only RESP3 answers so
//! @match :{int:1..100}\r\n         a pattern for what depends on time; nothing is recorded below it
//! > TTL k
//! ! *1\r\n$4\r\nPI                 bytes as they stand, for what no well-behaved client sends
//! ?                                reads one more reply without sending anything
//! ```
//!
//! Every case is played twice, once in each protocol, unless `@protocol 2` or `@protocol 3` names one. Directives of a
//! case (before its first request; before the first case they hold for the whole file): `@protocol`, `@config NAME
//! VALUE`, `@restore NAME`, `@since valkey` (Redis 7.0 lacks it, so Valkey's reply is the reference), `@since redis 8.4`
//! (only a Redis from this version on has it; an older one is not asked) and `@alone` (the case looks at the list of
//! clients, so those of earlier cases must have left). Directives of the request that
//! follows: `@match`, `@unordered`, `@unordered pairs`, `@capture NAME`, `@replies N`, `@closed` (everything until the
//! server hangs up). In a request `{{text*N}}` repeats a text, `{{NAME}}` is a captured value, `{{now+N}}` and
//! `{{now_ms+N}}` are times, `{{address:b}}` is the address of connection `b` and `{{server}}` that of the server.

pub mod escape;
pub mod frame;
pub mod pattern;
pub mod play;
pub mod record;
pub mod script;
