//! The simulated network: each connection is a pair of sockets, one of which is the client's, with the bytes that are in
//! flight between it and a server.
//!
//! The client's sockets are real, and are read and written as always. Bytes from them reach the server late and in pieces,
//! and so do the answers. A server may read slowly, so that a socket takes only a part of a write. Connecting takes a while,
//! and may be refused. A connection may be cut at any byte, or fall silent.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::rc::Rc;

use super::server::Servers;
use super::session::Session;
use crate::pipe::testing::Dice;

/// The largest number of bytes that are in flight in one direction.
const ON_THE_WAY_MAX: usize = 1 << 20;

/// The time after which a full socket is written to again.
const FULL_PAUSE_US: u64 = 100;

/// The conditions of the network in one world.
#[derive(Clone, Copy, Debug)]
pub(super) struct Weather {
    /// The longest time that bytes take, in microseconds.
    pub(super) delay_us: usize,
    /// The rarity of connections that are cut at some byte: one in this number; 0 for none.
    pub(super) cuts: usize,
    /// The rarity of connections with a server that reads slowly: one in this number; 0 for none.
    pub(super) slow: usize,
}

/// The network: all connections, and the bytes in flight.
pub(super) struct Network {
    dice: Rc<RefCell<Dice>>,
    pub(super) servers: Servers,
    links: Vec<Link>,
    pub(super) weather: Weather,
    made: u64,
}

/// The progress of a connection.
enum State {
    /// The attempt ends at this time, with a connection or a refusal.
    Connecting {
        until_us: u64,
        is_refused: bool,
    },
    Open,
    /// The client's end cannot be used any more; bytes that have left it may still arrive at the server.
    Lost,
}

struct Link {
    node: usize,
    stream: UnixStream,
    state: State,
    session: Session,
    /// The bytes in flight to the server, with the times at which they arrive; below them those to the client.
    up: VecDeque<(u64, Vec<u8>)>,
    down: VecDeque<(u64, Vec<u8>)>,
    /// The time at which the server reads the connection next; below it the number of bytes that it takes then.
    reads_us: u64,
    read_max: usize,
    /// The numbers of bytes to and from the server after which the connection is cut.
    cut: [Option<usize>; 2],
    /// The time until which no bytes are delivered.
    silent_until_us: u64,
}

impl Network {
    pub(super) fn new(dice: Rc<RefCell<Dice>>, servers: Servers, weather: Weather) -> Self {
        Self { dice, servers, links: Vec::new(), weather, made: 0 }
    }

    /// Begins a connection to an address, and returns the client's end.
    pub(super) fn connect(&mut self, address: &SocketAddr, now_us: u64) -> io::Result<OwnedFd> {
        let (near, far) = UnixStream::pair()?;
        near.set_nonblocking(true)?;
        far.set_nonblocking(true)?;
        let mut dice = self.dice.borrow_mut();
        // A real socket takes no bytes before it is connected, so this one is filled until then.
        while (&near).write(&[0; 65_536]).is_ok() {}
        let node = node_of(address);
        let is_refused = !self.servers.is_reachable(node) || dice.roll(40) == 0 && self.weather.cuts > 0;
        let until_us = now_us + dice.roll(self.weather.delay_us * 2 + 1) as u64;
        let is_slow = self.weather.slow > 0 && dice.roll(self.weather.slow) == 0;
        let read_max = if is_slow { 100 + dice.roll(3_000) } else { usize::MAX };
        let mut cut = [None; 2];
        if self.weather.cuts > 0 && dice.roll(self.weather.cuts) == 0 {
            // Some connections are cut during the greeting already.
            let length = [300, 3_000, 30_000][dice.roll(3)];
            cut[dice.roll(2)] = Some(1 + dice.roll(length));
        }
        self.made += 1;
        let session = self.servers.session(node, self.made);
        let (up, down) = Default::default();
        let state = State::Connecting { until_us, is_refused };
        self.links.push(Link {
            node,
            stream: far,
            state,
            session,
            up,
            down,
            reads_us: 0,
            read_max,
            cut,
            silent_until_us: 0,
        });
        Ok(near.into())
    }

    /// Takes the bytes that the client has written.
    pub(super) fn pull(&mut self, now_us: u64) {
        let mut dice = self.dice.borrow_mut();
        for link in &mut self.links {
            link.pull(now_us, self.weather.delay_us, &mut dice);
        }
    }

