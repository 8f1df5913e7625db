//! The simulated network: connections that deliver in order, after a delay, unless a direction is cut.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use crate::action::LinkId;
use crate::simulation::server::Chance;

/// A server by its place in the world.
pub(crate) type Place = usize;

/// One direction of a connection.
#[derive(Debug, Default)]
pub(crate) struct Direction {
    pub packets: VecDeque<(u64, Arc<[u8]>)>,
    /// When the receiver learns that the sender has closed.
    pub closed_ms: Option<u64>,
}

/// A connection.
#[derive(Debug)]
pub(crate) struct Connection {
    /// The end that connected and the end that accepted. None if that end has closed.
    pub ends: [(Place, Option<LinkId>); 2],
    pub directions: [Direction; 2],
}

/// The network.
#[derive(Debug, Default)]
pub(crate) struct Network {
    pub connections: Vec<Connection>,
    /// The pairs of servers from the first of which nothing arrives at the second.
    pub cuts: BTreeSet<(Place, Place)>,
    /// The connections that are being opened: when, from, link, to.
    pub opening: Vec<(u64, Place, LinkId, Option<Place>)>,
    pub delay_ms_max: u64,
    /// The longer delay of packets from one server to another.
    pub lags: BTreeMap<(Place, Place), u64>,
}

impl Network {
    /// Returns whether packets of one server arrive at another.
    pub fn reaches(&self, from: Place, to: Place) -> bool {
        !self.cuts.contains(&(from, to))
    }

    /// Cuts a server off from others, in both directions.
    pub fn isolate(&mut self, place: Place, from: impl IntoIterator<Item = Place>) {
        for other in from.into_iter().filter(|other| *other != place) {
            self.cuts.insert((place, other));
            self.cuts.insert((other, place));
        }
    }

    /// Cuts the servers into two groups.
    pub fn split(&mut self, servers: usize, is_first: impl Fn(Place) -> bool) {
        for place in (0..servers).filter(|place| is_first(*place)) {
            self.isolate(place, (0..servers).filter(|other| !is_first(*other)));
        }
    }

    /// Queues a packet.
    pub fn send(&mut self, from: Place, link: LinkId, bytes: Arc<[u8]>, now: u64, chance: &mut Chance) {
        let delay = 1 + chance.below(self.delay_ms_max);
        let lags = &self.lags;
        let find = |connection: &mut Connection| {
            let side = connection.ends.iter().position(|end| *end == (from, Some(link)))?;
            let delay = delay + lags.get(&(from, connection.ends[1 - side].0)).copied().unwrap_or_default();
            let packets = &mut connection.directions[side].packets;
            let ready = packets.back().map_or(0, |(ready, _)| *ready).max(now + delay);
            packets.push_back((ready, bytes.clone()));
            Some(())
        };
        self.connections.iter_mut().find_map(find);
    }

    /// Closes an end of a connection.
    pub fn close(&mut self, from: Place, link: LinkId, now: u64) {
        self.opening.retain(|(_, place, opening, _)| (*place, *opening) != (from, link));
        for connection in &mut self.connections {
            let Some(side) = connection.ends.iter().position(|end| *end == (from, Some(link))) else { continue };
            connection.ends[side].1 = None;
            connection.directions[side].closed_ms = Some(now + 1);
        }
    }

    /// Closes all connections of a server that goes down.
    pub fn close_all(&mut self, place: Place, now: u64) {
        let of_place = |connection: &Connection| {
            let ends = connection.ends.iter().filter(|(at, _)| *at == place);
            ends.filter_map(|(_, link)| *link).collect::<Vec<LinkId>>()
        };
        let links: Vec<LinkId> = self.connections.iter().flat_map(of_place).collect();
        links.into_iter().for_each(|link| self.close(place, link, now));
        self.opening.retain(|(_, from, _, _)| *from != place);
    }
}
