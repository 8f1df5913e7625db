//! The same random commands to two servers, every reply compared.
//!
//! Four connections to each server get the same commands in the same order. Where a reply differs, the commands before it
//! are thinned out for as long as the difference stays, and what is left is printed with its seed. The commands come from the
//! grammar in the command table; `SLEEVE_SEED` chooses others, `SLEEVE_COMMANDS` how many.

use std::fmt::Write;

use sleeve_tests::generator::{Generator, Leeway, Words, leeway};
use sleeve_tests::random::seed;
use sleeve_tests::transcript::escape::escape;
use sleeve_tests::transcript::frame::{children, sorted, text};
use sleeve_tests::{Connection, Kind, Server};

/// Connections to each server.
const CONNECTIONS: usize = 4;

/// After so many different faults a run ends: the rest would be more of the same.
const FAULTS_MAX: usize = 12;

/// How many commands are sent again to make a failing history shorter.
const REPLAYED_MAX: usize = 500_000;

/// How much of a history is shown at most.
const SHOWN_MAX: usize = 60;

/// How far apart two servers may read the same clock, in seconds; far less than any two deadlines differ.
const CLOCK_SECONDS_MAX: u64 = 600;

/// A command and the connection that sends it.
type Sent = (usize, Words);

/// Two servers that get the same commands.
struct Pair<'a> {
    servers: [&'a Server; 2],
    protocol: u8,
    connections: [Vec<Connection>; 2],
    /// For each connection, what the replies that EXEC brings together may differ in.
    queued: Vec<Vec<Leeway>>,
}

