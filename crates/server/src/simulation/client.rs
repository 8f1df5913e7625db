//! A client of the simulation: it writes to the present primary, and waits for replicas and disks, by WAIT and WAITAOF or by
//! the primary's messages about its journal (CLIENT JOURNAL ON REPLICAS).

use std::collections::VecDeque;
use std::os::fd::OwnedFd;

use rustix::net::{RecvFlags, SendFlags, recv, send};
use sleeve_wire::frame::{Frame, Items, Scanner, decode};

use super::network::{CLIENTS, Network};
use super::node::ORDER;
use crate::host::dice::Dice;

/// The maximum number of requests that wait for their replies.
const WAITING_MAX: usize = 5;

/// The number of keys that transactions write. Each key has the number of the last transaction that has changed it.
pub const KEYS: u64 = 5;

/// The request that a later reply answers.
#[derive(Debug, Clone)]
enum Asked {
    /// A request with a reply that is not used.
    Anything,
    /// A write with this number.
    Write(u64),
    /// The number of replicas that have all writes that were acknowledged before.
    Replicas,
    /// The number of disks that have the writes, this server's and those of replicas.
    Disks,
}

/// A message to a client: writes, and the acknowledgement for them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Heard {
    /// The numbers of the writes.
    pub writes: Vec<u64>,
    /// True for the reply to the write itself.
    pub is_answer: bool,
    /// The primary's disk has the writes.
    pub on_disk: bool,
    /// The number of replicas that have the writes.
    pub replicas: usize,
}

/// A client.
#[derive(Default)]
pub struct Client {
    connection: Option<(OwnedFd, usize)>,
    incoming: Vec<u8>,
    scanner: Scanner,
    asked: VecDeque<Asked>,
    /// The writes that were acknowledged on this connection.
    acknowledged: Vec<u64>,
    /// The client follows the journal on this connection.
    follows: bool,
    /// The writes that were acknowledged on this connection, each with the offset of the journal that the message behind it
    /// named.
    covered: Vec<(u64, i64)>,
    /// The acknowledged writes that no message has covered yet.
    uncovered: Vec<u64>,
}

impl Client {
    /// Sends a request to the primary, if it can be reached and has few requests pending. `number` is that of the next write;
    /// `transactions` gets it if the write is part of a transaction.
    pub fn act(
        &mut self,
        (network, primary): (&mut Network, usize),
        dice: &Dice,
        number: &mut u64,
        transactions: &mut Vec<u64>,
    ) {
        if self.connection.as_ref().is_none_or(|(_, to)| *to != primary) {
            self.leave();
            self.connection = network.connect(CLIENTS, primary).ok().map(|socket| (socket, primary));
            if dice.below(2) == 0 {
                self.follows = true;
                self.ask(&["HELLO", "3"], Asked::Anything);
                self.ask(&["CLIENT", "JOURNAL", "ON", "REPLICAS"], Asked::Anything);
            }
        }
        if self.asked.len() >= WAITING_MAX {
            return;
        }
        let write = |number: &mut u64| {
            *number += 1;
            number.to_string()
        };
        let any = |below: usize| dice.below(below).to_string();
        match dice.below(20) {
            0..=6 => {
                let text = write(number);
                self.ask(&["RPUSH", ORDER, &text], Asked::Write(*number));
            }
            7..=10 => {
                let text = write(number);
                transactions.push(*number);
                let key = format!("k{}", *number % KEYS);
                self.ask(&["MULTI"], Asked::Anything);
                self.ask(&["RPUSH", ORDER, &text], Asked::Anything);
                if dice.below(4) == 0 {
                    self.ask(&["SELECT", "3"], Asked::Anything);
                    self.ask(&["SET", "other", &text], Asked::Anything);
                    self.ask(&["SELECT", "0"], Asked::Anything);
                }
                self.ask(&["SET", &key, &text], Asked::Anything);
                self.ask(&["EXEC"], Asked::Write(*number));
            }
            11..=12 => {
                self.ask(&["SET", &format!("t{}", any(6)), "x", "PX", &any(900).replace('0', "1")], Asked::Anything)
            }
            13 => self.ask(&["GET", &format!("t{}", any(6))], Asked::Anything),
            14 => self.ask(&["SADD", "s", &any(50), &any(50), &any(50)], Asked::Anything),
            15 => self.ask(&["SPOP", "s"], Asked::Anything),
            16 => self.ask(&["SET", "large", &"y".repeat(dice.below(3_000))], Asked::Anything),
            17 => self.ask(&["PUBLISH", "channel", "message"], Asked::Anything),
            18 => self.ask(&["WAIT", &(1 + dice.below(2)).to_string(), "500"], Asked::Replicas),
            _ => self.ask(&["WAITAOF", &any(2), &any(2), "500"], Asked::Disks),
        }
    }

