//! The messages of a running command to other clients: published messages, and the keys that a client has read.
//!
//! The subscribers and the trackers are known elsewhere (`pubsub`, `tracking`); here a command hands them its messages, in
//! the name of its client. Messages to that client itself wait, and are sent behind the command's reply. All of this runs on
//! the executing thread.

use std::fmt::Write;

use sleeve_wire::commands::{Command, Flags, Group, Row};
use sleeve_wire::inline;
use sleeve_wire::request::Args;

use super::Cx;
use super::tracking_delivery;
use super::tracking_delivery::Delivery;
use crate::config::{ClientClass, Opt};
use crate::engine::clients::client_info::ClientInfo;
use crate::engine::clients::tracking;
use crate::host::clock::Instant;
use crate::messaging::mail::Letter;
use crate::messaging::message::Kind;
use crate::request::{REDACTED, Request};

/// Publishes a message to a channel or shard channel; returns the number of receivers.
pub fn publish(cx: &mut Cx<'_>, kind: Kind, channel: &[u8], payload: &[u8]) -> usize {
    let bytes_max = cx.engine.config.output_limit(ClientClass::Pubsub).hard_bytes;
    let by = (cx.state.own(), &mut cx.pending.wakeups, bytes_max);
    cx.engine.pubsub.publish((kind, channel), payload, by)
}

/// Writes the messages that the client has published to itself, behind the reply of the command that did it.
#[cold]
pub fn push_own(cx: &mut Cx<'_>) {
    for key in std::mem::take(&mut cx.pending.wakeups.invalid) {
        let keys = key.map(|key| tracking::array_of(&[&key]));
        match tracking_delivery::deliver(cx.engine, cx.state, keys) {
            Delivery::Nothing => {}
            Delivery::Push(bytes) => cx.out.bytes.extend_from_slice(&bytes),
            Delivery::Forward(client, keys) => {
                cx.pending.post(&client.mailbox, Letter::Redirected { id: client.id, keys })
            }
        }
    }
    for (message, form) in cx.pending.wakeups.own.drain(..) {
        cx.out.push_shared(form.bytes(&message, cx.state.protocol));
    }
}

/// Shows a running command to the monitors.
#[cold]
pub fn show_to_monitors(cx: &mut Cx<'_>, request: &Request<'_>) {
    let is_shown = !request.row.flags.intersects(Flags::ADMIN.or(Flags::SKIP_MONITOR)) || request.row.runs_script();
    if is_shown && cx.state.origin.serving.is_none() && !cx.state.origin.is_unobserved {
        let from = (&*cx.state.client, cx.state.origin.denies_blocking && !cx.state.origin.is_replaying);
        let line = monitor_line(request.row.id, request.args, from, (cx.now, cx.state.database));
        publish(cx, Kind::Monitor, b"", &line);
    }
}

/// Returns the line of MONITOR about a command that ran at `now` with this database selected, equal to Redis's to the byte.
/// Secret arguments are redacted. A command of a script has no address.
fn monitor_line(
    command: Command,
    args: Args<'_>,
    from: (&ClientInfo, bool),
    (now, database): (Instant, u32),
) -> Vec<u8> {
    let (client, is_script) = from;
    let (seconds, microseconds) = (now.wall_us / 1_000_000, now.wall_us % 1_000_000);
    let mut text = format!("+{seconds}.{microseconds:06} [{database} ");
    match client.socket.address.strip_suffix(":0") {
        _ if is_script => text.push_str("lua"),
        Some(path) if client.socket.descriptor >= 0 => _ = write!(text, "unix:{path}"),
        _ => text.push_str(&client.socket.address),
    }
    text.push(']');
    let hidden = command.row().secrets.map_or(Vec::new(), |secrets| secrets.positions(args));
    let mut line = text.into_bytes();
    for (index, argument) in args.iter().enumerate() {
        line.push(b' ');
        let shown = if hidden.binary_search(&index).is_ok() { REDACTED } else { argument };
        inline::quote(shown, &mut line);
    }
    line.extend_from_slice(b"\r\n");
    line
}

/// Remembers the keys that a command has read, for a client that tracks. Their shards are still locked.
#[cold]
pub fn remember_reads(cx: &mut Cx<'_>, request: &Request<'_>) {
    let Some(tracking) = &cx.state.tracking else { return };
    let reads = request.row.flags.contains(Flags::READONLY) && request.row.group != Group::Scripting;
    let is_meant = !(tracking.opt_in && !tracking.caching || tracking.opt_out && tracking.caching);
    if !reads || tracking.broadcast || !is_meant {
        return;
    }
    let keys_max = cx.engine.config.number(Opt::TrackingTableMaxKeys) as usize;
    for key in request.keys() {
        cx.engine.clients.tracking.remember(cx.state.client.id, key.name, (keys_max, cx.dice), &mut cx.pending.wakeups);
    }
}

/// Limits the remembered reads to `tracking-table-max-keys`, which has changed.
pub fn limit_remembered_reads(cx: &mut Cx<'_>) {
    let keys_max = cx.engine.config.number(Opt::TrackingTableMaxKeys) as usize;
    cx.engine.clients.tracking.limit(cx.state.client.id, keys_max, cx.dice, &mut cx.pending.wakeups);
}

/// Ends the effect of CLIENT CACHING after the command that it was meant for.
#[cold]
pub fn forget_caching(cx: &mut Cx<'_>, row: Option<&'static Row>) {
    let is_about_client = row.is_some_and(|row| row.parent == Some(Command::Client) || row.id == Command::Client);
    if let Some(tracking) = &mut cx.state.tracking
        && cx.state.multi.transaction.is_none()
        && !is_about_client
    {
        tracking.caching = false;
    }
}
