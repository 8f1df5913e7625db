//! The simulation's network: each connection is two pairs of sockets, with the bytes in flight between them.
//!
//! The servers have real sockets, which they read and write as usual. The bytes that one end sends are held here, and are
//! delivered to the other end in pieces, late, or never. A connection may be cut at any byte.

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socketpair};

use crate::host::dice::Dice;

/// The maximum number of bytes in flight in one direction.
const ON_THE_WAY_MAX: usize = 32 << 10;

/// The number of the clients in place of a server's number.
pub const CLIENTS: usize = usize::MAX;

/// The connections, and the servers that cannot be reached.
#[derive(Debug, Default)]
pub struct Network {
    links: Vec<Link>,
    /// The connections that are made but not yet accepted by a server.
    arrivals: Vec<Arrival>,
    /// For each server, whether it is up and can be reached.
    pub reachable: Vec<bool>,
    /// The number of connections made so far.
    made: usize,
    /// The cuts of the next connections between servers: each number is the count of carried bytes after which one is cut.
    pub cuts: VecDeque<u64>,
}

/// A connection that a server is to accept.
#[derive(Debug)]
pub struct Arrival {
    /// The number of the server.
    pub to: usize,
    /// The server's end of the connection.
    pub socket: OwnedFd,
    /// The address of the connecting side.
    pub address: String,
}

#[derive(Debug)]
struct Link {
    /// The numbers of the two sides: the side that connected, and the side that it connected to.
    between: [usize; 2],
    /// The simulation's ends of the two pairs of sockets.
    ends: [OwnedFd; 2],
    /// The bytes in flight from each side.
    flows: [VecDeque<u8>; 2],
    /// For each side, whether it sends no more bytes.
    ended: [bool; 2],
    /// The number of bytes after which the connection is cut; none if it is not.
    left: Option<u64>,
    /// The number of bytes carried so far.
    carried: u64,
}

impl Network {
    /// Makes a connection to a server, and returns the end of the connecting side.
    ///
    /// # Errors
    /// The server cannot be reached.
    pub fn connect(&mut self, from: usize, to: usize) -> io::Result<OwnedFd> {
        let is_reachable = |number: usize| number == CLIENTS || self.reachable.get(number) == Some(&true);
        if !is_reachable(from) || !is_reachable(to) || from == to {
            return Err(Errno::CONNREFUSED.into());
        }
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let pair = || socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None);
        let ((near, own_near), (far, own_far)) = (pair()?, pair()?);
        self.made += 1;
        let host = if from == CLIENTS { "client".to_owned() } else { format!("n{from}") };
        self.arrivals.push(Arrival { to, socket: far, address: format!("{host}:{}", 20_000 + self.made) });
        let left = if from == CLIENTS { None } else { self.cuts.pop_front() };
        self.links.push(Link {
            between: [from, to],
            ends: [own_near, own_far],
            flows: Default::default(),
            ended: [false; 2],
            left,
            carried: 0,
        });
        Ok(near)
    }

    /// Returns the connections that have arrived since the last call.
    pub fn arrivals(&mut self) -> Vec<Arrival> {
        std::mem::take(&mut self.arrivals)
    }

    /// Returns the number of connections.
    pub fn len(&self) -> usize {
        self.links.len()
    }

    /// Carries some bytes of a connection in one direction.
    pub fn carry(&mut self, index: usize, direction: usize, dice: &Dice) {
        let most = [1, 7, 100, 5_000, usize::MAX][dice.below(5)];
        let is_over = self.links.get_mut(index).is_some_and(|link| !link.carry(direction, most));
        if is_over {
            self.links.swap_remove(index);
        }
    }

    /// Carries all bytes in flight.
    pub fn carry_all(&mut self) {
        self.links.retain_mut(|link| link.carry(0, usize::MAX) && link.carry(1, usize::MAX));
    }

    /// Cuts a connection between servers. Bytes in flight are lost.
    pub fn cut(&mut self, dice: &Dice) {
        let between_servers: Vec<usize> =
            (0..self.links.len()).filter(|&index| self.links[index].between[0] != CLIENTS).collect();
        if !between_servers.is_empty() {
            self.links.swap_remove(between_servers[dice.below(between_servers.len())]);
        }
    }

    /// Cuts all connections of a server.
    pub fn cut_off(&mut self, number: usize) {
        self.links.retain(|link| !link.between.contains(&number));
        self.arrivals.retain(|arrival| arrival.to != number);
    }

    /// Returns the number of bytes that the busiest connection between servers has carried.
    pub fn carried(&self) -> u64 {
        let between_servers = self.links.iter().filter(|link| link.between[0] != CLIENTS);
        between_servers.map(|link| link.carried).max().unwrap_or(0)
    }
}

impl Link {
    /// Carries at most `most` bytes. Returns whether the connection still exists.
    fn carry(&mut self, direction: usize, most: usize) -> bool {
        let Self { ends, flows, ended, left, carried, .. } = self;
        let flow = &mut flows[direction];
        let mut buffer = [0; 4_096];
        while !ended[direction] && flow.len() < ON_THE_WAY_MAX {
            match recv(&ends[direction], &mut buffer, RecvFlags::empty()) {
                Ok((0, _)) => ended[direction] = true,
                Ok((count, _)) => flow.extend(&buffer[..count]),
                Err(Errno::AGAIN) => break,
                Err(_) => return false,
            }
        }
        if flow.is_empty() {
            return !ended[direction];
        }
        let count = most.min(flow.len()).min(left.map_or(usize::MAX, |left| left as usize));
        let bytes: Vec<u8> = flow.iter().take(count).copied().collect();
        match send(&ends[1 - direction], &bytes, SendFlags::NOSIGNAL) {
            Ok(sent) => {
                flow.drain(..sent);
                *carried += sent as u64;
                if let Some(left) = left {
                    *left -= sent as u64;
                }
            }
            Err(Errno::AGAIN) => {}
            Err(_) => return false,
        }
        *left != Some(0)
    }
}
