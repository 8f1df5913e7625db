//! The map of a cluster: the owners of slots, as far as the nodes have told.
//!
//! The map is learned from CLUSTER SLOTS, and corrected slot by slot from redirects. If a slot gets a new owner while
//! requests for it are still in flight to the old one, the slot is held: no request is sent for it until those are back, so
//! that no request overtakes another of the same slot. Pure data; the holder of the map's lock has all of it. Foreign bytes.

use std::collections::HashMap;
use std::sync::Arc;

use sleeve_wire::frame::{Frame, Items};
use sleeve_wire::slot::SLOTS;

use crate::error::Error;
use crate::transport::node::{Address, Node};
use crate::transport::replicas::Replicas;

/// An index in place of a shard's: the slot has no known owner.
const UNSERVED: u16 = u16::MAX;

/// An index in place of a shard's: requests for the slot are in flight to an owner that does not own it any more.
const HELD: u16 = u16::MAX - 1;

/// A node that owns slots, and the replicas that have copies of them.
pub(super) struct Shard {
    pub(super) primary: Arc<Node>,
    pub(super) replicas: Replicas,
}

/// The owner of each slot.
pub(super) struct Map {
    pub(super) shards: Vec<Shard>,
    /// For each slot the index in `shards` of the destination of its requests, or the reason why there is none.
    routes: Vec<u16>,
    /// For each slot the index in `shards` of its last known owner.
    owners: Vec<u16>,
    /// The number of holds on each slot that is held.
    holds: HashMap<u16, u32>,
    /// A number that each change of the map increments.
    version: u64,
}

impl Default for Map {
    fn default() -> Self {
        let nobody = vec![UNSERVED; usize::from(SLOTS)];
        Self { shards: Vec::new(), routes: nobody.clone(), owners: nobody, holds: HashMap::new(), version: 0 }
    }
}

impl Map {
    /// Returns the destination of requests for a slot; none while it is not known, or the slot is held.
    #[inline]
    pub(super) fn route(&self, slot: u16) -> Option<&Shard> {
        self.shards.get(self.place(slot)?)
    }

    /// Returns the destination as `route` does, as an index in `shards`; an index beyond all of them stands for none.
    #[inline]
    pub(super) fn place(&self, slot: u16) -> Option<usize> {
        self.routes.get(usize::from(slot)).map(|&place| usize::from(place))
    }

    /// Returns the version of the map, which differs after each change.
    pub(super) fn version(&self) -> u64 {
        self.version
    }

    /// Returns whether the owner of each slot is known.
    pub(super) fn is_whole(&self) -> bool {
        self.owners.iter().all(|&place| place != UNSERVED)
    }

    /// Returns all nodes, each once.
    pub(super) fn nodes(&self) -> impl Iterator<Item = &Arc<Node>> {
        self.shards.iter().flat_map(|shard| std::iter::once(&shard.primary).chain(&shard.replicas.all))
    }

    fn place_of(&mut self, node: &Arc<Node>) -> u16 {
        let known = self.shards.iter().position(|shard| shard.primary.number == node.number);
        let place = known.unwrap_or_else(|| {
            self.shards.push(Shard { primary: Arc::clone(node), replicas: Replicas::new(Vec::new(), 0) });
            self.shards.len() - 1
        });
        u16::try_from(place).unwrap_or(UNSERVED)
    }

    /// Returns the number of the node to which requests for a slot are in flight. For a held slot this is the owner to which
    /// returned requests were sent again.
    fn bound_for(&self, slot: u16) -> Option<u32> {
        let of = |places: &[u16]| places.get(usize::from(slot)).copied();
        let place = of(&self.routes).filter(|&place| place != HELD).or_else(|| of(&self.owners))?;
        self.shards.get(usize::from(place)).map(|shard| shard.primary.number)
    }

    /// Notes that a node owns a slot. Returns the number of the former destination, if it is another.
    pub(super) fn assign(&mut self, slot: u16, node: &Arc<Node>) -> Option<u32> {
        self.version += 1;
        let before = self.bound_for(slot);
        let place = self.place_of(node);
        if let Some(owner) = self.owners.get_mut(usize::from(slot)) {
            *owner = place;
        }
        match self.routes.get_mut(usize::from(slot)) {
            Some(route) if *route != HELD => *route = place,
            _ => {}
        }
        before.filter(|&before| before != node.number)
    }

