//! The refresh of the map by the cluster's task, and the holding of slots with a new owner.
//!
//! One request at a time: CLUSTER SLOTS, sent to node after node until one answers. On the reactor's thread alone, with the
//! map's write lock.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::map::{Map, Range, Shard, ranges};
use super::rounds::{Question, REFRESH_PAUSE};
use super::seeds;
use super::task::{ClusterTask, Fence};
use crate::error::{Error, ErrorKind};
use crate::resp::request::name::Name;
use crate::transport::node::{Address, Node};
use crate::transport::replicas::Replicas;

const PING: &[u8] = b"*1\r\n$4\r\nPING\r\n";
const CLUSTER_SLOTS: &[u8] = b"*2\r\n$7\r\nCLUSTER\r\n$5\r\nSLOTS\r\n";

/// The time that a node has to answer before the next one is asked.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);

/// The time after which the map is refreshed although there is no sign of a change.
const REFRESH_PERIOD: Duration = Duration::from_secs(30);

/// The time for which a node without slots is kept after a redirect last named it. While a slot is being moved to a node,
/// redirects name the node for as long as keys are left to be moved.
const NAMED_KEPT: Duration = Duration::from_secs(60);

impl ClusterTask<'_> {
    /// Holds these slots until all requests that were sent to this node before are answered.
    pub(super) fn fence(&mut self, map: &mut Map, node: u32, slots: Vec<u16>) {
        let link = self.registry.numbered(node).and_then(|node| node.link());
        let Some(handle) = link.and_then(|link| self.requests.send(&link, PING, Name::of(&["PING"]))) else { return };
        slots.iter().for_each(|&slot| map.hold(slot));
        self.fences.push(Fence { handle, slots, is_over: false });
    }

    /// Releases the slots for which no request is in flight to the old owner any more.
    pub(super) fn lift_fences(&mut self, map: &mut Map) {
        for fence in self.fences.extract_if(.., |fence| fence.is_over) {
            fence.slots.iter().for_each(|&slot| map.release(slot));
            self.is_changed = true;
        }
    }

    /// Takes the answer to CLUSTER SLOTS, if it has arrived, or gives up waiting for it.
    pub(super) fn hear(&mut self, map: &mut Map, now: Instant) {
        let Some(Question { handle, asked, until }) = self.rounds.question.take() else { return };
        match handle.take() {
            Ok(payload) => {
                let answer = payload.frame().and_then(|frame| ranges(frame, &asked.address.host));
                match answer {
                    Ok(ranges) if !ranges.is_empty() => self.install(map, &ranges, now),
                    Ok(_) => self.trouble = Some(no_slots(&asked.address)),
                    Err(error) => self.trouble = Some(no_answer(&asked.address, &error)),
                }
            }
            Err(handle) if until > now => self.rounds.question = Some(Question { handle, asked, until }),
            Err(_) => self.trouble = Some(silent(&asked.address)),
        }
    }

    /// Asks the next candidate, if a round is due or in progress.
    pub(super) fn ask(&mut self, map: &Map, now: Instant) {
        if self.rounds.question.is_some() {
            return;
        }
        if !self.rounds.is_under_way {
            if self.rounds.next_at.is_none_or(|at| at > now) {
                return;
            }
            (self.rounds.is_under_way, self.rounds.next_at, self.rounds.began) = (true, None, Some(now));
            self.rounds.candidates = self.who_may_know(map);
        }
        while let Some(node) = self.rounds.candidates.pop_front() {
            let Some(link) = node.connect(now) else { continue };
            if let Some(handle) = self.requests.send(&link, CLUSTER_SLOTS, Name::of(&["CLUSTER", "SLOTS"])) {
                self.rounds.question = Some(Question { handle, asked: node, until: now + ANSWER_TIMEOUT });
                return;
            }
        }
        self.fail_round(now);
    }

    /// Returns the nodes to ask, in order: connected nodes first, then the others, then the configured addresses; silent
    /// nodes last.
    fn who_may_know(&mut self, map: &Map) -> VecDeque<Arc<Node>> {
        let mut known: Vec<Arc<Node>> = map.nodes().cloned().collect();
        for (host, port) in seeds(&self.cluster.config) {
            let address = Address { host: host.clone(), port: *port };
            known.extend(self.registry.at(&address, &self.cluster.config));
        }
        known.sort_by_key(|node| (node.health().is_silent(), !node.is_connected()));
        let mut candidates: VecDeque<Arc<Node>> = VecDeque::new();
        for node in known {
            if !candidates.iter().any(|candidate| candidate.number == node.number) {
                candidates.push_back(node);
            }
        }
        candidates
    }

    /// Ends a round without an answer.
    fn fail_round(&mut self, now: Instant) {
        let config = &self.cluster.config;
        let doublings = self.rounds.failed.min(20);
        self.rounds.failed += 1;
        self.rounds.is_under_way = false;
        let pause =
            config.retry.backoff_min.saturating_mul(1 << doublings).min(config.retry.backoff_max).max(REFRESH_PAUSE);
        self.rounds.next_at = Some(now + pause);
        let trouble = self.trouble.clone();
        self.cluster.begun(|| {
            let silent = || format!("{}: no node has answered", self.cluster.config.endpoint);
            Err(trouble.unwrap_or_else(|| Error::unsent(ErrorKind::Connect, silent())))
        });
    }

    /// Installs a new map.
    fn install(&mut self, map: &mut Map, ranges: &[Range], now: Instant) {
        let mut shards: Vec<(Shard, Vec<(u16, u16)>)> = Vec::new();
        for range in ranges {
            let Some((owner, copies)) = range.nodes.split_first() else { continue };
            let config = &self.cluster.config;
            let Some(primary) = self.registry.at(owner, config) else { continue };
            let slots = (range.first, range.last);
            match shards.iter_mut().find(|(shard, _)| shard.primary.number == primary.number) {
                Some((_, ranges)) => ranges.push(slots),
                None => {
                    let replicas = copies.iter().filter_map(|at| self.registry.replica_at(at, config)).collect();
                    let replicas = Replicas::new(replicas, self.rotation as usize);
                    shards.push((Shard { primary, replicas }, vec![slots]));
                }
            }
        }
        let rotation = usize::try_from(self.rotation % shards.len().max(1) as u64).unwrap_or(0);
        shards.rotate_left(rotation);
        let mut moved = map.replace(shards);
        let is_needed = |node: &Node| map.nodes().any(|known| known.number == node.number);
        // A silent node without slots counts as replaced. Its connections end, and their unanswered requests fail, before any
        // request is sent to the new owners.
        for node in self.registry.all().filter(|node| node.health().is_silent() && !is_needed(node)) {
            node.health().replace(now);
        }
        moved.sort_by_key(|&(_, before)| before);
        for group in moved.chunk_by(|one, other| one.1 == other.1) {
            if let Some((_, before)) = group.first() {
                self.fence(map, *before, group.iter().map(|&(slot, _)| slot).collect());
            }
        }
        self.rounds.candidates.clear();
        (self.rounds.is_under_way, self.rounds.failed, self.is_changed) = (false, 0, true);
        // A node that owns no slots yet may be asked for a slot that is being moved to it.
        let is_asked = |node: &Node| {
            node.was_named_within(NAMED_KEPT, now) || node.link().is_some_and(|link| link.is_open() && !link.is_idle())
        };
        self.registry.retain(|node| map.nodes().any(|known| known.number == node.number) || is_asked(node));
        // The client connects to all owners before a request needs them.
        map.shards.iter().for_each(|shard| _ = shard.primary.connect(now));
        self.checks.hurry(now);
        if map.is_whole() {
            self.trouble = None;
        }
        let next = now + if map.is_whole() { REFRESH_PERIOD } else { self.cluster.config.retry.backoff_max };
        self.rounds.plan(next);
        self.cluster.begun(|| Ok(()));
    }
}

fn no_slots(address: &Address) -> Error {
    Error::unsent(ErrorKind::Connect, format!("{address} is in no cluster that has given it slots"))
}

fn no_answer(address: &Address, error: &Error) -> Error {
    let said = error.message();
    if said.contains("cluster support disabled") {
        let message =
            format!("{address} is no node of a cluster ({said}): the URL of a single server begins with redis://");
        return Error::unsent(ErrorKind::Connect, message);
    }
    match error.kind() {
        ErrorKind::Connect => error.clone(),
        _ => Error::unsent(ErrorKind::Connect, format!("{address} does not say who owns which slot: {said}")),
    }
}

fn silent(address: &Address) -> Error {
    Error::unsent(ErrorKind::Connect, format!("{address} has not said in {ANSWER_TIMEOUT:?} who owns which slot"))
}
