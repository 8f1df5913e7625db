//! Several servers that get the same steps, and their replies.
//!
//! The last server is the yardstick. Commands travel many at a time over one of a few connections, and only one connection is
//! in use at a moment, so that the order is the same everywhere. If a command chooses at random, one server chooses and the
//! others are told to do the same. One thread uses a group at a time.

use sleeve_tests::connection::request;
use sleeve_tests::generator::Words;
use sleeve_tests::generator::leeway::{Leeway, agree, leeway, shortest, without_errors};
use sleeve_tests::transcript::frame::{children, leaves};
use sleeve_tests::{Connection, Kind, Server};

use super::content;
use super::reply::{Replies, ask};

/// The number of connections to each server that commands use.
pub const CONNECTIONS: usize = 4;

/// Options that a run changes, and their values at its beginning.
pub const OPTIONS: &[(&str, &str)] = &[
    ("hash-max-listpack-entries", "128"),
    ("hash-max-listpack-value", "64"),
    ("zset-max-listpack-entries", "128"),
    ("zset-max-listpack-value", "64"),
    ("set-max-intset-entries", "512"),
    ("set-max-listpack-entries", "128"),
    ("set-max-listpack-value", "64"),
    ("list-max-listpack-size", "-2"),
    ("stream-node-max-entries", "100"),
    ("hll-sparse-max-bytes", "3000"),
];

/// A step that all servers take.
#[derive(Debug, Clone)]
pub enum Step {
    /// A command on a connection.
    Send(usize, Words),
    /// A command with a random result: if it changes data, the server of that number makes the choice for all.
    Choose(usize, Words, usize),
    /// Looks at every key with its encoding, deadline and content, dumps and restores it.
    Look,
}

/// Servers that get the same steps.
pub struct Servers<'a> {
    /// The servers, the yardstick last.
    pub servers: &'a [Server],
    protocol: u8,
    connections: Vec<Vec<Connection>>,
    /// For each connection, the tolerated differences of the replies that EXEC will return; none outside of a transaction.
    queued: Vec<Option<Vec<Leeway>>>,
}

impl<'a> Servers<'a> {
    /// Opens new connections to the servers, after deleting their data.
    pub fn new(servers: &'a [Server], protocol: u8) -> Servers<'a> {
        let connections = servers.iter().map(|server| connect(server, protocol)).collect();
        Servers { servers, protocol, connections, queued: vec![None; CONNECTIONS] }
    }

    /// Returns a new group of the same servers, in its first state.
    pub fn again(&self) -> Servers<'a> {
        Servers::new(self.servers, self.protocol)
    }

    /// Takes all steps; returns the first step with replies that differ, and the replies.
    pub fn run(&mut self, steps: &[Step]) -> Option<(usize, Replies)> {
        let is_valkey = self.is_valkey();
        let mut start = 0;
        while start < steps.len() {
            let length = self.together(&steps[start..]);
            let fault = match &steps[start] {
                Step::Send(connection, _) => self.send(*connection, &steps[start..start + length]),
                Step::Choose(connection, words, chooser) => {
                    self.choose(*connection, words, *chooser).map(|all| (0, all))
                }
                Step::Look => content::look(&mut self.lookers(), is_valkey).map(|all| (0, all)),
            };
            if let Some((index, replies)) = fault {
                return Some((start + index, replies));
            }
            start += length;
        }
        None
    }

    fn is_valkey(&self) -> bool {
        self.servers.last().is_some_and(|server| server.kind() == Kind::Valkey)
    }

    /// Returns the number of the next steps that can be sent together.
    fn together(&self, steps: &[Step]) -> usize {
        let Some(Step::Send(first, _)) = steps.first() else { return 1 };
        let same = |step: &&Step| matches!(step, Step::Send(connection, _) if connection == first);
        steps.iter().take_while(same).count()
    }

    /// Returns a connection to each server that no command of the test uses.
    fn lookers(&mut self) -> Vec<&mut Connection> {
        self.connections.iter_mut().map(|all| &mut all[CONNECTIONS]).collect()
    }

    /// Sends commands to all servers at once.
    fn send(&mut self, connection: usize, steps: &[Step]) -> Option<(usize, Replies)> {
        let commands: Vec<&Words> = steps.iter().filter_map(Step::words).collect();
        let bytes: Vec<u8> = commands.iter().flat_map(|words| request(words)).collect();
        for server in &mut self.connections {
            // A server that has closed the connection gives no replies, and the comparison shows that.
            let _ = server[connection].send(&bytes);
        }
        let mut fault = None;
        for (index, words) in commands.into_iter().enumerate() {
            let replies: Replies = self.connections.iter_mut().map(|server| reply(&mut server[connection])).collect();
            if !self.is_same(connection, words, &replies) && fault.is_none() {
                fault = Some((index, replies));
            }
        }
        fault
    }

    /// Returns whether the servers agree; keeps account of transactions.
    fn is_same(&mut self, connection: usize, words: &Words, replies: &Replies) -> bool {
        let Some((yardstick, others)) = replies.split_last() else { return true };
        let is = |name: &str| words[0].eq_ignore_ascii_case(name.as_bytes());
        let is_valkey = self.is_valkey();
        let queued = &mut self.queued[connection];
        let within = leeway(words);
        let agrees = |one: &[u8], two: &[u8]| match queued.as_deref() {
            Some(within) if is("EXEC") => agree_all(one, two, within),
            _ => agree(one, two, within),
        };
        let forgiven = if is_valkey { without_errors } else { shortest };
        let same =
            others.iter().all(|reply| agrees(reply, yardstick) || agrees(&forgiven(reply), &forgiven(yardstick)));
        if yardstick == b"+QUEUED\r\n" {
            queued.get_or_insert_default().push(within);
        } else if is("MULTI") && yardstick == b"+OK\r\n" {
            *queued = Some(Vec::new());
        } else if words.len() == 1 && (is("EXEC") || is("DISCARD")) {
            *queued = None;
        }
        same
    }

