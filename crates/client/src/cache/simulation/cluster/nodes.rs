//! The nodes of a simulated cluster, the slots that each of them has, and the network between the client and the nodes.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use sleeve_wire::frame::Scanner;

use super::super::history::{Key, State};
use super::super::planted::Planted;
use super::super::server::Server;
use super::super::{note_of, some_of, words_of};
use super::{GROUPS, KEYS, LIMIT_MS, NODES, World, group_of, name_of};
use crate::config::{Endpoint, Resend};
use crate::error::Error;
use crate::pipe::Pipe;
use crate::pipe::cached_read::Cache;
use crate::pipe::in_flight::Asker;
use crate::pipe::reply_reader::ReplyReader;
use crate::pipe::slot::Completions;
use crate::pipe::timeout::Situation;
use crate::transport::cluster::slots::slot_of;

/// A node, and the client's connection to it.
pub(super) struct Node {
    pub(super) pipe: Pipe,
    pub(super) reply_reader: ReplyReader,
    pub(super) cache: Arc<Planted>,
    pub(super) number: u32,
    /// True if the connection is open; false if it is yet to be made.
    pub(super) is_open: bool,
    pub(super) server: Server,
    pub(super) is_asking: bool,
    pub(super) up: VecDeque<u8>,
    pub(super) taken: u64,
}

/// The ownership of a slot.
#[derive(Default)]
pub(super) struct SlotState {
    pub(super) owner: usize,
    /// Its last owner.
    pub(super) before: usize,
    /// The node to which the slot is being moved.
    pub(super) to: Option<usize>,
    /// The keys that have moved already.
    pub(super) moved: HashSet<String>,
}

impl SlotState {
    fn has(&self, name: &str) -> usize {
        self.to.filter(|_| self.moved.contains(name)).unwrap_or(self.owner)
    }
}

/// The work of the nodes, and the network.
impl World {
    /// Lets other clients write, keys expire, and slots move.
    pub(super) fn others(&mut self) {
        let key = self.key();
        let has = self.slots[group_of(&key.1)].has(&key.1);
        match self.dice.roll(14) {
            0 if self.dice.roll(4) == 0 => {
                let (node, slots) = (self.dice.roll(NODES), &self.slots);
                let is_meant = |(_, name): &Key| slots[group_of(name)].has(name) == node;
                self.nodes[node].server.flush(&mut self.history, is_meant);
            }
            0 | 1 => {
                if self.history.last(&key).is_over(self.now_ms) {
                    self.nodes[has].server.change(&mut self.history, key, State::GONE, false);
                }
            }
            2 | 3 if self.dice.roll(self.rest) == 0 => self.migrate(),
            _ => {
                let (note, until_ms) = note_of(&mut self.dice, self.now_ms);
                self.nodes[has].server.write(&mut self.history, key, (&note, until_ms), false);
            }
        }
    }

    /// Takes a step in the move of a slot: begins a move, moves a key, or ends the move. Or it moves the slot at once, as a
    /// failover does.
    pub(super) fn migrate(&mut self) {
        let (group, is_told) = (self.dice.roll(GROUPS), self.dice.roll(2) == 0);
        // Half of the moves lead back to the slot's last owner.
        let node = if self.dice.roll(2) == 0 { self.slots[group].before } else { self.dice.roll(NODES) };
        let keys: Vec<String> = (0..KEYS).map(|number| name_of(group, number)).collect();
        let (owner, to) = (self.slots[group].owner, self.slots[group].to);
        let given = match (to, self.dice.roll(3)) {
            (None, 0) => keys,
            (None, _) => {
                self.slots[group].to = Some(node).filter(|&to| to != owner);
                return;
            }
            (Some(_), 0) => keys,
            (Some(_), _) => vec![keys[self.dice.roll(KEYS)].clone()],
        };
        let is_whole = given.len() == KEYS;
        for name in given {
            if self.slots[group].has(&name) == owner {
                self.nodes[owner].server.gave_away(&self.history, &name, is_told);
                self.slots[group].moved.insert(name);
            }
        }
        if is_whole {
            self.slots[group] = SlotState { owner: to.unwrap_or(node), before: owner, ..SlotState::default() };
        }
    }

    pub(super) fn write_out(&mut self, node: usize) {
        let node = &mut self.nodes[node];
        let Some((bytes, written)) = node.pipe.lend() else { return };
        let rest = &bytes[written..];
        let count = some_of(&mut self.dice, rest.len());
        node.up.extend(&rest[..count]);
        node.pipe.wrote(bytes, count);
    }

