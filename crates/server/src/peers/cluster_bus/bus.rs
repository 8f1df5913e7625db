//! The sockets of the bus and their events.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use sleeve_cluster::LinkId;
use sleeve_cluster::action::{Action, Priority};
use sleeve_cluster::state::ClusterState;

use super::link::{Link, Stage};
use super::new_node::NewNode;
use super::nodes_file::NodesFile;
use super::poller::{Poller, Ready, Waker};
use super::tls::LinkTls;
use super::{actions, departed_slots, dial, new_node};
use crate::config::Opt;
use crate::engine::Engine;
use crate::engine::cluster::Cluster;
use crate::engine::cluster::host::{ServerHost, time};
use crate::engine::replication::role::Address;
use crate::host::clock::Instant;
use crate::host::dice::Dice;
use crate::host::log;
use crate::messaging::mail::Accepted;
use crate::net::Listener;

/// The time between two ticks of the state machine, in milliseconds.
const TICK_MS: u64 = 100;

/// The bytes of one receive.
const BUFFER_BYTES: usize = 64 << 10;

/// The longest packet of an accepted link on which no known node has spoken. A MEET of a cluster of 1,000 nodes has a tenth.
const STRANGER_BYTES_MAX: usize = 1 << 20;

/// The most accepted links on which no known node has spoken.
const STRANGERS_MAX: usize = 1_024;

/// The bounds of the time in which a link has to be established, in milliseconds. Between them it is half the node timeout.
const CONNECT_MS: std::ops::RangeInclusive<u64> = 250..=5_000;

/// The keys of the listeners in the poller begin here. Links have their numbers as keys, which are far below.
const LISTENERS: u64 = 1 << 63;

/// The state of the thread.
#[derive(Debug)]
pub(super) struct Bus {
    engine: Arc<Engine>,
    is_over: Arc<AtomicBool>,
    poller: Poller,
    doors: Vec<Arc<Listener>>,
    file: NodesFile,
    tls: Option<LinkTls>,
    links: BTreeMap<LinkId, Link>,
    /// The number of the last link that was accepted.
    last_accepted: u64,
    /// The links that may have bytes to send.
    unsent: BTreeSet<LinkId>,
    buffer: Vec<u8>,
    dice: Dice,
    next_tick_ms: u64,
    /// The version of the view that the workers see.
    shown: u64,
    /// The end of the pause of a manual failover, in monotonic milliseconds.
    held_until_ms: Option<u64>,
}

impl Bus {
    /// Makes the bus of an engine that is a node of a cluster.
    ///
    /// # Errors
    /// The errors of the kernel, and the TLS files that cannot be used.
    pub fn new(
        engine: &Arc<Engine>,
        NewNode { file, doors }: NewNode,
        is_over: Arc<AtomicBool>,
    ) -> Result<Self, String> {
        let poller = Poller::new().map_err(|error| format!("cannot wait for the sockets of the bus: {error}"))?;
        for (key, door) in (LISTENERS..).zip(&doors) {
            poller.add(door, key, false).map_err(|error| format!("cannot accept other nodes: {error}"))?;
        }
        let now_ms = Instant::now().monotonic_ms();
        let tls = engine.config.flag(Opt::TlsCluster).then(|| LinkTls::load(&engine.config, now_ms)).transpose()?;
        if let Some(cluster) = engine.cluster.get() {
            let waker = poller.waker();
            cluster.set_waker(move || waker.wake());
        }
        Ok(Self {
            engine: Arc::clone(engine),
            is_over,
            poller,
            doors,
            file,
            tls,
            links: BTreeMap::new(),
            last_accepted: 1,
            unsent: BTreeSet::new(),
            buffer: vec![0; BUFFER_BYTES],
            dice: engine.identity.dice(),
            next_tick_ms: 0,
            shown: 0,
            held_until_ms: None,
        })
    }

    /// Returns a handle with which any thread wakes this one.
    pub fn waker(&self) -> Waker {
        self.poller.waker()
    }

    /// Takes over the role and the slots of the state, before clients are served.
    ///
    /// # Errors
    /// nodes.conf cannot be written.
    pub fn begin(&mut self) -> Result<(), String> {
        new_node::adopt_keys(&self.engine, &self.dice);
        self.tick(Instant::now())?;
        self.settle(Instant::now())
    }

