//! The promises of a cluster, which the world checks while it lives.
//!
//! - A primary votes once in an epoch, and its vote is on its disk before it leaves.
//! - An elected node has the votes of a majority of all primaries, and no other node is elected in its epoch.
//! - An election takes back no slot of which a voter knew the newer owner.
//! - No primary is replaced that a majority has been in touch with, if that majority has been in touch with each node that
//!   declares the primary failed as well. A node that was cut off judges by the reports and the voters of its own side, and by
//!   packets that were on the way meanwhile. As in Redis the others believe it, and keep the mark for two node timeouts.
//! - No two nodes own a slot in one epoch. A slot that an operator moves is exempt: its target takes an epoch without a vote.
//! - A write that a replica has acknowledged survives each election in which that replica takes part.

use std::collections::{BTreeMap, BTreeSet};

use crate::action::LinkId;
use crate::id::NodeId;
use crate::node::Node;
use crate::packet::{self, Body, Header, Packet, PacketType};
use crate::simulation::World;
use crate::simulation::network::Place;
use crate::simulation::server::TIMEOUT_MS;
use crate::slots::{SLOTS, Slot};
use crate::state::ClusterState;

/// The distance of two slots of which the owners are compared.
pub(crate) const SLOT_STEP: usize = 300;

/// A primary that a majority has reached for so many milliseconds is not replaced: any earlier failure is forgiven by then.
const WORKS_MS: u64 = 8 * TIMEOUT_MS;

/// A node declares no failure of a node if it, and the node, have been in touch with one majority for so many milliseconds: no
/// report from before lives so long.
const DECLARES_MS: u64 = 4 * TIMEOUT_MS;

/// A failure is believed for so many milliseconds: the mark is kept for two node timeouts, and an election takes two.
const DOUBT_MS: u64 = 4 * TIMEOUT_MS;

/// A replica takes part in an election if it has been in touch with the candidate and a majority for so many milliseconds.
const TAKES_PART_MS: u64 = 4 * TIMEOUT_MS;

/// The facts that the world has seen.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    /// The vote of each primary in each epoch.
    ballots: BTreeMap<(NodeId, u64), Ballot>,
    /// The configuration epoch at which each candidate claims its slots, by the epoch of its election.
    claims: BTreeMap<(NodeId, u64), u64>,
    /// The node that was elected in each epoch.
    elected: BTreeMap<u64, NodeId>,
    /// The time since which each server has been up, and in touch with each other one by a link that is not slow.
    in_touch_since: Vec<u64>,
    /// The time since which each server has been a primary that votes.
    votes_since: Vec<u64>,
    /// When each node was last declared failed by a node that it had been cut off from, or that had been cut off.
    doubted_ms: BTreeMap<NodeId, u64>,
    /// The slots that an operator has moved.
    pub moved: BTreeSet<Slot>,
    /// The slots of which a source or a target was told the new owner.
    pub handed_over: BTreeSet<Slot>,
}

/// A vote.
#[derive(Debug)]
struct Ballot {
    candidate: NodeId,
    /// The owners that the voter knew: slot, shard and epoch.
    known: Vec<(Slot, Place, u64)>,
}

impl World {
    /// Returns the shard that a server was installed in, as the number of its first primary.
    pub fn shard(&self, place: Place) -> Place {
        if place < self.primaries { place } else { (place - self.primaries) % self.primaries.max(1) }
    }

    /// Notes a packet that leaves. Fails if it is a vote that breaks a promise.
    pub fn watch_packet(&mut self, place: Place, link: LinkId, bytes: &[u8]) {
        let code = bytes.get(12..14).map(|code| u16::from_be_bytes([code[0], code[1]]));
        let is_of = |kind: PacketType| code == Some(kind.code());
        if ![PacketType::Vote, PacketType::VoteRequest, PacketType::Fail].into_iter().any(is_of) {
            return;
        }
        let Ok(Packet::Full { header, body }) = packet::decode(bytes) else { return };
        match body {
            Body::VoteRequest => {
                self.watch.claims.insert((header.sender, header.current_epoch), header.config_epoch);
            }
            Body::Fail(node) => self.watch_failure(place, node),
            _ => self.watch_vote(place, link, &header),
        }
    }

