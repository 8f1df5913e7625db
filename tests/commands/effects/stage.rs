//! Plays a case on a server, and puts the effects of each of its requests into words.
//!
//! Each case is played twice: under an LFU policy with counters that go up by one with every use, and under an LRU policy.
//! Before a request every key is restored with its counter at 100, or as idle for 1,000 seconds, so that the access clocks
//! show the effect of the request on it: `freq k=101`, `used k`. Further words: `events set:k`, `watch k` (a transaction that
//! watches it is broken), `invalid k` (a client that has it in a cache gets an invalidation), `cmd get` (of CLIENT LIST), `b
//! :1` (the reply to a blocked client) or `b waits`.

use std::time::Duration;

use sleeve_tests::connection::request;
use sleeve_tests::transcript::escape::{escape, words};
use sleeve_tests::transcript::frame::{leaves, text};
use sleeve_tests::{Connection, Server};

use crate::commands::effects::figures::Figures;
use crate::commands::effects::script::{Case, Mark};

/// The keys that are watched.
const KEYS: &[&str] = &["k", "s", "d"];

/// A server with the connections that observe it.
pub struct Stage<'s> {
    server: &'s Server,
    /// The connection that prepares and asks.
    keeper: Connection,
    /// The connection that gets keyspace events.
    listener: Connection,
    /// The connection of a client that has every key in a cache.
    cache: Connection,
    /// The connections that each watch one key.
    watchers: Vec<Connection>,
}

/// The policy that decides which keys are evicted.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Policy {
    Lfu,
    Lru,
}