    /// Moves bytes until the end.
    ///
    /// # Errors
    /// The reason for which the server has to end.
    pub fn run(&mut self) -> Result<(), String> {
        while !self.is_over.load(Ordering::Relaxed) {
            let now_ms = Instant::now().monotonic_ms();
            // The loss of a link may have left packets for others.
            let wait_ms = if self.unsent.is_empty() { self.next_tick_ms.saturating_sub(now_ms) } else { 0 };
            let timeout = Duration::from_millis(wait_ms);
            let ready = self.poller.wait(timeout).map_err(|error| format!("cannot wait for its sockets: {error}"))?;
            // A server that sleeps answers no packet that comes meanwhile.
            self.engine.sleep_out(Instant::now().monotonic_ms());
            let now = Instant::now();
            for ready in ready {
                self.handle(ready, now);
                self.settle(now)?;
            }
            if now.monotonic_ms() >= self.next_tick_ms {
                self.tick(now)?;
            }
            self.pass_messages_on();
            self.settle(now)?;
            self.flush(now)?;
        }
        Ok(())
    }

    /// Lets the state machine work, without any shard.
    fn with_state<T>(&self, now: Instant, work: impl FnOnce(&mut ClusterState, &mut ServerHost<'_, '_>) -> T) -> T {
        let mut host = ServerHost::without_locks(&self.engine, &self.dice, now);
        work(&mut self.cluster().state.lock(), &mut host)
    }

    fn cluster(&self) -> &Cluster {
        self.engine.cluster.get().expect("the bus of a server that is a node of a cluster")
    }

    fn tick(&mut self, now: Instant) -> Result<(), String> {
        let now_ms = now.monotonic_ms();
        self.next_tick_ms = now_ms + TICK_MS;
        if self.held_until_ms.is_some_and(|until_ms| now_ms >= until_ms) {
            self.hold_writes(None);
        }
        self.with_state(now, |state, host| state.tick(time(now), host));
        let limit_ms = (self.engine.config.number(Opt::ClusterNodeTimeout).unsigned_abs() / 2)
            .clamp(*CONNECT_MS.start(), *CONNECT_MS.end());
        let is_late = |link: &Link| link.stage() != Stage::Up && now_ms.saturating_sub(link.opened_ms) > limit_ms;
        let late: Vec<LinkId> = self.links.iter().filter(|(_, link)| is_late(link)).map(|(id, _)| *id).collect();
        late.into_iter().for_each(|id| self.lose(id, now, "it was not established in time"));
        Ok(())
    }

    /// Gives the messages of this node's clients to the state machine.
    fn pass_messages_on(&mut self) {
        let messages = self.cluster().outbox.take();
        if !messages.is_empty() {
            let mut state = self.cluster().state.lock();
            messages.into_iter().for_each(|message| state.publish(message));
        }
    }
}

/// The events of sockets.
impl Bus {
    fn handle(&mut self, ready: Ready, now: Instant) {
        if ready.key >= LISTENERS {
            self.accept((ready.key - LISTENERS) as usize, now);
            return;
        }
        let id = LinkId(ready.key);
        // A link that was closed in this round may still be reported.
        let Some(link) = self.links.get_mut(&id) else { return };
        if link.stage() == Stage::Connecting {
            if ready.can_write {
                match link.connected() {
                    Ok(()) => self.note_stage(id, Stage::Connecting, now),
                    Err(error) => self.lose(id, now, &error.to_string()),
                }
            }
            return;
        }
        if ready.can_write {
            self.unsent.insert(id);
        }
        if ready.can_read {
            self.receive(id, now);
        }
    }

    /// Tells the state machine of a link that this node has opened, once packets can be exchanged.
    fn note_stage(&mut self, id: LinkId, before: Stage, now: Instant) {
        self.unsent.insert(id);
        let is_up = self.links.get(&id).is_some_and(|link| link.stage() == Stage::Up);
        // The caller numbers accepted links with odd numbers.
        if is_up && before != Stage::Up && id.0.is_multiple_of(2) {
            self.with_state(now, |state, host| state.link_up(id, time(now), host));
        }
    }

    fn accept(&mut self, door: usize, now: Instant) {
        let accepted = match self.doors.get(door).map(|door| door.accept_some()) {
            Some(Ok(accepted)) => accepted,
            Some(Err(error)) => return log::verbose(&format!("Error accepting cluster node: {error}")),
            None => return,
        };
        for Accepted { socket, address, local_address, .. } in accepted {
            if self.count_strangers() >= STRANGERS_MAX {
                log::verbose(&format!(
                    "A link of {address} is refused: too many nodes that are not known are connected"
                ));
                continue;
            }
            log::verbose(&format!("Accepting cluster node connection from {address}"));
            self.last_accepted += 2;
            let id = LinkId(self.last_accepted);
            let channel = match self.renewed_tls(now) {
                None => None,
                Some(tls) => match tls.accept() {
                    None => continue,
                    channel => channel,
                },
            };
            let stage = if channel.is_some() { Stage::Sealing } else { Stage::Up };
            if self.add(id, socket, (stage, channel), now) {
                let (peer, own) = (ip_of(&address), ip_of(&local_address));
                self.cluster().state.lock().accept(id, peer, own);
            }
        }
    }

