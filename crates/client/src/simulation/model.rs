//! The answers that callers got, and the check whether they may be true.
//!
//! Each write has a token of its own, by which a server counts how often it was executed. Each reply names the request that
//! it answers. So the model notices a reply to another call, a write that was executed twice or reported wrongly, and an
//! answer that its caller got too late.

use std::collections::{HashMap, HashSet};

use super::server::{Servers, Value};
use super::staleness::CachedRead;
use crate::cache::stats::CacheStats;
use crate::error::{Effect, Error, ErrorKind};

/// The tolerated delay of a timeout error after its deadline: this percentage of the timeout, and the delay of the coarse
/// clock.
const LATE_SHARE: u64 = 15;
const LATE_US: u64 = 25_000;

/// The time that is enough for any command if nothing fails.
const QUIET_LIMIT_US: u64 = 300_000;

/// The answer that the caller of a write got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Told {
    /// The write is in flight.
    Nothing,
    Done,
    Failed(Effect),
    /// Its caller did not wait for the answer.
    Dropped,
}

struct Write {
    token: String,
    told: Told,
    /// True if the write may be executed more than once.
    overwrites: bool,
}

/// The counts of the events in a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    pub(super) answered: u64,
    pub(super) dropped: u64,
    pub(super) timeouts: u64,
    pub(super) unknown: u64,
    pub(super) unsent: u64,
    pub(super) connections: u64,
    /// The number of MOVED redirects, and below it that of ASK redirects.
    pub(super) moved: u64,
    pub(super) asked: u64,
    /// The number of reads by the application's runtimes.
    pub(super) runtime_reads: u64,
    /// The counts of the near cache.
    pub(super) cache: CacheStats,
    /// A hash of all steps, which is the same for the same seed.
    pub(super) trace: u64,
}

impl Tally {
    pub(super) fn add(&mut self, other: &Self) {
        self.answered += other.answered;
        self.dropped += other.dropped;
        self.timeouts += other.timeouts;
        self.unknown += other.unknown;
        self.unsent += other.unsent;
        self.connections += other.connections;
        self.moved += other.moved;
        self.runtime_reads += other.runtime_reads;
        self.asked += other.asked;
        self.cache.add(&other.cache);
        self.trace ^= other.trace;
    }
}

/// The answers that callers got.
#[derive(Default)]
pub(super) struct Model {
    writes: Vec<Write>,
    /// The writes of each transaction, which are executed together or not at all.
    together: Vec<Vec<String>>,
    /// The observed values of texts that only grow.
    seen: Vec<(u32, String, String)>,
    /// The tokens that were appended to these texts, with the lengths of the texts after that.
    appended: Vec<(u32, String, String, usize)>,
    /// The list elements that callers got.
    got: HashSet<String>,
    pub(super) tally: Tally,
    /// True if nothing ever fails in this world. Then a call with enough time may not fail.
    is_quiet: bool,
    /// True if a caller's commands on a key are executed in the order in which the caller has sent them.
    keeps_order: bool,
    /// The values that callers read after their own writes, the answers of which they had not awaited.
    behind: Vec<(Vec<usize>, String)>,
    /// The writes to keys that are read through the cache, on the shared connection: database, key and number of each.
    cached_writes: Vec<(u32, String, usize)>,
    /// The writes with replies that have arrived on the shared connection, for a client of a single server.
    heard: Vec<usize>,
    reads: Vec<(Least, CachedRead)>,
    wrong: Option<String>,
}

/// The writes that a read through the cache must not miss: the numbers of those of its key, and how many replies to writes
/// had arrived before it.
#[derive(Clone, Debug)]
pub(super) struct Least {
    behind: Vec<usize>,
    heard: usize,
}

impl Model {
    /// Creates a model without any answer yet.
    pub(super) fn new(is_quiet: bool, keeps_order: bool) -> Self {
        Self { is_quiet, keeps_order, ..Self::default() }
    }

    /// Notes a violation; only the first is kept.
    pub(super) fn wrong(&mut self, what: String) {
        self.wrong.get_or_insert(what);
    }

    pub(super) fn what_is_wrong(&self) -> Option<&String> {
        self.wrong.as_ref()
    }

    /// Notes a write that is sent, and returns its number.
    pub(super) fn sends(&mut self, token: String, overwrites: bool) -> usize {
        self.writes.push(Write { token, told: Told::Nothing, overwrites });
        self.writes.len() - 1
    }

    /// Notes the answer that the caller of a write got.
    pub(super) fn told(&mut self, write: usize, told: Told) {
        self.writes[write].told = told;
    }

    pub(super) fn sends_together(&mut self, tokens: Vec<String>) {
        self.together.push(tokens);
    }

    pub(super) fn saw(&mut self, database: u32, key: &str, text: &str) {
        self.seen.push((database, key.to_owned(), text.to_owned()));
    }

    /// Notes the value of a text that was read after these writes were sent.
    pub(super) fn saw_behind(&mut self, writes: &[usize], text: &str) {
        if self.keeps_order && !writes.is_empty() {
            self.behind.push((writes.to_vec(), text.to_owned()));
        }
    }

    /// Notes a write to a key of the cache, on the shared connection.
    pub(super) fn writes_cached(&mut self, database: u32, key: &str, write: usize) {
        self.cached_writes.push((database, key.to_owned(), write));
    }

    /// Notes that the reply to a write has arrived on the shared connection to the only server.
    pub(super) fn heard(&mut self, write: usize) {
        self.heard.push(write);
    }

