//! The output of MONITOR for a command: one line with the time, the database, the client and the arguments.
//!
//! The line equals Redis's to the byte, because people read it and programs parse it. Passwords are not in it. Pure
//! functions; any thread.

use std::fmt::Write;

use sleeve_wire::commands::Command;
use sleeve_wire::inline;
use sleeve_wire::request::Args;

use crate::engine::clients::client_info::ClientInfo;
use crate::host::clock::Instant;
use crate::request::REDACTED;

/// The line about a command that ran at `now` with this database selected. From a script it has no address.
pub fn line(command: Command, args: Args<'_>, from: (&ClientInfo, bool), (now, database): (Instant, u32)) -> Vec<u8> {
    let (client, is_script) = from;
    let (seconds, microseconds) = (now.wall_us / 1_000_000, now.wall_us % 1_000_000);
    let mut text = format!("+{seconds}.{microseconds:06} [{database} ");
    match client.address.strip_suffix(":0") {
        _ if is_script => text.push_str("lua"),
        Some(path) if client.descriptor >= 0 => _ = write!(text, "unix:{path}"),
        _ => text.push_str(&client.address),
    }
    text.push(']');
    let (hidden, mut line) =
        (command.row().secrets.map_or(Vec::new(), |secrets| secrets.positions(args)), text.into_bytes());
    for (index, argument) in args.iter().enumerate() {
        line.push(b' ');
        let shown = if hidden.binary_search(&index).is_ok() { REDACTED } else { argument };
        inline::quote(shown, &mut line);
    }
    line.extend_from_slice(b"\r\n");
    line
}
