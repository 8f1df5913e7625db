//! The events of a node: time, packets, links, options and messages come in, and actions go out.

use crate::action::{Action, LinkId, LogLevel};
use crate::host::{Host, Time};
use crate::node::NodeFlags;
use crate::nodes_conf::{self, Stored};
use crate::packet::{self, HeartbeatKind, Message, Packet};
use crate::state::cluster_state::{ClusterState, Duties, Followed, Save};
use crate::state::failover::{campaign, failure, manual, replica_migration};
use crate::state::links::Link;
use crate::state::options::Options;
use crate::state::send::Audience;
use crate::state::{members, receive, send};

/// The calls of `tick` in a second.
const TICKS_PER_SECOND: u64 = 10;

impl ClusterState {
    /// Does the work of the clock. Called every 100 ms.
    pub fn tick(&mut self, now: Time, host: &mut dyn Host) {
        self.begin(now, host);
        self.clock.ticks += 1;
        self.note_sleep(now);
        failure::reconnect(self, now, host);
        if self.clock.ticks.is_multiple_of(TICKS_PER_SECOND) {
            failure::ping_one(self, now, host);
            self.close_strangers(now);
        }
        failure::watch(self, now, host);
        replica_migration::advance(self, now);
        self.duties.judge |= !self.health.is_ok;
        self.settle(now, host);
    }

    /// Takes a whole packet of a link. If it is malformed, the link is closed.
    pub fn receive(&mut self, link: LinkId, frame: &[u8], now: Time, host: &mut dyn Host) {
        match packet::decode(frame) {
            Ok(packet) => self.receive_packet(link, packet, now, host),
            Err(fault) => {
                let peer_ip = self.links.get(link).map(|link| link.peer_ip.clone()).unwrap_or_default();
                self.log(LogLevel::Warning, format!("Bad packet on the cluster bus from {peer_ip}: {fault}"));
                self.close_faulty(link, now);
            }
        }
    }

    /// Closes a link over which a malformed packet came. The next attempt to connect waits, as after any failure.
    fn close_faulty(&mut self, link: LinkId, now: Time) {
        let peer = self.links.get(link).filter(|link| link.is_outgoing).and_then(|link| link.node);
        members::close(self, link);
        if let Some(peer) = peer {
            failure::link_lost(self, peer, false, now);
        }
    }

    /// Takes a packet that has been decoded.
    pub fn receive_packet(&mut self, link: LinkId, packet: Packet, now: Time, host: &mut dyn Host) {
        if self.links.get(link).is_none() || self.traffic.loses(&packet) {
            return;
        }
        // A client may wait for a nodes.conf that its command has changed.
        let is_save_due = self.duties.save.is_some() && !self.duties.may_wait;
        self.begin(now, host);
        receive::packet(self, link, packet, now, host);
        self.settle(now, host);
        self.duties.may_wait = !is_save_due;
    }

    /// Takes a link that another node has opened, with the IP addresses of the other end and of this end.
    pub fn accept(&mut self, link: LinkId, peer_ip: String, local_ip: String) {
        let now = self.clock.now;
        let (opened_ms, opened_unix_ms) = (now.ms, now.unix_ms);
        self.links.add(link, Link { node: None, is_outgoing: false, peer_ip, local_ip, opened_ms, opened_unix_ms });
    }

    /// Notes that a link that this node opens is up, and sends the first packet over it.
    pub fn link_up(&mut self, link: LinkId, now: Time, host: &mut dyn Host) {
        self.begin(now, host);
        let peer = self.links.get(link).filter(|link| link.is_outgoing).and_then(|link| link.node);
        if let Some(node) = peer.and_then(|id| self.nodes.get_mut(&id)) {
            node.links.is_connected = true;
            let meets = node.flags.has(NodeFlags::MEET);
            let kind = if meets { HeartbeatKind::Meet } else { HeartbeatKind::Ping };
            send::heartbeat(self, link, kind, now, host);
        }
        self.settle(now, host);
    }

    /// Notes that a link is lost, or could not be opened.
    pub fn link_down(&mut self, link: LinkId, now: Time) {
        let Some(lost) = self.links.get(link) else { return };
        let (peer, is_outgoing) = (lost.node, lost.is_outgoing);
        let was_connected = peer.and_then(|id| self.node(id)).is_some_and(|node| node.links.is_connected);
        members::forget_link(self, link);
        let Some(id) = peer else { return };
        if is_outgoing {
            failure::link_lost(self, id, was_connected, now);
        } else if let Some(node) = self.nodes.get_mut(&id).filter(|node| node.links.incoming.is_none()) {
            node.links.incoming_lost_ms = now.ms;
        }
    }

    /// Sends a published message to the other nodes, or to those of the own shard if it is a message of a shard.
    pub fn publish(&mut self, message: Message) {
        send::message(self, message);
    }

    /// Takes over changed options. If the own address has changed, all nodes are told.
    pub fn set_options(&mut self, options: Options, now: Time, host: &mut dyn Host) {
        self.begin(now, host);
        let old = self.myself().clone();
        self.take_options(options);
        if old != *self.myself() {
            self.config_changed(Save::Lazy);
            send::announce(self, HeartbeatKind::Ping, Audience::All, now, host);
        }
        self.duties.judge = true;
        self.version += 1;
        self.settle(now, host);
    }

