//! The cache over a cluster: nodes with a connection each, and slots that move between them, with a report or without one.
//!
//! The work of the cluster's task (`transport/cluster`) is done here in its plainest form: it follows redirects, holds a slot
//! until its last owner has answered all calls, and tells the cache the owners. The cache, its connections, the pipes, the
//! reply readers and the requests that come back are the real ones. If the client learns of the move of a slot, that counts
//! as an invalidation of all of its keys. So does a lost connection, for the keys that its node owned and no others.

mod nodes;

use std::collections::VecDeque;
use std::sync::{Arc, Weak};

use super::super::owners::{Owners, Tenure};
use super::super::requests::deciding_key;
use super::super::requests_of;
use super::super::shards::{CacheRead, Look, Shards};
use super::super::stats::CacheStats;
use super::super::tracking::{Connection, Tracking};
use super::history::{History, Key};
use super::planted::{Fault, Planted};
use super::{Asked, find_all, options, read_of, run_all, words_of, write_of};
use crate::error::{Error, ErrorKind};
use crate::pipe::Pipe;
use crate::pipe::cached_read::{Cache, Read};
use crate::pipe::reply_reader::ReplyReader;
use crate::pipe::routed::{Destination, Redirector, Routed};
use crate::pipe::slot::{Completions, Handle, Source};
use crate::pipe::testing::{Dice, nobody, source};
use crate::request::EncodedRequest;
use crate::request::name::Name;
use crate::sys::lock::Mutex;
use crate::transport::cluster::slots::slot_of;
use crate::transport::slot_cache::SlotCache;
use nodes::{Node, SlotState};

const NODES: usize = 3;

/// The number of slots that have keys.
const GROUPS: usize = 3;

/// The number of keys in each slot.
const KEYS: usize = 2;

/// The timeout of a request, in milliseconds.
const LIMIT_MS: u32 = 200;

const PING: &[u8] = b"*1\r\n$4\r\nPING\r\n";

fn name_of(group: usize, number: usize) -> String {
    format!("k{{{group}}}{number}")
}

fn group_of(name: &str) -> usize {
    usize::from(name.as_bytes()[2] - b'0')
}

/// A collector of the requests that have come back from a connection.
#[derive(Default)]
struct Returned(Mutex<Vec<(Routed, Error)>>);

impl Redirector for Returned {
    fn came_back(&self, request: Routed, why: Error, _done: &mut Completions) {
        self.0.lock().push((request, why));
    }
}

/// The client's view of a slot.
#[derive(Clone, Default)]
struct View {
    owner: usize,
    holds: usize,
}

struct World {
    dice: Dice,
    fault: Fault,
    tracking: Arc<Tracking>,
    history: History,
    nodes: Vec<Node>,
    slots: Vec<SlotState>,
    views: Vec<View>,
    returned: Arc<Returned>,
    source: Source,
    /// The requests that could not be sent, and below them those that came back, each with the information whether it has to
    /// wait.
    waiting: VecDeque<Routed>,
    retries: Vec<(Routed, bool)>,
    fences: Vec<(Handle, usize, bool)>,
    /// The connections that invalidate the slots, as the cache was told last.
    told: Vec<(u16, u32)>,
    now_ms: u64,
    asked: Vec<Asked>,
    /// The client's own writes that are not answered.
    writes: Vec<(Key, usize, Handle)>,
    written: usize,
    bytes_max: usize,
    /// The rarity of writes, and below it that of moving slots.
    calm: usize,
    rest: usize,
}

impl World {
    fn new(seed: u64, fault: Fault) -> Self {
        let mut dice = Dice::new(seed);
        let (options, bytes_max) = options(&mut dice);
        let (calm, rest) = ([2, 25, 100][dice.roll(3)], [2, 20, 100][dice.roll(3)]);
        let owners = (fault != Fault::IgnoresOwners).then(Owners::default);
        let shards = Shards::new(&options, &nobody(), (seed, 60), owners);
        let tracking = Tracking::new(shards, options).expect("a request");
        let node = |number| Self::node(&tracking, number, fault);
        let mut world = Self {
            nodes: (0..NODES).map(node).collect(),
            slots: (0..GROUPS).map(|owner| SlotState { owner, ..SlotState::default() }).collect(),
            views: vec![View::default(); GROUPS],
            dice,
            fault,
            tracking,
            history: History::default(),
            returned: Arc::default(),
            source: source(),
            waiting: VecDeque::new(),
            retries: Vec::new(),
            fences: Vec::new(),
            told: Vec::new(),
            now_ms: 1_000,
            asked: Vec::new(),
            writes: Vec::new(),
            written: 0,
            bytes_max,
            calm,
            rest,
        };
        world.turn();
        world
    }