    /// Holds this slot: no request is sent for it until each hold is released.
    pub(super) fn hold(&mut self, slot: u16) {
        self.version += 1;
        if let Some(route) = self.routes.get_mut(usize::from(slot)) {
            *route = HELD;
            *self.holds.entry(slot).or_default() += 1;
        }
    }

    /// Releases one hold on this slot. After the last release, requests for it go to its owner again.
    pub(super) fn release(&mut self, slot: u16) {
        self.version += 1;
        match self.holds.get_mut(&slot) {
            Some(holds) if *holds > 1 => *holds -= 1,
            _ => {
                self.holds.remove(&slot);
                self.open(slot);
            }
        }
    }

    fn open(&mut self, slot: u16) {
        let owner = self.owners.get(usize::from(slot)).copied().unwrap_or(UNSERVED);
        if let Some(route) = self.routes.get_mut(usize::from(slot)) {
            *route = owner;
        }
    }

    /// Takes over a node's map. Returns the slots that had another destination before, with the number of that node.
    pub(super) fn replace(&mut self, shards: Vec<(Shard, Vec<(u16, u16)>)>) -> Vec<(u16, u32)> {
        self.version += 1;
        let before: Vec<Option<u32>> = (0..SLOTS).map(|slot| self.bound_for(slot)).collect();
        self.owners.fill(UNSERVED);
        self.shards.clear();
        for (place, (shard, ranges)) in (0..HELD).zip(shards) {
            self.shards.push(shard);
            for (first, last) in ranges {
                if let Some(owners) = self.owners.get_mut(usize::from(first)..=usize::from(last)) {
                    owners.fill(place);
                }
            }
        }
        let mut moved = Vec::new();
        for (slot, before) in (0..SLOTS).zip(before) {
            if self.routes.get(usize::from(slot)) != Some(&HELD) {
                self.open(slot);
            }
            let after = self.bound_for(slot);
            moved.extend(before.filter(|_| after.is_some() && after != before).map(|before| (slot, before)));
        }
        moved
    }
}

/// A range of slots and the nodes that serve them, the owner first, as CLUSTER SLOTS reports them.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Range {
    pub(super) first: u16,
    pub(super) last: u16,
    pub(super) nodes: Vec<Address>,
}

/// The largest number of nodes that one range may name: its owner and the replicas.
const RANGE_NODES_MAX: usize = 256;

/// Reads the answer to CLUSTER SLOTS of a node that was asked under this host name.
pub(super) fn ranges(answer: Frame<'_>, asked: &str) -> Result<Vec<Range>, Error> {
    let odd = || Error::protocol("CLUSTER SLOTS was answered with something else than slots and nodes");
    let Frame::Array(items) = answer else { return Err(odd()) };
    let read = |item| match item {
        Ok(Frame::Array(range)) => read_range(range, asked).ok_or_else(odd),
        _ => Err(odd()),
    };
    // An answer with more ranges than there are slots, or more nodes than any cluster has, is refused, because it is read
    // with the map's lock held.
    if items.len() > usize::from(SLOTS) {
        return Err(odd());
    }
    items.map(read).collect()
}

fn read_range(mut items: Items<'_>, asked: &str) -> Option<Range> {
    let mut slot = || match items.next() {
        Some(Ok(Frame::Integer(slot))) => u16::try_from(slot).ok().filter(|&slot| slot < SLOTS),
        _ => None,
    };
    let (first, last) = (slot()?, slot()?);
    if items.len() > RANGE_NODES_MAX {
        return None;
    }
    let nodes: Option<Vec<Address>> = items.map(|node| read_node(node.ok()?, asked)).collect();
    Some(Range { first, last, nodes: nodes.filter(|nodes| !nodes.is_empty())? })
        .filter(|range| range.first <= range.last)
}