    /// Lets a node execute the whole requests among the next bytes, and commands of other clients between them.
    pub(super) fn serve(&mut self, number: usize) {
        for _ in 0..self.dice.roll(8) {
            if self.dice.roll(4 * self.calm) == 0 {
                self.others();
            }
            let bytes = self.nodes[number].up.make_contiguous();
            let Ok(Some(length)) = Scanner::new().scan(bytes) else { break };
            let request: Vec<u8> = self.nodes[number].up.drain(..length).collect();
            self.execute(number, &words_of(&request));
        }
        self.nodes[number].server.say_changed(&self.history);
    }

    fn execute(&mut self, number: usize, words: &[&str]) {
        let is_asking = std::mem::replace(&mut self.nodes[number].is_asking, words == ["ASKING"]);
        let refusal = match words {
            ["GET" | "SUBSTR" | "PTTL", name, ..] => self.refusal(number, name, is_asking, 10 * self.rest),
            // Writes get TRYAGAIN more often than reads, because few writes arrive in the time in which it matters.
            ["SET", name, ..] => self.refusal(number, name, is_asking, 3),
            _ => None,
        };
        let server = &mut self.nodes[number].server;
        match refusal {
            _ if words == ["ASKING"] => server.send(b"+OK\r\n"),
            Some(refusal) => server.turn_away(&refusal),
            None => server.execute(&mut self.history, words, self.now_ms),
        }
    }

    /// Returns the error with which a node refuses a request about this key, if it does; with the rarity `seldom` it replies
    /// that the client is to try again later.
    fn refusal(&mut self, node: usize, name: &str, is_asking: bool, seldom: usize) -> Option<String> {
        let (state, slot) = (&self.slots[group_of(name)], slot_of(name.as_bytes()));
        let has = state.has(name);
        match () {
            () if state.owner == node && has != node => Some(format!("ASK {slot} h{has}:1")),
            () if state.owner != node && (has != node || !is_asking) => {
                Some(format!("MOVED {slot} h{}:1", state.owner))
            }
            () => (self.dice.roll(seldom) == 0).then(|| "TRYAGAIN in a moment".to_owned()),
        }
    }

    pub(super) fn take_in(&mut self, node: usize) {
        let node = &mut self.nodes[node];
        let count = some_of(&mut self.dice, node.server.down.len()).min(node.reply_reader.room().len());
        for (room, byte) in node.reply_reader.room().iter_mut().zip(node.server.down.drain(..count)) {
            *room = byte;
        }
        node.taken += count as u64;
        let replies = node.reply_reader.filled(count).expect("replies");
        self.history.raise_floors(node.server.said_until(node.taken));
        assert!(node.pipe.take(replies, &mut node.reply_reader.pending));
        let mut done = Completions::default();
        assert!(node.reply_reader.deliver(&mut done).expect("replies").is_none());
    }

    /// Cuts a connection: the keys that its node owned count as invalidated.
    pub(super) fn cut(&mut self, number: usize) {
        if self.dice.roll(2) == 0 {
            self.serve(number);
        }
        let node = &mut self.nodes[number];
        node.up.clear();
        node.server.hang_up();
        node.is_open = false;
        let lost = node.pipe.cut(node.reply_reader.cut(), Resend::Nothing);
        let never_sent = node.pipe.queue.clear();
        let mut done = Completions::default();
        lost.into_iter().for_each(|mut entry| entry.asker.fail(&Error::disconnected("it was cut"), &mut done));
        never_sent.into_iter().for_each(|mut entry| entry.asker.fail(&Error::closed("it was cut"), &mut done));
        let is_its = |(_, name): &Key| self.views[group_of(name)].owner == number;
        self.history.raise_floors(self.history.versions(is_its));
    }

    pub(super) fn connect(&mut self, node: usize) {
        let node = &mut self.nodes[node];
        if node.is_open && !node.pipe.is_connected() {
            node.pipe.connect();
            node.pipe.push_unasked(Asker::Tracking, node.cache.request(), self.now_ms as u32);
        }
    }

    pub(super) fn expire(&mut self, node: usize) {
        let endpoint = Endpoint::Embedded(None);
        let situation = Situation { endpoint: &endpoint, limit: None, trouble: None, ledger: None };
        let (pipe, now_ms, mut done) = (&mut self.nodes[node].pipe, self.now_ms as u32, Completions::default());
        pipe.expire(now_ms.wrapping_sub(LIMIT_MS), &situation, &mut done);
        pipe.expire_due(now_ms, &situation, &mut done);
    }
}