    fn count_strangers(&self) -> usize {
        let state = self.cluster().state.lock();
        state.links().iter().filter(|(_, link)| link.node.is_none()).count()
    }

    fn renewed_tls(&mut self, now: Instant) -> Option<&LinkTls> {
        let tls = self.tls.as_mut()?;
        tls.renew(&self.engine.config, now.monotonic_ms());
        Some(tls)
    }

    /// Adds a link. Returns false if the kernel refuses to watch its socket.
    fn add(
        &mut self,
        id: LinkId,
        socket: OwnedFd,
        (stage, channel): (Stage, Option<Box<crate::net::tls::Channel>>),
        now: Instant,
    ) -> bool {
        let is_added = self.poller.add(&socket, id.0, stage == Stage::Connecting).is_ok();
        if is_added {
            self.links.insert(id, Link::new(socket, stage, channel, now.monotonic_ms()));
        }
        is_added
    }

    fn receive(&mut self, id: LinkId, now: Instant) {
        let Some(link) = self.links.get_mut(&id) else { return };
        let before = link.stage();
        let received = link.receive(&mut self.buffer);
        self.note_stage(id, before, now);
        let unfit = self.take_packets(id, now);
        match (unfit, received) {
            (Some(reason), _) => self.lose(id, now, &reason),
            (None, Err(error)) => self.lose(id, now, &error.to_string()),
            (None, Ok(())) => {}
        }
    }

    /// Gives the whole packets of a link to the state machine. Returns the reason why the link is of no use any more, if there
    /// is one.
    fn take_packets(&mut self, id: LinkId, now: Instant) -> Option<String> {
        let cluster = self.engine.cluster.get()?;
        let mut host = ServerHost::without_locks(&self.engine, &self.dice, now);
        let link = self.links.get_mut(&id)?;
        let unfit = loop {
            let mut state = cluster.state.lock();
            let bytes_max = match state.links().get(id).map(|link| link.node) {
                // The state machine has closed the link: its last bytes mean nothing.
                None => break None,
                Some(None) => STRANGER_BYTES_MAX,
                Some(Some(_)) => usize::MAX,
            };
            match link.inbox.next(bytes_max) {
                Ok(Some(frame)) => state.receive(id, frame, time(now), &mut host),
                Ok(None) => break None,
                Err(unfit) => break Some(unfit),
            }
        };
        link.inbox.tidy();
        let unfit = unfit?;
        let peer = cluster.state.lock().links().get(id).map(|link| link.peer_ip.clone()).unwrap_or_default();
        log::warning(&format!("Bad packet on the cluster bus from {peer}: {unfit}"));
        Some(unfit.to_string())
    }

    /// Drops a link that is lost, and tells the state machine.
    fn lose(&mut self, id: LinkId, now: Instant, reason: &str) {
        self.drop_link(id);
        log::debug(&format!("The {id} of the cluster bus has ended: {reason}"));
        self.cluster().state.lock().link_down(id, time(now));
    }

    fn drop_link(&mut self, id: LinkId) {
        // The kernel forgets a socket that is closed.
        self.links.remove(&id);
        self.unsent.remove(&id);
        self.cluster().gauges.forget(id);
    }

    /// Sends the packets that wait, as far as the sockets take them.
    fn flush(&mut self, now: Instant) -> Result<(), String> {
        for id in std::mem::take(&mut self.unsent) {
            let Some(link) = self.links.get_mut(&id) else { continue };
            let dropped = link.queue.take_dropped();
            if dropped > 0 {
                log::warning(&format!(
                    "{dropped} messages are dropped, because the node of {id} takes them too slowly"
                ));
            }
            let flushed = link.flush();
            let is_changed = flushed.as_ref().is_ok_and(|waits| link.set_watched(*waits));
            if let Some(queue) = link.changed_gauge() {
                self.cluster().gauges.note(id, queue);
            }
            let watched = match (flushed, self.links.get(&id)) {
                (Ok(waits), Some(link)) if is_changed => self.poller.watch(link, id.0, waits),
                (flushed, _) => flushed.map(|_| ()),
            };
            if let Err(error) = watched {
                self.lose(id, now, &error.to_string());
            }
        }
        self.settle(now)
    }
}