    /// Notes that a server declares a node failed. Fails if it has no reason to.
    fn watch_failure(&mut self, place: Place, node: NodeId) {
        let Some(failed) = self.servers.iter().position(|server| server.last_id == node) else { return };
        if !self.have_majority(&[failed, place], DECLARES_MS) {
            self.watch.doubted_ms.insert(node, self.now);
        }
        assert!(self.is_doubted(node), "{place} declares {failed} failed, which works\n{}", self.picture());
    }

    /// Returns whether a failure of a node that may be none has been declared so recently that it may still be believed.
    fn is_doubted(&self, node: NodeId) -> bool {
        self.watch.doubted_ms.get(&node).is_some_and(|ms| self.now - ms <= DOUBT_MS)
    }

    /// Notes a vote that leaves. Fails if it breaks a promise.
    fn watch_vote(&mut self, place: Place, link: LinkId, header: &Header) {
        let state = self.state(place);
        let candidate = state.links.get(link).and_then(|link| link.node).expect("a vote goes to a node");
        let saved = state.epochs.last_vote;
        assert_eq!(saved, header.current_epoch, "the vote is the last one");
        let conf = &self.servers[place].synced;
        assert!(conf.contains(&format!("lastVoteEpoch {saved}")), "the vote leaves after it is on the disk");
        let ballot = Ballot { candidate, known: self.known_owners(state) };
        let first = self.watch.ballots.entry((header.sender, header.current_epoch)).or_insert(ballot);
        assert_eq!(first.candidate, candidate, "a primary voted twice in epoch {}", header.current_epoch);
    }

    /// Returns the owners that a server knows.
    fn known_owners(&self, state: &ClusterState) -> Vec<(Slot, Place, u64)> {
        let slots = (0..SLOTS).step_by(SLOT_STEP).filter(|slot| !state.slots.released.contains(*slot));
        let owner = |slot| {
            let owner = state.node(state.slots.owner(slot)?)?;
            let place = self.servers.iter().position(|server| server.last_id == owner.id)?;
            Some((slot, self.shard(place), owner.config_epoch))
        };
        slots.filter_map(owner).collect()
    }

    /// Fails if an election that this server has won breaks a promise.
    pub fn check_win(&mut self, winner: Place) {
        let state = self.state(winner);
        let (epoch, id) = (state.election.won_epoch, state.id());
        if epoch == 0 || self.watch.elected.get(&epoch) == Some(&id) {
            return;
        }
        let first = *self.watch.elected.entry(epoch).or_insert(id);
        assert_eq!(first, id, "two nodes were elected in epoch {epoch}\n{}", self.picture());
        let of_winner = |((_, voted), ballot): &(&(NodeId, u64), &Ballot)| *voted == epoch && ballot.candidate == id;
        let ballots: Vec<&Ballot> = self.watch.ballots.iter().filter(of_winner).map(|(_, ballot)| ballot).collect();
        let votes = ballots.len();
        assert!(votes * 2 > self.primaries, "{winner} won epoch {epoch} with {votes} votes\n{}", self.picture());
        let claim = self.watch.claims.get(&(id, epoch)).copied().unwrap_or_default();
        let slots = &self.state(winner).myself().slots;
        let is_undone = |(slot, shard, known): &&(Slot, Place, u64)| {
            slots.contains(*slot) && *shard != self.shard(winner) && *known > claim
        };
        let undone = ballots.iter().flat_map(|ballot| &ballot.known).find(is_undone);
        assert!(undone.is_none(), "{winner} takes back a slot that has moved: {undone:?}\n{}", self.picture());
    }