    /// Creates a node, without an open connection.
    fn node(tracking: &Arc<Tracking>, node: usize, fault: Fault) -> Node {
        let connection = match fault {
            Fault::IgnoresOwners => Connection::new(Arc::clone(tracking), 1),
            Fault::StaysAcrossConnections => Connection::new(Arc::clone(tracking), node as u32 + 1),
            _ => tracking.connect(),
        };
        let number = connection.number();
        let cache = Arc::new(Planted::new(connection, fault));
        let mut reply_reader = ReplyReader::default();
        reply_reader.cache = Some(Arc::clone(&cache) as Arc<dyn Cache>);
        let (server, is_asking, up, taken) = Default::default();
        let pipe = Pipe::new(0, source());
        Node { pipe, reply_reader, cache, number, is_open: true, server, is_asking, up, taken }
    }

    fn key(&mut self) -> Key {
        (self.dice.roll(2) as u32 * 3, name_of(self.dice.roll(GROUPS), self.dice.roll(KEYS)))
    }

    fn routed(&self, database: u32, bytes: &[u8], name: Name) -> Routed {
        let redirector = Arc::downgrade(&self.returned) as Weak<dyn Redirector>;
        let key = words_of(bytes)[1];
        let destination = Destination::Slot(slot_of(key.as_bytes()));
        Routed::new(redirector, (bytes.into(), name), database, (self.now_ms as u32, false), destination)
    }

    fn read(&mut self) {
        let key = self.key();
        let (bytes, name) = read_of(&mut self.dice, &key.1);
        let request = EncodedRequest { bytes: &bytes, name };
        let place = deciding_key(request).expect("it may be kept");
        let wanted = CacheRead { database: key.0, request, key: place, now_ms: self.now_ms };
        let least = self.history.least(&key);
        let handle = match self.tracking.shards.look(wanted) {
            Look::Hit(payload) => return self.history.check(&key, least, &payload, true, self.now_ms),
            Look::Shared(handle) => handle,
            Look::Missing(place, target, handle) => {
                let opts_in = self.tracking.opts_in();
                let nobody = Arc::new(self.tracking.nobody()) as Arc<dyn Cache>;
                let mut routed = self.routed(key.0, &bytes, name);
                let read = Box::new(Read::new(nobody, place, target, opts_in));
                routed.attach_read(read, requests_of(wanted, opts_in).into());
                // The cluster's task may get a turn between the look-up and the sending.
                if self.dice.roll(4) == 0 {
                    self.turn();
                }
                self.send(routed);
                handle
            }
        };
        self.asked.push(Asked { key, least, handle });
    }

    fn write_own(&mut self) {
        let (key, number) = (self.key(), self.written);
        self.written += 1;
        let (bytes, name) = write_of(&key.1, number);
        let mut routed = self.routed(key.0, &bytes, name);
        let (target, handle) = self.source.pair(name);
        routed.attach(target);
        self.send(routed);
        self.tracking.wrote(&bytes);
        self.history.sent(key.clone(), number);
        self.writes.push((key, number, handle));
    }

    /// Sends a request to the owner of its slot, or leaves it to the cluster's task.
    fn send(&mut self, routed: Routed) {
        if let Some(routed) = self.send_to_owner(routed) {
            self.waiting.push_back(routed);
        }
    }

    fn send_to_owner(&mut self, routed: Routed) -> Option<Routed> {
        let view = self.views[group_of(words_of(&routed.bytes)[1])].clone();
        if view.holds > 0 { Some(routed) } else { self.send_there(view.owner, routed) }
    }

    fn send_there(&mut self, node: usize, routed: Routed) -> Option<Routed> {
        if !self.nodes[node].is_open {
            return Some(routed);
        }
        self.nodes[node].pipe.push_routed(routed);
        None
    }
}