impl Stage<'_> {
    /// Opens the connections, and has the server keep a stream for replicas, as it does from the first one on.
    pub fn new(server: &Server) -> Stage<'_> {
        let mut keeper = server.connect();
        let mut replica = server.connect();
        replica.send(&request(&["PSYNC", "?", "-1"])).expect("the request is sent");
        let mut is_kept = || {
            let info = keeper.command(&["INFO", "replication", "persistence"]).expect("INFO is answered");
            let info = String::from_utf8_lossy(&info).into_owned();
            info.contains("repl_backlog_active:1") && info.contains("rdb_bgsave_in_progress:0")
        };
        while !is_kept() {
            std::thread::yield_now();
        }
        drop(replica);
        while !String::from_utf8_lossy(&keeper.command(&["INFO", "replication"]).unwrap_or_default())
            .contains("connected_slaves:0")
        {
            std::thread::yield_now();
        }
        let mut listener = server.connect();
        let mut cache = server.connect();
        ask(&mut listener, "HELLO 3");
        ask(&mut listener, "PSUBSCRIBE __keyevent@*");
        ask(&mut cache, "HELLO 3");
        ask(&mut cache, "CLIENT TRACKING on BCAST");
        ask(&mut keeper, "DEBUG SET-ACTIVE-EXPIRE 0");
        let watchers = KEYS.iter().map(|_| server.connect()).collect();
        Stage { server, keeper, listener, cache, watchers }
    }

    /// Plays the case and returns the effects of each measured request.
    pub fn play(&mut self, case: &Case) -> Vec<String> {
        let [by_use, by_time] = [Policy::Lfu, Policy::Lru].map(|policy| self.play_under(policy, case));
        let both = by_use.into_iter().zip(by_time);
        both.map(|(mut by_use, mut by_time)| {
            by_use.extend(by_time.pop());
            by_use.retain(|word| !word.is_empty());
            by_use.join(" | ")
        })
        .collect()
    }

    fn play_under(&mut self, policy: Policy, case: &Case) -> Vec<Vec<String>> {
        let name = if policy == Policy::Lfu { "allkeys-lfu" } else { "allkeys-lru" };
        ask(&mut self.keeper, "FLUSHALL");
        ask(&mut self.keeper, "FUNCTION FLUSH");
        ask(&mut self.keeper, "SCRIPT FLUSH");
        ask(&mut self.keeper, &format!("CONFIG SET maxmemory-policy {name}"));
        let mut before = Vec::new();
        for (option, value) in &case.configuration {
            let old = leaves(&ask(&mut self.keeper, &format!("CONFIG GET {option}"))).pop().unwrap_or_default();
            before.push((option, old));
            assert_eq!(ask(&mut self.keeper, &format!("CONFIG SET {option} {value}")), b"+OK\r\n", "{option} {value}");
        }
        let (mut own, mut waiting, mut seen) = (self.server.connect(), None, Vec::new());
        for step in &case.steps {
            match step.mark {
                Mark::Comment => {}
                Mark::Prepare => drop(ask(&mut self.keeper, &step.text)),
                Mark::PrepareOwn => drop(ask(&mut own, &step.text)),
                Mark::Pass => std::thread::sleep(Duration::from_millis(step.text.parse().unwrap_or(1))),
                Mark::Wait => waiting = Some(step.text.as_str()),
                Mark::Measure => seen.push(self.measure(policy, &mut own, &step.text, waiting.take())),
            }
        }
        for (option, old) in before {
            self.keeper.command(&[b"CONFIG".as_slice(), b"SET", option.as_bytes(), &old]).expect("a reply");
        }
        seen
    }

    /// Makes a request and collects its effects; the last word is an effect that only an LRU policy shows.
    fn measure(&mut self, policy: Policy, own: &mut Connection, text: &str, waiting: Option<&str>) -> Vec<String> {
        self.age(policy);
        let mut waiter = waiting.map(|text| self.begin_to_wait(text));
        for (watcher, key) in self.watchers.iter_mut().zip(KEYS) {
            ask(watcher, &format!("WATCH {key}"));
        }
        self.told();
        let id = ask(own, "CLIENT ID");
        let before = Figures::of(&mut self.keeper);
        let reply = text.split(" ;; ").map(|text| ask(own, text)).last().unwrap_or_default();
        let after = Figures::of(&mut self.keeper);
        let mut seen = vec![if says_its_own(text) { String::new() } else { first_line(&reply) }];
        seen.extend(after.since(&before));
        let (events, invalid) = self.told();
        seen.push(list("events", &events));
        seen.push(list("invalid", &invalid));
        let client = ask(&mut self.keeper, &format!("CLIENT LIST ID {}", digits(&id)));
        let client = String::from_utf8_lossy(&client).into_owned();
        seen.extend(client.split(' ').find_map(|word| word.strip_prefix("cmd=")).map(|cmd| format!("cmd {cmd}")));
        seen.extend(waiter.as_mut().map(|(socket, id)| {
            ask(&mut self.keeper, &format!("CLIENT UNBLOCK {id} ERROR"));
            let reply = socket.reply().expect("who waited is answered");
            if reply.starts_with(b"-UNBLOCKED") { "b waits".to_owned() } else { format!("b {}", first_line(&reply)) }
        }));
        let mut broken = Vec::new();
        for (watcher, key) in self.watchers.iter_mut().zip(KEYS) {
            ask(watcher, "MULTI");
            if ask(watcher, "EXEC") == b"*-1\r\n" {
                broken.push((*key).to_owned());
            }
        }
        seen.push(list("watch", &broken));
        seen.extend(self.clocks(policy));
        seen
    }

    /// Gives every key a clock that the next request changes visibly.
    fn age(&mut self, policy: Policy) {
        let clock = if policy == Policy::Lfu { ["FREQ", "100"] } else { ["IDLETIME", "1000"] };
        for key in self.keys() {
            let dump = self.keeper.command(&[b"DUMP".as_slice(), &key]).expect("a reply");
            let Some(dump) = text(&dump) else { continue };
            let at = self.keeper.command(&[b"PEXPIRETIME".as_slice(), &key]).expect("a reply");
            let at = digits(&at).replace("-1", "0");
            let words = [b"RESTORE".as_slice(), &key, at.as_bytes(), dump, b"REPLACE", b"ABSTTL"];
            let clock = clock.map(str::as_bytes);
            let reply = self.keeper.command(&[words.as_slice(), &clock].concat()).expect("a reply");
            assert_eq!(reply, b"+OK\r\n", "RESTORE {}: {}", escape(&key), escape(&reply));
        }
    }

    fn clocks(&mut self, policy: Policy) -> Vec<String> {
        let mut touched = Vec::new();
        for key in self.keys() {
            let name = String::from_utf8_lossy(&key).into_owned();
            let what: &[u8] = if policy == Policy::Lfu { b"FREQ" } else { b"IDLETIME" };
            let clock = self.keeper.command(&[b"OBJECT".as_slice(), what, &key]).expect("a reply");
            match (policy, digits(&clock).parse::<u32>()) {
                (Policy::Lfu, Ok(100)) | (_, Err(_)) => {}
                (Policy::Lfu, Ok(count)) => touched.push(format!("{name}={count}")),
                (Policy::Lru, Ok(900..)) => {}
                (Policy::Lru, Ok(_)) => touched.push(name),
            }
        }
        vec![list(if policy == Policy::Lfu { "freq" } else { "used" }, &touched)]
    }

    fn keys(&mut self) -> Vec<Vec<u8>> {
        let mut keys = leaves(&ask(&mut self.keeper, "KEYS *"));
        keys.sort();
        keys
    }

    /// Returns the events and the invalidations since the last look.
    fn told(&mut self) -> (Vec<String>, Vec<String>) {
        let heard = pushes(&mut self.listener);
        let events = heard.iter().map(|push| {
            let words: Vec<String> =
                leaves(push).iter().map(|word| String::from_utf8_lossy(word).into_owned()).collect();
            let event = words[2].rsplit(':').next().unwrap_or_default().to_owned();
            format!("{event}:{}", words[3])
        });
        let events = events.collect();
        let invalid = pushes(&mut self.cache);
        let names = invalid.iter().flat_map(|push| leaves(push).into_iter().skip(1));
        let mut invalid: Vec<String> = names.map(|name| String::from_utf8_lossy(&name).into_owned()).collect();
        invalid.sort();
        (events, invalid)
    }

    fn begin_to_wait(&mut self, text: &str) -> (Connection, String) {
        let mut socket = self.server.connect();
        let id = digits(&ask(&mut socket, "CLIENT ID"));
        socket.send(&request(&words(text).expect("words"))).expect("the request is sent");
        while !ask(&mut self.keeper, "INFO clients").windows(17).any(|part| part == b"blocked_clients:1") {
            std::thread::yield_now();
        }
        (socket, id)
    }
}