    /// Returns the writes that a read through the cache must not miss if it begins now.
    pub(super) fn least(&self, database: u32, key: &str) -> Least {
        let is_before = |write: &usize| self.keeps_order || self.writes[*write].told == Told::Done;
        let of_key = self.cached_writes.iter().filter(|(other, name, _)| *other == database && name == key);
        Least { behind: of_key.map(|(_, _, write)| *write).filter(is_before).collect(), heard: self.heard.len() }
    }

    /// Notes the answer of a read through the cache.
    pub(super) fn read_cached(&mut self, least: Least, read: CachedRead) {
        let is_prompt = read.is_prompt || self.is_quiet;
        self.reads.push((least, CachedRead { is_prompt, ..read }));
    }

    pub(super) fn appended(&mut self, database: u32, key: &str, token: &str, length: usize) {
        self.appended.push((database, key.to_owned(), token.to_owned(), length));
    }

    pub(super) fn got(&mut self, element: String) {
        if !self.got.insert(element.clone()) {
            self.wrong(format!("two callers got {element}"));
        }
    }

    /// Notes that a call has ended after `took_us`, with an answer or an error. Its timeout was `limit_us`, in addition to
    /// the time `wait_us` for which it might wait on the server.
    pub(super) fn ended(&mut self, what: &str, error: Option<&Error>, took_us: u64, (limit_us, wait_us): (u64, u64)) {
        if took_us > limit_us + limit_us * LATE_SHARE / 100 + LATE_US {
            self.wrong(format!("{what} ended after {took_us} us, and had {limit_us} us: {error:?}"));
        }
        let Some(error) = error else {
            self.tally.answered += 1;
            return;
        };
        if self.is_quiet && limit_us - wait_us >= QUIET_LIMIT_US && error.kind() != ErrorKind::Aborted {
            self.wrong(format!("{what} failed though nothing does: {error:?}"));
        }
        match error.kind() {
            ErrorKind::Timeout => self.tally.timeouts += 1,
            ErrorKind::Disconnected | ErrorKind::Connect | ErrorKind::Aborted => {}
            ErrorKind::Server if error.effect() == Effect::Refused => {}
            _ => self.wrong(format!("{what} failed: {error:?}")),
        }
        match error.effect() {
            Effect::Unknown => self.tally.unknown += 1,
            _ => self.tally.unsent += 1,
        }
    }

    /// Compares the answers with the writes that the servers have executed.
    pub(super) fn compare(&mut self, servers: &Servers) {
        for Write { token, told, overwrites } in &self.writes {
            let executed = servers.executed(token.as_bytes());
            let is_true = match told {
                Told::Done if *overwrites => executed >= 1,
                Told::Done => executed == 1,
                Told::Failed(Effect::Unknown) | Told::Dropped => executed <= 1 || *overwrites,
                Told::Failed(_) => executed == 0,
                Told::Nothing => false,
            };
            if !is_true {
                self.wrong.get_or_insert(format!("{token} was executed {executed} times, and it was told: {told:?}"));
            }
        }
        let executed = |token: &String| servers.executed(token.as_bytes());
        for tokens in &self.together {
            if tokens.windows(2).any(|pair| executed(&pair[0]) != executed(&pair[1])) {
                self.wrong.get_or_insert(format!("only a part of {tokens:?} was executed"));
            }
        }
        for element in &self.got {
            if servers.popped(element.as_bytes()) != 1 {
                self.wrong.get_or_insert(format!("{element} was got, and not taken out once"));
            }
        }
        for (writes, text) in &self.behind {
            let done = writes.iter().map(|write| &self.writes[*write]).filter(|write| write.told == Told::Done);
            if let Some(write) = done.into_iter().find(|write| !text.contains(&write.token)) {
                self.wrong.get_or_insert(format!("{text} was read behind {} that was sent before", write.token));
            }
        }
        self.compare_texts(servers);
        for (least, mut read) in std::mem::take(&mut self.reads) {
            let token = |write: &usize| self.writes[*write].token.clone();
            let is_done = |write: &&usize| self.writes[**write].told == Told::Done;
            read.behind = least.behind.iter().filter(is_done).map(token).collect();
            read.heard = self.heard[..least.heard].iter().map(token).collect();
            if let Some(fault) = servers.history.fault(&read) {
                self.wrong(fault);
            }
        }
    }

    fn compare_texts(&mut self, servers: &Servers) {
        let mut finals: HashMap<(u32, String), String> = HashMap::new();
        let mut text_of = |database: u32, key: &String| {
            let text = finals.entry((database, key.clone())).or_insert_with(|| {
                match servers.value(database, key.as_bytes()) {
                    Some(Value::Text(text)) => String::from_utf8_lossy(text).into_owned(),
                    _ => String::new(),
                }
            });
            text.clone()
        };
        let mut wrong = None;
        for (database, key, seen) in &self.seen {
            if !text_of(*database, key).starts_with(seen) {
                wrong.get_or_insert(format!("{seen} was seen of {key} in {database}, which never was that"));
            }
        }
        for (database, key, token, length) in &self.appended {
            let text = text_of(*database, key);
            if text.get(length.saturating_sub(token.len())..*length) != Some(token.as_str()) {
                wrong.get_or_insert(format!("{token} was said to end at {length} of {key} in {database}: {text}"));
            }
        }
        self.wrong = self.wrong.take().or(wrong);
    }
}