/// The work of the cluster's task.
impl World {
    fn turn(&mut self) {
        self.fences.iter_mut().for_each(|(handle, _, is_over)| *is_over = handle.is_done());
        let returned = std::mem::take(&mut *self.returned.0.lock());
        for (routed, why) in returned {
            self.take_back(routed, &why);
        }
        for (_, group, _) in self.fences.extract_if(.., |(_, _, is_over)| *is_over) {
            self.views[group].holds -= 1;
        }
        if self.dice.roll(8) == 0 {
            let group = self.dice.roll(GROUPS);
            self.moved(group, self.slots[group].owner);
        }
        for node in 0..NODES {
            if !self.nodes[node].is_open {
                self.nodes[node] = Self::node(&self.tracking, node, self.fault);
            }
        }
        for (routed, is_later) in std::mem::take(&mut self.retries) {
            let left = if is_later && self.dice.roll(3) > 0 { Some(routed) } else { self.send_again(routed) };
            self.retries.extend(left.map(|routed| (routed, is_later)));
        }
        for routed in std::mem::take(&mut self.waiting) {
            let left = self.send_again(routed);
            self.waiting.extend(left);
        }
        self.tell();
    }

    fn take_back(&mut self, mut routed: Routed, why: &Error) {
        routed.ask(false);
        // The task keeps the order of requests that are sent again. Once they are answered, no caller may read the old value.
        if let ["SET", _, note] = words_of(&routed.bytes)[..] {
            self.history.put_off(note.trim_start_matches('w').parse().expect("a number"));
        }
        // From now on the request has its own timeout, as it has with the real task.
        if !routed.is_due {
            (routed.at_ms, routed.is_due) = (routed.at_ms.wrapping_add(LIMIT_MS), true);
        }
        let is_of_server = why.kind() == ErrorKind::Server;
        let words: Vec<&str> = why.message().split(' ').filter(|_| is_of_server).collect();
        let to = words.get(2).map(|to| usize::from(to.as_bytes()[1] - b'0'));
        match (words.first(), to) {
            (Some(&"MOVED"), Some(to)) => {
                self.moved(group_of(words_of(&routed.bytes)[1]), to);
                let left = if self.retries.is_empty() { self.send_there(to, routed) } else { Some(routed) };
                self.retries.extend(left.map(|routed| (routed, false)));
            }
            (Some(&"ASK"), Some(to)) => {
                routed.ask(true);
                if let Some(mut routed) = self.send_there(to, routed) {
                    routed.ask(false);
                    self.retries.push((routed, false));
                }
            }
            (code, _) => {
                self.retries.push((routed, code.is_some()));
            }
        }
    }

    /// Sends a request again as `send_to_owner` does, and tells the cache of its writes after the sending.
    fn send_again(&mut self, routed: Routed) -> Option<Routed> {
        let bytes = Arc::clone(&routed.bytes);
        let left = self.send_to_owner(routed);
        if left.is_none() {
            self.tracking.wrote(&bytes);
        }
        left
    }

    /// Notes that a slot belongs to this node, as far as the client knows, and holds the slot until its last owner has
    /// answered all calls.
    fn moved(&mut self, group: usize, to: usize) {
        let before = std::mem::replace(&mut self.views[group].owner, to);
        if before != to && self.nodes[before].is_open {
            let ping = EncodedRequest { bytes: PING, name: Name::of(&["PING"]) };
            let handle = self.nodes[before].pipe.push_here(ping, self.now_ms as u32);
            self.views[group].holds += 1;
            self.fences.push((handle, group, false));
        }
    }

    /// Tells the cache the owners, and notes the slots with a new one.
    fn tell(&mut self) {
        let Some(owners) = &self.tracking.shards.owners else { return self.tell_without_owners() };
        let number_of = |view: &View| if view.holds > 0 { 0 } else { self.nodes[view.owner].number };
        let numbers: Vec<(u16, u32)> =
            (0..GROUPS).map(|group| (slot_of(name_of(group, 0).as_bytes()), number_of(&self.views[group]))).collect();
        if numbers == self.told {
            return;
        }
        let tenures =
            || -> Vec<Tenure> { (0..GROUPS).map(|group| owners.tenure(name_of(group, 0).as_bytes())).collect() };
        let before = tenures();
        self.tracking.follow(&mut |slot| numbers.iter().find(|(own, _)| *own == slot).map_or(0, |(_, number)| *number));
        let after = tenures();
        for group in (0..GROUPS).filter(|&group| before[group] != after[group]) {
            let versions = self.history.versions(|(_, name)| group_of(name) == group);
            self.history.raise_floors(versions);
        }
        self.told = numbers;
    }