    /// Delivers the bytes that are due. Returns false when there were none.
    pub(super) fn step(&mut self, now_us: u64) -> bool {
        let mut has_moved = self.servers.step(now_us);
        for index in 0..self.links.len() {
            let link = &mut self.links[index];
            has_moved |= link.settle(now_us);
            has_moved |= link.arrive(now_us, &mut self.servers, &self.dice);
            has_moved |= link.answer(now_us);
        }
        // Sessions may wait for the effects of other sessions, so all are checked again.
        for link in &mut self.links {
            self.servers.look_again(&mut link.session, now_us);
            let mut dice = self.dice.borrow_mut();
            has_moved |= link.send_off(now_us, self.weather.delay_us, &mut dice);
        }
        let servers = &mut self.servers;
        self.links.retain(|link| {
            let is_over = matches!(link.state, State::Lost) && link.up.is_empty();
            if is_over {
                servers.leave(&link.session);
            }
            !is_over
        });
        has_moved
    }

    /// Returns the time of the next delivery.
    pub(super) fn next_us(&self, now_us: u64) -> Option<u64> {
        let waits = self.links.iter().filter_map(|link| link.session.waits_until_us());
        self.links.iter().filter_map(|link| link.next_us(now_us)).chain(waits).chain(self.servers.next_us()).min()
    }

    /// Cuts one of the connections.
    pub(super) fn cut_one(&mut self) {
        let mut dice = self.dice.borrow_mut();
        if !self.links.is_empty() {
            let index = dice.roll(self.links.len());
            self.links[index].lose(dice.roll(2) == 0);
        }
    }

    /// Makes one of the connections, or all connections to a server, silent until this time.
    pub(super) fn silence(&mut self, until_us: u64) {
        let mut dice = self.dice.borrow_mut();
        if self.links.is_empty() {
            return;
        }
        let (index, is_alone) = (dice.roll(self.links.len()), dice.roll(2) == 0);
        let node = self.links[index].node;
        for (other, link) in self.links.iter_mut().enumerate() {
            if other == index || (!is_alone && link.node == node) {
                link.silent_until_us = until_us;
            }
        }
    }

    /// Cuts all connections of a server.
    pub(super) fn cut_off(&mut self, node: usize) {
        let mut dice = self.dice.borrow_mut();
        for link in self.links.iter_mut().filter(|link| link.node == node) {
            link.lose(dice.roll(2) == 0);
        }
    }

    /// Ends all faults of the network.
    pub(super) fn calm(&mut self) {
        self.weather.cuts = 0;
        self.weather.slow = 0;
        for link in &mut self.links {
            (link.cut, link.silent_until_us, link.read_max) = ([None; 2], 0, usize::MAX);
        }
        self.servers.calm();
    }

    /// Returns the number of connections.
    pub(super) fn len(&self) -> usize {
        self.links.len()
    }
}

/// Returns the server that has this address.
fn node_of(address: &SocketAddr) -> usize {
    match address.ip() {
        IpAddr::V4(ip) => usize::from(ip.octets()[3]) - 1,
        IpAddr::V6(_) => usize::MAX,
    }
}