    /// Executes a random choice on all servers. In a transaction the choice would come later, so it is left out there.
    fn choose(&mut self, connection: usize, words: &Words, chooser: usize) -> Option<Replies> {
        if self.queued[connection].is_some() {
            return None;
        }
        let mut all: Vec<&mut Connection> = self.connections.iter_mut().map(|server| &mut server[connection]).collect();
        let held = held_by(all.last_mut()?, words);
        let takes = words[0].eq_ignore_ascii_case(b"SPOP") && !held.is_empty();
        if !takes {
            let replies: Replies = all.iter_mut().map(|connection| ask(connection, words)).collect();
            let of_them = |reply: &Vec<u8>| {
                reply.starts_with(b"-") || leaves(&shortest(reply)).iter().all(|leaf| held.contains(leaf))
            };
            let (yardstick, others) = replies.split_last()?;
            let same = others
                .iter()
                .all(|reply| if reply.starts_with(b"-") { reply == yardstick } else { alike(reply, yardstick) });
            let valid = held.is_empty() || replies.iter().all(of_them);
            return if same && valid { None } else { Some(replies) };
        }
        let chooser = chooser % all.len();
        let taken = ask(all[chooser], words);
        let members = leaves(&taken);
        if taken.starts_with(b"-") || members.is_empty() {
            let replies: Replies = (0..all.len())
                .map(|index| if index == chooser { taken.clone() } else { ask(all[index], words) })
                .collect();
            return if replies.iter().all(|reply| *reply == taken) { None } else { Some(replies) };
        }
        let mut removal = vec![b"SREM".to_vec(), words[1].clone()];
        removal.extend(members.iter().cloned());
        let count = format!(":{}\r\n", members.len()).into_bytes();
        let wanted = words
            .get(2)
            .map_or(1, |count| std::str::from_utf8(count).ok().and_then(|text| text.parse().ok()).unwrap_or(0));
        let enough = members.len() == held.len().min(wanted);
        let replies: Replies = (0..all.len())
            .map(|index| if index == chooser { taken.clone() } else { ask(all[index], &removal) })
            .collect();
        let same = replies.iter().enumerate().all(|(index, reply)| index == chooser || *reply == count);
        if same && enough { None } else { Some(replies) }
    }
}

impl Step {
    /// Returns the command of a step.
    pub fn words(&self) -> Option<&Words> {
        match self {
            Step::Send(_, words) | Step::Choose(_, words, _) => Some(words),
            Step::Look => None,
        }
    }
}

/// Returns the candidates of the choice, as texts; none if the command is refused or the key is missing.
fn held_by(yardstick: &mut Connection, words: &Words) -> Vec<Vec<u8>> {
    let key = words.get(1).cloned().unwrap_or_default();
    let list: Words = match words[0].to_ascii_lowercase().as_slice() {
        b"hrandfield" => vec![b"HGETALL".to_vec(), key],
        b"zrandmember" => vec![b"ZRANGE".to_vec(), key, b"0".to_vec(), b"-1".to_vec(), b"WITHSCORES".to_vec()],
        b"randomkey" => vec![b"KEYS".to_vec(), b"*".to_vec()],
        _ => vec![b"SMEMBERS".to_vec(), key],
    };
    let reply = ask(yardstick, &list);
    if reply.starts_with(b"-") { Vec::new() } else { leaves(&shortest(&reply)) }
}

/// Returns whether two replies have the same shape.
fn alike(one: &[u8], two: &[u8]) -> bool {
    one.first() == two.first() && leaves(one).len() == leaves(two).len()
}

fn connect(server: &Server, protocol: u8) -> Vec<Connection> {
    let mut connections: Vec<Connection> = (0..=CONNECTIONS).map(|_| server.connect()).collect();
    ask(&mut connections[0], &[b"FLUSHALL".to_vec()]);
    ask(&mut connections[0], &[b"FUNCTION".to_vec(), b"FLUSH".to_vec()]);
    ask(&mut connections[0], &[b"SCRIPT".to_vec(), b"FLUSH".to_vec()]);
    for (option, value) in OPTIONS {
        // Some servers do not have all options.
        let words = ["CONFIG", "SET", option, value].map(|word| word.as_bytes().to_vec());
        ask(&mut connections[0], &words);
    }
    if protocol == 3 {
        for connection in &mut connections {
            ask(connection, &[b"HELLO".to_vec(), b"3".to_vec()]);
        }
    }
    connections
}

fn reply(connection: &mut Connection) -> Vec<u8> {
    connection.reply().unwrap_or_else(|error| format!("({error})").into_bytes())
}

/// Returns whether two replies to EXEC agree.
fn agree_all(one: &[u8], two: &[u8], within: &[Leeway]) -> bool {
    let (Some(ones), Some(twos)) = (children(one), children(two)) else { return one == two };
    ones.len() == twos.len()
        && ones.iter().zip(&twos).enumerate().all(|(index, (one, two))| {
            let leeway = within.get(index).copied().unwrap_or(Leeway::None);
            agree(one, two, leeway)
        })
}