/// The actions of the state machine.
impl Bus {
    /// Carries out the actions of the state machine, shows its view, and replies to the commands that wanted them. The packets
    /// among them leave with the next flush, when the view is shown.
    ///
    /// # Errors
    /// nodes.conf cannot be written.
    fn settle(&mut self, now: Instant) -> Result<(), String> {
        loop {
            // They are taken first, because the actions of each are in the state before its reply is held.
            let replies = self.cluster().held_replies.take();
            let (actions, version) = {
                let mut state = self.cluster().state.lock();
                (state.take_actions(), state.version())
            };
            if replies.is_empty() && actions.is_empty() && version == self.shown {
                return Ok(());
            }
            for action in actions {
                self.carry_out(action, now)?;
            }
            // A command has shown its change before it answered.
            self.shown = self.shown.max(self.cluster().view().version.min(version));
            if version > self.shown {
                self.shown = actions::show(&self.engine, self.cluster());
            }
            actions::reply(&self.engine, replies);
        }
    }

    fn carry_out(&mut self, action: Action, now: Instant) -> Result<(), String> {
        let engine = Arc::clone(&self.engine);
        match action {
            Action::Connect { link, ip, port } => self.connect(link, &ip, port, now),
            Action::Close(link) => {
                // The last packets of a link, such as the word that a node was forgotten, still leave if the socket takes them.
                if let Some(link) = self.links.get_mut(&link) {
                    _ = link.flush();
                }
                self.drop_link(link);
            }
            Action::Send { link, bytes, priority } => self.put(link, bytes, priority, now),
            Action::Save { text, .. } => self.file.save(&text)?,
            Action::Follow { host, port, .. } => {
                self.shown = actions::follow(&engine, self.cluster(), Address { host, port });
            }
            Action::Lead => self.shown = actions::lead(&engine, self.cluster(), now),
            Action::DeleteKeys(slots) => {
                // No request for these slots may find the keys that are about to go.
                self.shown = actions::show(&engine, self.cluster());
                departed_slots::remove(&engine, &slots, now);
            }
            Action::FlushAll => actions::flush_all(&engine),
            Action::PauseWrites { until_ms } => self.hold_writes(Some(until_ms)),
            Action::ResumeWrites => {
                // If the slots have gone to the replica, a write that was held is redirected: here it would be lost.
                self.shown = actions::show(&engine, self.cluster());
                self.hold_writes(None);
            }
            Action::Publish { channel, message, is_sharded } => {
                actions::publish(&engine, &channel, &message, is_sharded);
            }
            Action::Log(level, line) => actions::write_log(level, &line),
        }
        Ok(())
    }

    fn connect(&mut self, id: LinkId, ip: &str, port: u16, now: Instant) {
        let channel = match self.renewed_tls(now) {
            None => Ok(None),
            Some(tls) => tls.connect(ip).map(Some).ok_or("it has no name for TLS"),
        };
        let begun = dial::begin(ip, port).map_err(|error| error.to_string());
        match (begun, channel) {
            (Ok(socket), Ok(channel)) => {
                if !self.add(id, socket, (Stage::Connecting, channel), now) {
                    self.lose(id, now, "the socket cannot be watched");
                }
            }
            (Err(reason), _) => self.lose(id, now, &format!("{ip}:{port} cannot be connected to: {reason}")),
            (_, Err(reason)) => self.lose(id, now, &format!("{ip}:{port} cannot be connected to: {reason}")),
        }
    }

    fn put(&mut self, id: LinkId, bytes: Arc<[u8]>, priority: Priority, now: Instant) {
        let limit = self.engine.config.number(Opt::ClusterLinkSendbufLimit).unsigned_abs() as usize;
        let Some(link) = self.links.get_mut(&id) else { return };
        let is_taken = link.put(bytes, priority);
        self.unsent.insert(id);
        if !is_taken || (limit != 0 && link.queue.bytes() > limit) {
            let bytes = link.queue.bytes();
            self.cluster().gauges.count_closed();
            log::warning(&format!(
                "The {id} of the cluster bus is closed: {bytes} bytes wait, and its node takes none"
            ));
            self.lose(id, now, "its node takes its packets too slowly");
        }
    }

    /// Begins or ends the pause of a manual failover.
    fn hold_writes(&mut self, until_ms: Option<u64>) {
        if until_ms.is_some() != self.held_until_ms.is_some() {
            actions::hold_writes(&self.engine, until_ms.is_some());
        }
        self.held_until_ms = until_ms;
    }
}

impl Drop for Bus {
    fn drop(&mut self) {
        self.hold_writes(None);
        self.doors.iter().for_each(|door| door.close());
    }
}

/// Returns the IP address of `ip:port` or `[ip]:port`.
fn ip_of(address: &str) -> String {
    let ip = address.rsplit_once(':').map_or(address, |(ip, _)| ip);
    ip.trim_start_matches('[').trim_end_matches(']').to_owned()
}