impl<'a> Pair<'a> {
    /// New connections to two servers that are emptied first.
    fn new(servers: [&'a Server; 2], protocol: u8) -> Pair<'a> {
        let connections = servers.map(|server| {
            let mut connections: Vec<Connection> = (0..CONNECTIONS).map(|_| server.connect()).collect();
            ask(&mut connections[0], &[b"FLUSHALL".to_vec()]);
            if protocol == 3 {
                for connection in &mut connections {
                    ask(connection, &[b"HELLO".to_vec(), b"3".to_vec()]);
                }
            }
            connections
        });
        Pair { servers, protocol, connections, queued: vec![Vec::new(); CONNECTIONS] }
    }

    /// The same pair as at the beginning.
    fn again(&self) -> Pair<'a> {
        Pair::new(self.servers, self.protocol)
    }

    /// Sends one command to both; the two replies where they differ.
    fn send(&mut self, (connection, words): &Sent) -> Option<[Vec<u8>; 2]> {
        let [one, two] = &mut self.connections;
        let replies = [ask(&mut one[*connection], words), ask(&mut two[*connection], words)];
        let queued = &mut self.queued[*connection];
        let is = |name: &str| words[0].eq_ignore_ascii_case(name.as_bytes());
        let same = if is("EXEC") { same_all(&replies, &std::mem::take(queued)) } else { same(&replies, leeway(words)) };
        if replies[0] == b"+QUEUED\r\n" {
            queued.push(leeway(words));
        } else if replies[0] == b"+OK\r\n" && (is("DISCARD") || is("MULTI")) {
            queued.clear();
        }
        if same { None } else { Some(replies) }
    }

    /// Plays a history; the replies to its last command where they differ.
    fn play(&self, history: &[Sent]) -> Option<[Vec<u8>; 2]> {
        let mut pair = self.again();
        let mut last = None;
        for sent in history {
            last = pair.send(sent);
        }
        last
    }
}

fn ask(connection: &mut Connection, words: &[Vec<u8>]) -> Vec<u8> {
    // A server that ends the connection must not end the test: that is a reply like any other, and a wrong one.
    connection.command(words).unwrap_or_else(|error| format!("({error})").into_bytes())
}

fn same([one, two]: &[Vec<u8>; 2], leeway: Leeway) -> bool {
    one == two
        || match leeway {
            Leeway::None => false,
            Leeway::Order => sorted(one, false) == sorted(two, false),
            Leeway::Seconds => near(one, two, CLOCK_SECONDS_MAX),
            Leeway::Milliseconds => near(one, two, 1000 * CLOCK_SECONDS_MAX),
        }
}

/// Whether EXEC brought the same replies.
fn same_all(replies: &[Vec<u8>; 2], queued: &[Leeway]) -> bool {
    let parts = replies.each_ref().map(|reply| children(reply));
    let [Some(one), Some(two)] = parts else { return replies[0] == replies[1] };
    one.len() == two.len()
        && one.iter().zip(&two).enumerate().all(|(index, (one, two))| {
            let leeway = queued.get(index).copied().unwrap_or(Leeway::None);
            same(&[one.to_vec(), two.to_vec()], leeway)
        })
}

/// Whether two integers are times that may have been read a moment apart.
fn near(one: &[u8], two: &[u8], apart_max: u64) -> bool {
    let number = |reply: &[u8]| std::str::from_utf8(text(reply)?).ok()?.parse::<i64>().ok();
    let (Some(one), Some(two)) = (number(one), number(two)) else { return false };
    one > 0 && two > 0 && one.abs_diff(two) <= apart_max
}

/// A shorter history whose last command still gets two different replies, or none when the difference does not come back.
fn shorten(pair: &Pair<'_>, history: &[Sent]) -> Option<Vec<Sent>> {
    // Most differences need only what came right before them.
    let lengths = [1, 4, 16, 64, 256, 1024, 8192, history.len()];
    let tails = lengths.iter().map(|&length| &history[history.len().saturating_sub(length)..]);
    let mut short = tails.into_iter().find(|tail| pair.play(tail).is_some())?.to_vec();
    let (mut size, mut budget) = (short.len() / 2, REPLAYED_MAX);
    while size > 0 {
        let mut start = 0;
        while start + size < short.len() {
            let mut fewer = short.clone();
            fewer.drain(start..start + size);
            if budget < fewer.len() {
                return Some(short);
            }
            budget -= fewer.len();
            if pair.play(&fewer).is_some() { short = fewer } else { start += size }
        }
        size /= 2;
    }
    Some(short)
}

/// The end of a history and the two replies to its last command, for a person to read.
fn describe(pair: &Pair<'_>, history: &[Sent], replies: &[Vec<u8>; 2]) -> String {
    let short = shorten(pair, history);
    let shown = short.as_deref().unwrap_or(history);
    let replies = short.as_ref().and_then(|short| pair.play(short)).unwrap_or_else(|| replies.clone());
    let mut text = String::new();
    // Writing to a string does not fail.
    if short.is_none() {
        let _ = writeln!(text, "  (seen once; the same {} commands did not bring it back)", history.len());
    }
    if shown.len() > SHOWN_MAX {
        let _ = writeln!(text, "  ({} commands before these)", shown.len() - SHOWN_MAX);
    }
    for (connection, words) in &shown[shown.len().saturating_sub(SHOWN_MAX)..] {
        let line: Vec<String> = words.iter().map(|word| format!("\"{}\"", escape(word).replace('"', "\\\""))).collect();
        let _ = writeln!(text, "  {connection}> {}", line.join(" "));
    }
    for (server, reply) in pair.servers.iter().zip(replies) {
        let _ = writeln!(text, "  {:>8}: {}", server.kind().name(), clipped(&reply));
    }
    text
}

/// The beginning of a reply, which tells enough of a long one.
fn clipped(reply: &[u8]) -> String {
    let more = if reply.len() > 300 { "..." } else { "" };
    escape(&reply[..reply.len().min(300)]) + more
}

/// Sends `commands` commands to both servers and lists what differs, shortened.
fn compare(servers: [&Server; 2], protocol: u8, seed: u64, commands: usize) -> Vec<String> {
    let mut generator = Generator::new(seed);
    let mut pair = Pair::new(servers, protocol);
    let mut history: Vec<Sent> = Vec::new();
    let mut faults: Vec<String> = Vec::new();
    let mut seen: Vec<Vec<u8>> = Vec::new();
    for _ in 0..commands {
        let connection = generator.random().below(CONNECTIONS);
        let in_transaction = !pair.queued[connection].is_empty();
        let words = if in_transaction { generator.command_in_transaction() } else { generator.command() };
        history.push((connection, words));
        let Some(sent) = history.last() else { continue };
        let Some(replies) = pair.send(sent) else { continue };
        let name = sent.1[0].to_ascii_lowercase();
        if !seen.contains(&name) {
            seen.push(name);
            faults.push(describe(&pair, &history, &replies));
        }
        if faults.len() == FAULTS_MAX {
            break;
        }
        // The two no longer hold the same data, so they begin anew.
        pair = pair.again();
        history.clear();
    }
    faults
}

/// How many commands a run sends.
fn commands(default: usize) -> usize {
    std::env::var("SLEEVE_COMMANDS").ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

fn assert_same(kinds: [Kind; 2], protocol: u8, seed: u64, commands: usize) {
    let servers = kinds.map(Server::start);
    let faults = compare([&servers[0], &servers[1]], protocol, seed, commands);
    let count = faults.len();
    assert!(faults.is_empty(), "seed {seed}, RESP{protocol}: {count} commands differ\n{}", faults.join("\n"));
}

#[test]
fn redis_agrees_with_redis() {
    assert_same([Kind::Redis, Kind::Redis], 2, seed(1), commands(20_000));
}

#[test]
fn sleeve_agrees_with_redis_in_resp2() {
    assert_same([Kind::Sleeve, Kind::Redis], 2, seed(7), commands(100_000));
}

#[test]
fn sleeve_agrees_with_redis_in_resp3() {
    assert_same([Kind::Sleeve, Kind::Redis], 3, seed(11), commands(100_000));
}
