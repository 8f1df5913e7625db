//! The messages of a running command to other clients: published messages, and the keys that a client has read.
//!
//! The subscribers and the trackers are known elsewhere (`pubsub`, `tracking`); here a command hands them its messages, in
//! the name of its client. The messages to that client itself wait, and go behind the command's reply. The executing thread.

use sleeve_wire::commands::{Command, Flags, Group, Row};

use super::Cx;
use super::tracking_delivery;
use super::tracking_delivery::Delivery;
use crate::config::{ClientClass, Config, Opt};
use crate::engine::clients::monitor_line;
use crate::engine::clients::tracking;
use crate::messaging::mail::Letter;
use crate::messaging::message::Kind;
use crate::request::Request;

/// Returns the bytes of messages that may wait for an embedded subscriber that does not look, 0 for no bound.
pub fn waiting_bytes_max(config: &Config) -> u64 {
    config.output_limit(ClientClass::Pubsub).hard_bytes
}

impl Cx<'_> {
    /// Publishes a message to a channel or shard channel; to how many.
    pub fn publish(&mut self, kind: Kind, channel: &[u8], payload: &[u8]) -> usize {
        let bytes_max = waiting_bytes_max(&self.engine.config);
        let by = (self.state.own(), &mut self.pending.wakeups, bytes_max);
        self.engine.pubsub.publish((kind, channel), payload, by)
    }

    /// Writes the messages that the client has published to itself, behind the reply of the command that did it.
    #[cold]
    pub fn push_own(&mut self) {
        for key in std::mem::take(&mut self.pending.wakeups.invalid) {
            let keys = key.map(|key| tracking::array_of(&[&key]));
            match tracking_delivery::deliver(self.engine, self.state, keys) {
                Delivery::Nothing => {}
                Delivery::Push(bytes) => self.out.bytes.extend_from_slice(&bytes),
                Delivery::Forward(client, keys) => {
                    self.post(&client.mailbox, Letter::Redirected { id: client.id, keys })
                }
            }
        }
        for (message, form) in self.pending.wakeups.own.drain(..) {
            self.out.push_shared(form.bytes(&message, self.state.protocol));
        }
    }

    /// Shows a running command to the monitors.
    #[cold]
    pub fn show_to_monitors(&mut self, request: &Request<'_>) {
        let is_shown = !request.row.flags.intersects(Flags::ADMIN.or(Flags::SKIP_MONITOR)) || request.row.runs_script();
        if is_shown && self.state.serving.is_none() && !self.state.is_unobserved {
            let from = (&*self.state.client, self.state.denies_blocking && !self.state.is_replaying);
            let line = monitor_line::line(request.row.id, request.args, from, (self.now, self.state.database));
            self.publish(Kind::Monitor, b"", &line);
        }
    }

    /// Remembers the keys that a command has read, for a client that tracks. Their shards are still locked.
    #[cold]
    pub fn remember_reads(&mut self, request: &Request<'_>) {
        let Some(tracking) = &self.state.tracking else { return };
        let reads = request.row.flags.contains(Flags::READONLY) && request.row.group != Group::Scripting;
        let is_meant = !(tracking.opt_in && !tracking.caching || tracking.opt_out && tracking.caching);
        if !reads || tracking.broadcast || !is_meant {
            return;
        }
        let keys_max = self.engine.config.number(Opt::TrackingTableMaxKeys) as usize;
        for key in request.keys() {
            self.engine.tracking.remember(
                self.state.client.id,
                key.name,
                (keys_max, self.dice),
                &mut self.pending.wakeups,
            );
        }
    }

    /// Limits the remembered reads to `tracking-table-max-keys`, which has changed.
    pub fn limit_remembered_reads(&mut self) {
        let keys_max = self.engine.config.number(Opt::TrackingTableMaxKeys) as usize;
        self.engine.tracking.limit(self.state.client.id, keys_max, self.dice, &mut self.pending.wakeups);
    }

    /// Forgets CLIENT CACHING behind the command that it was about.
    #[cold]
    pub fn forget_caching(&mut self, row: Option<&'static Row>) {
        let is_about_client = row.is_some_and(|row| row.parent == Some(Command::Client) || row.id == Command::Client);
        if let Some(tracking) = &mut self.state.tracking
            && self.state.transaction.is_none()
            && !is_about_client
        {
            tracking.caching = false;
        }
    }
}