    fn ask(&mut self, words: &[&str], asked: Asked) {
        let Some((socket, _)) = &self.connection else { return };
        let mut request = format!("*{}\r\n", words.len());
        words.iter().for_each(|word| request += &format!("${}\r\n{word}\r\n", word.len()));
        match send(socket, request.as_bytes(), SendFlags::NOSIGNAL) {
            Ok(sent) if sent == request.len() => self.asked.push_back(asked),
            _ => self.leave(),
        }
    }

    /// Reads replies and messages, and returns their contents.
    pub fn hear(&mut self) -> Vec<Heard> {
        let mut buffer = [0; 4_096];
        while let Some((socket, _)) = &self.connection {
            match recv(socket, &mut buffer, RecvFlags::empty()) {
                Ok((0, _)) => self.leave(),
                Ok((count, _)) => self.incoming.extend_from_slice(&buffer[..count]),
                Err(rustix::io::Errno::AGAIN) => break,
                Err(_) => self.leave(),
            }
        }
        let mut heard = Vec::new();
        while let Some(length) = self.scanner.scan(&self.incoming).expect("replies are well formed") {
            let reply: Vec<u8> = self.incoming.drain(..length).collect();
            let (frame, _) = decode(&reply).expect("it is whole");
            if let Frame::Push(items) = frame {
                heard.extend(self.understand_message(items));
                continue;
            }
            let asked = self.asked.pop_front().expect("each reply answers a request");
            heard.extend(self.understand(&asked, &frame));
        }
        heard
    }

    fn understand(&mut self, asked: &Asked, reply: &Frame<'_>) -> Option<Heard> {
        let count = |frame: &Frame<'_>| integer(frame).and_then(|count| usize::try_from(count).ok()).unwrap_or(0);
        match (asked, reply) {
            (_, Frame::Error(_)) | (Asked::Anything, _) => None,
            (Asked::Write(number), _) => {
                self.acknowledged.push(*number);
                if self.follows {
                    self.uncovered.push(*number);
                }
                Some(Heard { writes: vec![*number], is_answer: true, on_disk: false, replicas: 0 })
            }
            (Asked::Replicas, reply) => {
                let writes = self.acknowledged.clone();
                Some(Heard { writes, is_answer: false, on_disk: false, replicas: count(reply) })
            }
            (Asked::Disks, Frame::Array(items)) => {
                let counts: Vec<usize> = items.flatten().map(|item| count(&item)).collect();
                let writes = self.acknowledged.clone();
                Some(Heard { writes, is_answer: false, on_disk: counts[0] == 1, replicas: counts[1] })
            }
            (Asked::Disks, _) => None,
        }
    }

    /// Reads the primary's message about its journal. It has the offset up to which replies have shown the journal, the
    /// offset up to which the primary's disk has it, and for each number of replicas the offset up to which that many
    /// replicas have it.
    fn understand_message(&mut self, mut items: Items<'_>) -> Vec<Heard> {
        let mut next = || items.next().expect("it has five parts").expect("it is well formed");
        let (Frame::Bulk(b"journal"), Frame::Integer(shown), synced, Frame::Array(applied)) =
            (next(), next(), next(), next())
        else {
            panic!("it says how far the journal is")
        };
        let synced = if let Frame::Integer(synced) = synced { synced } else { -1 };
        let by_count: Vec<i64> = applied.flatten().filter_map(|offset| integer(&offset)).collect();
        self.covered.extend(self.uncovered.drain(..).map(|number| (number, shown)));
        let heard = |&(number, offset): &(u64, i64)| Heard {
            writes: vec![number],
            is_answer: false,
            on_disk: synced >= offset,
            replicas: by_count.iter().filter(|reached| **reached >= offset).count(),
        };
        self.covered.iter().map(heard).collect()
    }

    /// Closes the connection of the client.
    pub fn leave(&mut self) {
        *self = Self::default();
    }
}

fn integer(frame: &Frame<'_>) -> Option<i64> {
    if let Frame::Integer(integer) = frame { Some(*integer) } else { None }
}