    /// Notes which servers are up, and in touch with each other.
    pub fn note_touch(&mut self) {
        let count = self.servers.len();
        self.watch.in_touch_since.resize_with(count * count, || self.now);
        self.watch.votes_since.resize_with(count, || self.now);
        for place in 0..count {
            if !self.servers[place].state.as_ref().is_some_and(|state| state.myself().is_voter()) {
                self.watch.votes_since[place] = self.now;
            }
            for other in 0..count {
                let is_linked = || {
                    let node = self.servers[other].state.as_ref()?.node(self.servers[place].last_id)?;
                    Some(other == place || node.links.is_connected)
                };
                let is_near = |from, to| self.network.reaches(from, to) && !self.network.lags.contains_key(&(from, to));
                let is_reached = is_near(place, other) && is_near(other, place);
                if self.servers[place].state.is_none() || !is_reached || is_linked() != Some(true) {
                    self.watch.in_touch_since[place * count + other] = self.now;
                }
            }
        }
    }

    /// Returns for how many milliseconds two servers have been up and in touch.
    fn touch_ms(&self, place: Place, other: Place) -> u64 {
        let since = |one, other| self.watch.in_touch_since.get(one * self.servers.len() + other).copied();
        self.now - since(place, other).max(since(other, place)).unwrap_or(self.now)
    }

    /// Returns whether the same majority of the primaries has been in touch with servers for so many milliseconds, each of
    /// them as a primary. A server that has just become one may know of a failure that others declared before.
    fn have_majority(&self, places: &[Place], ms: u64) -> bool {
        let votes = |other: &Place| self.watch.votes_since.get(*other).is_some_and(|since| self.now - since > ms);
        let is_near = |other: &Place| places.iter().all(|place| self.touch_ms(*place, *other) > ms);
        (0..self.servers.len()).filter(votes).filter(is_near).count() * 2 > self.primaries
    }

    /// Fails if a replica that leads without being told to breaks a promise: a primary that works is not replaced, and no write
    /// is lost that another server of the shard, which took part, has acknowledged as a replica.
    pub fn check_succession(&self, winner: Place) {
        let Some(clients) = self.clients.as_ref() else { return };
        let Some((old, _)) = self.servers[winner].follows else { return };
        let leads = |place: Place| self.servers[place].follows.is_none() && self.servers[place].state.is_some();
        let works = |place: &Place| !self.is_doubted(old) && leads(*place) && self.have_majority(&[*place], WORKS_MS);
        let replaced = self.place(old).filter(works);
        assert!(replaced.is_none(), "{winner} replaces {replaced:?}, which works\n{}", self.picture());
        let follows = |place: Place| self.servers[place].follows.as_ref().is_some_and(|(primary, _)| *primary == old);
        let is_fellow = |place: &Place| {
            let is_of_shard = self.shard(*place) == self.shard(winner) && (follows(*place) || leads(*place));
            let is_near = self.touch_ms(*place, winner) > TAKES_PART_MS;
            *place != winner && is_of_shard && is_near && self.have_majority(&[*place], TAKES_PART_MS)
        };
        let fellows: Vec<Place> = (0..self.servers.len()).filter(is_fellow).collect();
        let lost = clients.lost_by(winner, &fellows, &self.servers);
        assert!(lost.is_none(), "{winner} leads without the write and its holder {lost:?}\n{}", self.picture());
    }

    /// Fails if two servers own a slot at the same configuration epoch.
    pub fn check_owners(&self) {
        let primaries: Vec<&Node> = self.states().map(ClusterState::myself).filter(|node| node.is_voter()).collect();
        for (index, one) in primaries.iter().enumerate() {
            for other in primaries[..index].iter().filter(|other| other.config_epoch == one.config_epoch) {
                let mut shared = one.slots.iter().filter(|slot| other.slots.contains(*slot));
                let wrong = shared.find(|slot| !self.watch.moved.contains(slot));
                assert!(wrong.is_none(), "two owners of slot {wrong:?} in one epoch\n{}", self.picture());
            }
        }
    }
}