impl Link {
    fn pull(&mut self, now_us: u64, delay_us: usize, dice: &mut Dice) {
        let on_the_way: usize = self.up.iter().map(|(_, bytes)| bytes.len()).sum();
        if !matches!(self.state, State::Open) || self.reads_us > now_us || on_the_way > ON_THE_WAY_MAX {
            return;
        }
        let mut buffer = [0; 16_384];
        let most = self.read_max.min(buffer.len());
        match self.stream.read(&mut buffer[..most]) {
            Ok(0) => self.state = State::Lost,
            Ok(count) => {
                if self.read_max < usize::MAX {
                    self.reads_us = now_us + 20 + dice.roll(400) as u64;
                }
                push(&mut self.up, buffer[..count].to_vec(), now_us + dice.roll(delay_us + 1) as u64);
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => self.state = State::Lost,
        }
    }

    /// Ends an attempt to connect.
    fn settle(&mut self, now_us: u64) -> bool {
        let State::Connecting { until_us, is_refused } = self.state else { return false };
        if until_us > now_us {
            return false;
        }
        if is_refused {
            // If a socket is closed with unread bytes in it, the other end gets an error.
            self.lose(true);
            return true;
        }
        while self.stream.read(&mut [0; 65_536]).is_ok_and(|count| count > 0) {}
        self.state = State::Open;
        true
    }

    /// Hands the server the bytes that have arrived.
    fn arrive(&mut self, now_us: u64, servers: &mut Servers, dice: &RefCell<Dice>) -> bool {
        if self.silent_until_us > now_us || self.up.front().is_none_or(|(at_us, _)| *at_us > now_us) {
            return false;
        }
        let Some((_, mut bytes)) = self.up.pop_front() else { return false };
        if let Some(left) = &mut self.cut[0] {
            bytes.truncate(*left);
            *left -= bytes.len();
        }
        if dice.borrow_mut().roll(3) == 0 && bytes.len() > 1 {
            let rest = bytes.split_off(1 + dice.borrow_mut().roll(bytes.len() - 1));
            self.up.push_front((now_us + dice.borrow_mut().roll(50) as u64, rest));
        }
        servers.receive(&mut self.session, &bytes, now_us);
        if self.cut[0] == Some(0) {
            self.up.clear();
            self.lose(dice.borrow_mut().roll(2) == 0);
        }
        true
    }

    /// Puts the server's replies in flight.
    fn send_off(&mut self, now_us: u64, delay_us: usize, dice: &mut Dice) -> bool {
        if self.session.said.is_empty() {
            return false;
        }
        let mut said = std::mem::take(&mut self.session.said);
        let mut at_us = now_us + dice.roll(delay_us + 1) as u64;
        while !said.is_empty() {
            let count = match dice.roll(3) {
                0 => 1 + dice.roll(said.len()),
                _ => said.len(),
            };
            push(&mut self.down, said.drain(..count).collect(), at_us);
            at_us += dice.roll(delay_us + 1) as u64;
        }
        true
    }

    /// Hands the client the bytes that have arrived.
    fn answer(&mut self, now_us: u64) -> bool {
        let mut has_moved = false;
        while matches!(self.state, State::Open)
            && self.silent_until_us <= now_us
            && let Some((at_us, bytes)) = self.down.front_mut()
            && *at_us <= now_us
        {
            let most = self.cut[1].unwrap_or(usize::MAX).min(bytes.len());
            match self.stream.write(&bytes[..most]) {
                Ok(count) => {
                    has_moved = true;
                    bytes.drain(..count);
                    if bytes.is_empty() {
                        self.down.pop_front();
                    }
                    if let Some(left) = &mut self.cut[1] {
                        *left -= count;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    *at_us = now_us + FULL_PAUSE_US;
                    break;
                }
                Err(_) => self.state = State::Lost,
            }
            if self.cut[1] == Some(0) {
                self.lose(false);
            }
        }
        has_moved
    }

    /// Loses the connection: an error for the client, or the end of its input.
    fn lose(&mut self, is_reset: bool) {
        if is_reset && let Ok((end, other)) = UnixStream::pair() {
            // The socket is closed with the unread bytes in it, which is an error for the client.
            drop((std::mem::replace(&mut self.stream, end), other));
        } else {
            // The call fails only if the client has closed its end first.
            let _ = self.stream.shutdown(std::net::Shutdown::Both);
        }
        self.state = State::Lost;
        self.down.clear();
    }

    fn next_us(&self, now_us: u64) -> Option<u64> {
        let connected = match self.state {
            State::Connecting { until_us, .. } => Some(until_us),
            _ => None,
        };
        let is_open = matches!(self.state, State::Open);
        let arrives = self.up.front().map(|(at_us, _)| *at_us).map(|at_us| at_us.max(self.silent_until_us));
        let comes = self.down.front().filter(|_| is_open).map(|(at_us, _)| *at_us);
        let comes = comes.map(|at_us| at_us.max(self.silent_until_us));
        let reads = (is_open && self.reads_us > now_us).then_some(self.reads_us);
        [connected, arrives, comes, reads].into_iter().flatten().min()
    }
}

/// Puts bytes in flight, which arrive no earlier than those before them.
fn push(flow: &mut VecDeque<(u64, Vec<u8>)>, bytes: Vec<u8>, at_us: u64) {
    let at_us = flow.back().map_or(at_us, |(last_us, _)| at_us.max(*last_us));
    flow.push_back((at_us, bytes));
}