fn read_node(node: Frame<'_>, asked: &str) -> Option<Address> {
    let Frame::Array(mut items) = node else { return None };
    let host = match items.next()?.ok()? {
        Frame::Bulk(host) | Frame::Simple(host) => std::str::from_utf8(host).ok()?,
        Frame::Null => "",
        _ => return None,
    };
    match items.next()?.ok()? {
        Frame::Integer(port) => Some(Address::of(host, u16::try_from(port).ok()?, asked)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use sleeve_wire::frame::decode;

    use super::*;
    use crate::config::Config;

    fn node(number: u32) -> Arc<Node> {
        let address = Address { host: "h".to_owned(), port: number as u16 };
        Arc::new(Node::new(number, address, &Config::default()))
    }

    fn shard(number: u32) -> Shard {
        Shard { primary: node(number), replicas: Replicas::new(Vec::new(), 0) }
    }

    fn owner(map: &Map, slot: u16) -> Option<u32> {
        map.route(slot).map(|shard| shard.primary.number)
    }

    #[test]
    fn a_slot_that_moves_is_held_until_it_is_released() {
        let mut map = Map::default();
        assert_eq!(owner(&map, 0), None);
        assert_eq!(map.replace(vec![(shard(1), vec![(0, 8191)]), (shard(2), vec![(8192, 16383)])]), []);
        assert!(map.is_whole());
        assert_eq!((owner(&map, 8191), owner(&map, 8192)), (Some(1), Some(2)));
        assert_eq!(map.assign(5, &node(2)), Some(1));
        assert_eq!(map.assign(5, &node(2)), None);
        map.hold(5);
        assert_eq!((owner(&map, 5), owner(&map, 6)), (None, Some(1)));
        // An owner that is learned during the hold counts when it is released.
        let moved = map.replace(vec![(shard(3), vec![(0, 6)]), (shard(2), vec![(7, 16383)])]);
        assert_eq!(moved.len(), 8192);
        assert!(moved.contains(&(0, 1)) && moved.contains(&(5, 2)));
        assert_eq!(owner(&map, 5), None);
        map.release(5);
        assert_eq!((owner(&map, 5), owner(&map, 7)), (Some(3), Some(2)));
        map.assign(7, &node(9));
        assert_eq!(owner(&map, 7), Some(9));
    }

    #[test]
    fn a_slot_that_moves_twice_is_held_until_both_owners_have_answered() {
        let mut map = Map::default();
        map.replace(vec![(shard(1), vec![(0, 16383)])]);
        assert_eq!(map.assign(5, &node(2)), Some(1));
        map.hold(5);
        // Requests that the first node has returned are in flight to the second.
        assert_eq!(map.assign(5, &node(3)), Some(2));
        map.hold(5);
        map.release(5);
        assert_eq!(owner(&map, 5), None);
        map.release(5);
        assert_eq!(owner(&map, 5), Some(3));
    }

    #[test]
    fn what_nobody_serves_is_not_routed() {
        let mut map = Map::default();
        map.replace(vec![(shard(1), vec![(0, 5), (7, 16383)])]);
        assert!(!map.is_whole());
        assert_eq!((owner(&map, 6), owner(&map, u16::MAX)), (None, None));
    }

    #[test]
    fn slots_and_nodes_are_read_from_foreign_bytes() {
        let read = |bytes: &str| decode(bytes.as_bytes()).map(|(frame, _)| ranges(frame, "asked")).unwrap();
        let answer = "*2\r\n*4\r\n:0\r\n:5460\r\n*4\r\n$9\r\n127.0.0.1\r\n:7000\r\n$2\r\nid\r\n*0\r\n*3\r\n$0\r\n\r\n:7001\r\n$1\r\nx\r\n\
                      *3\r\n:5461\r\n:5461\r\n*2\r\n_\r\n:7002\r\n";
        let address = |host: &str, port| Address { host: host.to_owned(), port };
        let nodes = vec![address("127.0.0.1", 7000), address("asked", 7001)];
        let second = Range { first: 5461, last: 5461, nodes: vec![address("asked", 7002)] };
        assert_eq!(read(answer).unwrap(), [Range { first: 0, last: 5460, nodes }, second]);
        assert_eq!(read("*0\r\n").unwrap(), []);
        for odd in [
            "+OK\r\n",
            "*1\r\n:1\r\n",
            "*1\r\n*2\r\n:0\r\n:1\r\n",
            "*1\r\n*3\r\n:5\r\n:1\r\n*2\r\n$1\r\nh\r\n:1\r\n",
            "*1\r\n*3\r\n:0\r\n:16384\r\n*2\r\n$1\r\nh\r\n:1\r\n",
            "*1\r\n*3\r\n:-1\r\n:1\r\n*2\r\n$1\r\nh\r\n:1\r\n",
            "*1\r\n*3\r\n:0\r\n:1\r\n*2\r\n$1\r\nh\r\n:70000\r\n",
            "*1\r\n*3\r\n:0\r\n:1\r\n*1\r\n$1\r\nh\r\n",
        ] {
            assert!(read(odd).is_err(), "{odd}");
        }
    }
}
