//! What MONITOR shows of a command: one line with the time, the database, the client and the arguments.
//!
//! The line is Redis's to the byte, because people read it and programs parse it. Passwords are not in it. Pure functions;
//! any thread.

use std::fmt::Write;

use sleeve_wire::commands::Command;
use sleeve_wire::request::Args;

use crate::engine::clients::client_info::Peer;
use crate::host::clock::Instant;
use crate::request::redaction;

/// The line about a command that ran at `now` with this database selected. From a script it has no address.
pub fn line(command: Command, args: Args<'_>, from: (&Peer, bool), (now, database): (Instant, u32)) -> Vec<u8> {
    let (peer, is_script) = from;
    let (seconds, microseconds) = (now.wall_us / 1_000_000, now.wall_us % 1_000_000);
    let mut text = format!("+{seconds}.{microseconds:06} [{database} ");
    match peer.address.strip_suffix(":0") {
        _ if is_script => text.push_str("lua"),
        Some(path) if peer.descriptor >= 0 => _ = write!(text, "unix:{path}"),
        _ => text.push_str(&peer.address),
    }
    text.push(']');
    let hidden = redaction::of(command, args);
    for (index, argument) in args.iter().enumerate() {
        text.push(' ');
        push_quoted(&mut text, if hidden.binary_search(&index).is_ok() { redaction::REDACTED } else { argument });
    }
    text.push_str("\r\n");
    text.into_bytes()
}

fn push_quoted(text: &mut String, bytes: &[u8]) {
    text.push('"');
    for &byte in bytes {
        match byte {
            b'\\' | b'"' => text.extend(['\\', char::from(byte)]),
            b'\n' => text.push_str("\\n"),
            b'\r' => text.push_str("\\r"),
            b'\t' => text.push_str("\\t"),
            7 => text.push_str("\\a"),
            8 => text.push_str("\\b"),
            b' '..=b'~' => text.push(char::from(byte)),
            _ => _ = write!(text, "\\x{byte:02x}"),
        }
    }
    text.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_printed_is_escaped() {
        let mut text = String::new();
        push_quoted(&mut text, b"a\"\\\n\x00\xff\x07");
        assert_eq!(text, r#""a\"\\\n\x00\xff\a""#);
    }
}
