//! The simulation's network: each connection is two pairs of sockets with the bytes in flight between them.
//!
//! The servers have real sockets, which they read and write as usual. The bytes that leave one are held here and go into the
//! other in pieces, late, or never: a connection may be cut at any byte.

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socketpair};

use crate::host::dice::Dice;

/// Bytes that are on their way in one direction at most.
const ON_THE_WAY_MAX: usize = 32 << 10;

/// The number that stands for a client instead of a server.
pub const CLIENTS: usize = usize::MAX;

/// The connections, and the servers that cannot be reached.
#[derive(Debug, Default)]
pub struct Network {
    links: Vec<Link>,
    /// Connections that have been made and that no server has accepted yet.
    arrivals: Vec<Arrival>,
    /// Servers that are up and can be reached, by number.
    pub reachable: Vec<bool>,
    /// The number of connections that have been made.
    made: usize,
    /// The numbers of carried bytes at which the next connections between servers are cut.
    pub cuts: VecDeque<u64>,
}

/// A connection that a server is to accept.
#[derive(Debug)]
pub struct Arrival {
    /// The server.
    pub to: usize,
    /// Its end.
    pub socket: OwnedFd,
    /// The address of its origin.
    pub address: String,
}

#[derive(Debug)]
struct Link {
    /// The owners of the ends: the side that connected, and the side that it connected to.
    between: [usize; 2],
    /// Our ends of the pairs.
    ends: [OwnedFd; 2],
    /// The bytes that have left each end.
    flows: [VecDeque<u8>; 2],
    /// True for an end that sends no more bytes.
    ended: [bool; 2],
    /// After so many bytes more it is cut.
    left: Option<u64>,
    /// Bytes that it has carried.
    carried: u64,
}

impl Network {
    /// Makes a connection to a server, and returns the end of the connecting side.
    ///
    /// # Errors
    /// The server is not there.
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

    /// Returns how many connections there are.
    pub fn len(&self) -> usize {
        self.links.len()
    }

    /// Carries some bytes of a connection on in one direction.
    pub fn carry(&mut self, index: usize, direction: usize, dice: &Dice) {
        let most = [1, 7, 100, 5_000, usize::MAX][dice.below(5)];
        let is_over = self.links.get_mut(index).is_some_and(|link| !link.carry(direction, most));
        if is_over {
            self.links.swap_remove(index);
        }
    }

    /// Carries all that there is.
    pub fn carry_all(&mut self) {
        self.links.retain_mut(|link| link.carry(0, usize::MAX) && link.carry(1, usize::MAX));
    }

    /// Cuts a connection between servers, with any bytes in flight.
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

    /// Bytes that the longest connection between servers has carried.
    pub fn carried(&self) -> u64 {
        let between_servers = self.links.iter().filter(|link| link.between[0] != CLIENTS);
        between_servers.map(|link| link.carried).max().unwrap_or(0)
    }
}

impl Link {
    /// Carries so many bytes on at most; whether the connection is still there.
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