/// Returns the pushes that have arrived by now.
fn pushes(connection: &mut Connection) -> Vec<Vec<u8>> {
    connection.send(&request(&["PING", "end"])).expect("the request is sent");
    let mut pushes = Vec::new();
    loop {
        let reply = connection.reply().expect("a reply");
        if !reply.starts_with(b">") {
            return pushes;
        }
        pushes.push(reply);
    }
}

/// Makes a request; `{{a* v 200}}` stands for `a1 v a2 v … a200 v`.
fn ask(connection: &mut Connection, text: &str) -> Vec<u8> {
    let text =
        text.split_once("{{").map_or_else(|| text.to_owned(), |(head, rest)| format!("{head}{}", repeated(rest)));
    let words = words(&text).unwrap_or_else(|fault| panic!("{text}: {fault}"));
    connection.command(&words).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn repeated(hole: &str) -> String {
    let (unit, count) = hole.trim_end_matches('}').rsplit_once(' ').expect("a text and a count");
    let each = |number: usize| unit.replace('*', &number.to_string());
    (1..=count.parse().expect("a count")).map(each).collect::<Vec<_>>().join(" ")
}

fn digits(reply: &[u8]) -> String {
    String::from_utf8_lossy(reply.get(1..).unwrap_or_default()).trim_end().to_owned()
}

/// Returns whether the reply shows the time or the server itself.
fn says_its_own(text: &str) -> bool {
    const COMMANDS: &[&str] = &[
        "PTTL",
        "EXPIRETIME",
        "PEXPIRETIME",
        "OBJECT HELP",
        "MEMORY",
        "LOLWUT",
        "COMMAND",
        "LASTSAVE",
        "SLOWLOG",
        "DUMP",
    ];
    COMMANDS.iter().any(|name| text.starts_with(name))
}

/// Returns the first line of a reply.
fn first_line(reply: &[u8]) -> String {
    let line = reply.split(|&byte| byte == b'\r').next().unwrap_or_default();
    // An error is shortened to its code; its text is in the golden transcripts.
    let line = if line.starts_with(b"-") { line.split(|&byte| byte == b' ').next().unwrap_or_default() } else { line };
    escape(line)
}

fn list(name: &str, words: &[String]) -> String {
    if words.is_empty() { String::new() } else { format!("{name} {}", words.join(" ")) }
}