    /// Returns the actions since the last call. A nodes.conf that is to be written is the first. If only packets have changed it,
    /// and in a way that the other nodes would tell again, it waits for the next tick.
    pub fn take_actions(&mut self) -> Vec<Action> {
        self.manual_failover.actions_taken();
        let mut actions = std::mem::take(&mut self.actions);
        let is_due = |save: &mut Save| *save == Save::Synced || !self.duties.may_wait;
        if let Some(save) = self.duties.save.take_if(is_due) {
            let text = nodes_conf::write(&self.stored());
            actions.insert(0, Action::Save { text, sync: save == Save::Synced });
        }
        actions
    }

    /// Begins an event.
    pub(crate) fn begin(&mut self, now: Time, host: &dyn Host) {
        self.clock.now = now;
        self.duties.may_wait = false;
        self.manual_failover.event_begins();
        self.take_offset(host);
    }

    /// Settles the consequences of an event, of a command as well.
    pub(crate) fn settle(&mut self, now: Time, host: &mut dyn Host) {
        self.find_primary();
        self.leave_replica();
        manual::advance(self, now);
        campaign::advance(self, now, host);
        if self.duties.judge {
            self.judge_health(now);
        }
        self.reconcile_role();
        let Duties { announce, .. } = self.duties;
        if announce {
            self.duties.announce = false;
            send::announce(self, HeartbeatKind::Pong, Audience::All, now, host);
        }
    }

    /// Follows the primary of the own shard, if this node is a replica that has lost its primary with a part of its nodes.conf.
    fn find_primary(&mut self) {
        let me = self.myself();
        if me.is_primary() || self.own_primary().is_some() {
            return;
        }
        let shard = me.shard;
        let primary = self.nodes.values().find(|node| node.is_voter() && node.shard == shard).map(|node| node.id);
        if let Some(primary) = primary {
            self.log(LogLevel::Warning, format!("I'm a replica without a primary, and follow {primary} of my shard"));
            members::follow(self, primary);
        }
    }

    /// Follows the primary of the own primary, if that has become a replica itself.
    fn leave_replica(&mut self) {
        let Some(primary) = self.own_primary().filter(|primary| *primary != self.me) else { return };
        let above = self.node(primary).filter(|node| node.is_replica()).and_then(|node| node.primary);
        // After a takeover two nodes may follow each other. An operator has to repair that.
        if let Some(above) = above.filter(|above| *above != self.me && self.nodes.contains_key(above)) {
            self.log(LogLevel::Warning, format!("I'm a sub-replica! Reconfiguring myself as a replica of {above}"));
            members::follow(self, above);
        }
    }

    /// Stops serving if this node has slept for longer than the node timeout, as a process that was stopped or a machine that
    /// was suspended: another node may have taken its slots. A node timeout below the delay of an election counts as that
    /// delay, before which no replica asks for votes. Otherwise the pause between two ticks would be such a sleep.
    fn note_sleep(&mut self, now: Time) {
        let slept_ms = now.ms.saturating_sub(self.clock.tick_ms);
        let asleep_ms = self.options.node_timeout_ms.max(campaign::DELAY_MS);
        let has_slept = self.clock.tick_ms != 0 && slept_ms > asleep_ms;
        self.clock.tick_ms = now.ms;
        if has_slept && self.health.is_ok {
            self.health.lost_touch(now);
            self.version += 1;
            self.log(
                LogLevel::Warning,
                format!("This node has not run for {slept_ms} ms. Cluster state changed: fail"),
            );
        }
    }

    /// Tells the caller to follow the primary, or to lead, if that has changed.
    fn reconcile_role(&mut self) {
        let me = self.myself();
        if me.is_primary() {
            if self.followed.take().is_some() {
                self.actions.push(Action::Lead);
            }
            return;
        }
        let Some(followed) = self.to_follow() else { return };
        if self.followed.as_ref() != Some(&followed) {
            let Followed { node, host, port } = followed.clone();
            self.actions.push(Action::Follow { node, host, port });
            self.followed = Some(followed);
        }
    }

    /// Returns the primary that this node, a replica, has to follow. None as long as its address is not known.
    fn to_follow(&self) -> Option<Followed> {
        let me = self.myself();
        let primary = me.primary.filter(|_| me.is_replica()).and_then(|id| self.nodes.get(&id))?;
        let (base, other) = send::ports_by_use(self, primary.address.port, primary.address.tls_port);
        let port = if base == 0 { other } else { base };
        let is_known = !primary.flags.has(NodeFlags::NO_ADDRESS) && !primary.address.ip.is_empty();
        is_known.then(|| Followed { node: primary.id, host: primary.address.ip.clone(), port })
    }

    /// Returns the host and the port of the primary that this node, a replica, has to follow: its data is to be loaded as that
    /// of a replica. None for a primary, and as long as the address is not known.
    pub fn primary_address(&self) -> Option<(String, u16)> {
        self.to_follow().map(|followed| (followed.host, followed.port))
    }

    /// Closes the accepted links on which no known node has spoken for the time of a handshake.
    fn close_strangers(&mut self, now: Time) {
        let handshake_ms = members::handshake_ms(self);
        let is_old = |link: &Link| link.node.is_none() && now.ms.saturating_sub(link.opened_ms) > handshake_ms;
        let old: Vec<LinkId> = self.links.iter().filter(|(_, link)| is_old(link)).map(|(number, _)| number).collect();
        old.into_iter().for_each(|link| members::close(self, link));
    }

    /// Returns the facts that nodes.conf keeps.
    pub fn stored(&self) -> Stored<'_> {
        Stored {
            nodes: &self.nodes,
            slots: &self.slots,
            epochs: self.epochs,
            has_tls: self.options.has_tls,
            now: self.clock.now,
        }
    }
}