    /// Raises the floors of held slots as if the cache knew of their moves, for the fault that ignores owners.
    fn tell_without_owners(&mut self) {
        for group in (0..GROUPS).filter(|&group| self.views[group].holds > 0) {
            let versions = self.history.versions(|(_, name)| group_of(name) == group);
            self.history.raise_floors(versions);
        }
    }
}

impl World {
    fn step(&mut self) {
        let node = self.dice.roll(NODES);
        match self.dice.roll(60) {
            0..12 => self.read(),
            12..15 if self.dice.roll(self.calm) == 0 => self.write_own(),
            15..18 if self.dice.roll(self.calm) == 0 => self.others(),
            18..28 => (0..NODES).for_each(|node| self.write_out(node)),
            28..37 => (0..NODES).for_each(|node| self.serve(node)),
            37..46 => (0..NODES).for_each(|node| self.take_in(node)),
            46 | 47 => {
                self.now_ms += self.dice.roll(20) as u64;
                self.expire(node);
            }
            48 if self.nodes[node].pipe.is_connected() && self.dice.roll(2 * self.rest) == 0 => self.cut(node),
            49..52 => (0..NODES).for_each(|node| self.connect(node)),
            52..59 => self.turn(),
            59 if self.dice.roll(self.rest) == 0 => self.migrate(),
            _ => {}
        }
        let stats = self.tracking.shards.stats();
        assert!(stats.bytes <= self.bytes_max as u64, "{stats:?}");
        self.hear();
    }

    fn hear(&mut self) {
        for asked in self.asked.extract_if(.., |asked| asked.handle.is_done()) {
            let Ok(payload) = asked.handle.take() else { panic!("it was done") };
            self.history.check(&asked.key, asked.least, &payload, false, self.now_ms);
        }
        for (key, number, handle) in self.writes.extract_if(.., |(_, _, handle)| handle.is_done()) {
            let Ok(payload) = handle.take() else { panic!("it was done") };
            // A caller with the answer to its write must then read its own write, however often it was sent.
            if payload.frame().is_ok() {
                self.history.answered(&key, number);
            }
        }
    }

    /// Delivers all bytes, and checks that every caller is answered.
    fn finish(mut self) -> CacheStats {
        let is_idle = |node: &Node| node.pipe.is_idle() && node.reply_reader.pending.is_empty() && node.is_open;
        let is_over = |world: &Self| {
            let waits_for_nothing = world.waiting.is_empty() && world.retries.is_empty() && world.fences.is_empty();
            waits_for_nothing && world.returned.0.lock().is_empty() && world.nodes.iter().all(is_idle)
        };
        while !is_over(&self) {
            self.turn();
            for node in 0..NODES {
                self.connect(node);
                self.write_out(node);
                self.serve(node);
                self.take_in(node);
            }
        }
        self.hear();
        assert!(self.asked.is_empty() && self.writes.is_empty(), "nobody has answered {} reads", self.asked.len());
        self.tracking.shards.stats()
    }
}

/// Runs a seed, and returns the counts of the cache.
fn run(seed: u64, fault: Fault) -> CacheStats {
    let mut world = World::new(seed, fault);
    for _ in 0..if cfg!(miri) { 150 } else { 2_000 } {
        world.step();
    }
    world.finish()
}

#[test]
fn no_read_is_older_than_what_had_been_heard() {
    run_all("cluster::no_read", |seed| run(seed, Fault::None));
}

#[test]
#[cfg_attr(miri, ignore = "takes hours there")]
fn what_is_planted_is_found() {
    let faults = [
        Fault::IgnoresOwners,
        Fault::KeepsRedirected,
        Fault::StaysAcrossConnections,
        Fault::KeepsOvertaken,
        Fault::MissesFlushes,
    ];
    find_all(&faults, run);
}
