//! Random keys and values for the arguments of commands.
//!
//! Keys come in pools, one for each type, so that a command mostly meets a key of its own type: strings `k`, lists `l`,
//! sets `s`, hashes `h`, sorted sets `z`, streams `x`, places `g`, HyperLogLogs `p`. Values are mostly small and fall on
//! each other; some are at the edges where encodings change or numbers end. One thread uses it at a time.

use sleeve_wire::commands::{Group, Row};
use sleeve_wire::grammar::{Argument, Kind};

use crate::random::Random;

/// The pools of keys.
pub const POOLS: &[char] = &['k', 'l', 's', 'h', 'z', 'x', 'g', 'p'];

/// The pool of sorted sets with members of one score.
const LEXICAL_POOL: char = 'q';

/// The number of keys in a pool.
pub const KEYS_A_POOL: usize = 3;

/// The meaning of the bounds of a ZRANGE.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bounds {
    /// Ranks.
    Rank,
    /// Scores.
    Score,
    /// Names of members.
    Name,
}

/// The source of arguments.
#[derive(Debug)]
pub struct Values {
    /// The source of every choice.
    pub random: Random,
    /// The meaning of the bounds in the command that is being made.
    pub bounds: Bounds,
    /// The number of members from which the command chooses.
    members: i64,
    /// The number of the key that was used last: keys with an even number mostly hold integers.
    key: usize,
    /// True if the key that was used last holds members that all have the same score.
    pub lexical: bool,
    /// The last entry of a stream.
    entry: i64,
}

impl Values {
    /// Returns a source of values that depend on `seed` only.
    pub fn new(seed: u64) -> Values {
        Values { random: Random::new(seed), bounds: Bounds::Rank, members: 8, key: 0, lexical: false, entry: 0 }
    }

    /// Prepares for the next command.
    pub fn begin(&mut self) {
        self.lexical = false;
        self.members = *self.random.pick(&[8, 8, 8, 40, 40, 400]);
        self.bounds = *self.random.pick(&[Bounds::Rank, Bounds::Score, Bounds::Name]);
    }

    /// Returns a key, mostly one of the type that the command is for.
    pub fn key(&mut self, row: &Row) -> Vec<u8> {
        let pool = match row.group {
            Group::List => 'l',
            Group::Set => 's',
            Group::Hash => 'h',
            Group::SortedSet => 'z',
            Group::Stream => 'x',
            Group::Geo => 'g',
            Group::HyperLogLog => 'p',
            Group::String | Group::Bitmap => 'k',
            _ => *self.random.pick(POOLS),
        };
        self.lexical = row.group == Group::SortedSet && self.is_lexical(row);
        let pool = match (pool, row.full_name) {
            _ if self.lexical => LEXICAL_POOL,
            _ if self.random.once_in(20) => *self.random.pick(POOLS),
            // Sorted sets are also made of sets, and geo keys are sorted sets.
            ('z', _) if self.random.once_in(12) => *self.random.pick(&['s', 'g']),
            (_, "sort" | "sort_ro") => *self.random.pick(&['l', 's', 'z']),
            _ => pool,
        };
        self.key = self.random.below(KEYS_A_POOL);
        format!("{pool}{}", self.key).into_bytes()
    }

    /// Returns whether a command is about sorted sets with members of one score: if scores differ, the result of a
    /// lexicographical range is unspecified.
    fn is_lexical(&mut self, row: &Row) -> bool {
        match row.full_name {
            "zrange" | "zrangestore" | "zadd" | "zrem" => self.bounds == Bounds::Name,
            name => name.contains("lex"),
        }
    }

    /// Returns a pattern of names.
    pub fn pattern(&mut self, row: &Row) -> Vec<u8> {
        if row.full_name.starts_with("sort") {
            return self.one_of(&["k*", "h*->m1", "h*->1", "#", "nosort", "*", "h0->*"]);
        }
        self.one_of(&["*", "k*", "?1", "[k-m]*", "[^k]?", "\\k1", "", "[", "m*", "1*", "h1"])
    }

    /// Returns a value for an argument that is neither a key nor a word of the grammar.
    pub fn value(&mut self, row: &Row, argument: &Argument) -> Vec<u8> {
        if self.lexical && argument.name == "score" {
            return b"0".to_vec();
        }
        if argument.kind != Kind::String && !is_fixed(argument) && self.random.once_in(40) {
            return self.one_of(&["", "x", "1.5", "1 ", "+1", "01", "9223372036854775808", "-9223372036854775809"]);
        }
        if let Some(value) = self.time(row, argument) {
            return value;
        }
        match row.group {
            Group::Stream => self.stream(row, argument),
            Group::SortedSet => self.sorted_set(row, argument),
            Group::Geo => self.geo(argument),
            Group::String | Group::Bitmap => self.string_argument(row, argument),
            _ => self.plain(row, argument),
        }
    }

    /// Returns points in time and durations. They are far away and differ by more than a run lasts.
    fn time(&mut self, row: &Row, argument: &Argument) -> Option<Vec<u8>> {
        Some(match argument.name.as_ref() {
            // Servers differ in the treatment of field deadlines beyond the range of the clock.
            "seconds" if row.group == Group::Hash => self.edge(&["0"], 100_000, 1_000_000_000),
            "milliseconds" if row.group == Group::Hash => self.edge(&["0"], 100_000_000, 1_000_000_000_000),
            "seconds" => self.duration(100_000, 1_000_000_000),
            "milliseconds" if row.group == Group::Stream => b"1".to_vec(),
            "milliseconds" => self.duration(100_000_000, 1_000_000_000_000),
            "unix-time-seconds" => self.moment(row, 1),
            "unix-time-milliseconds" if row.group == Group::Stream => self.one_of(&["1", "1000000", "2000000000000"]),
            "unix-time-milliseconds" => self.moment(row, 1000),
            "timeout" => self.one_of(&["0.001", "0.001", "0.001", "0.002", "-1", "x"]),
            _ => return None,
        })
    }

    fn string_argument(&mut self, row: &Row, argument: &Argument) -> Vec<u8> {
        match (row.full_name, argument.name.as_ref()) {
            ("bitfield" | "bitfield_ro", "encoding") => self.one_of(&[
                "u1", "u2", "u4", "u7", "u8", "u16", "u31", "u63", "i1", "i5", "i8", "i32", "i63", "i64", "u64", "U8",
            ]),
            ("bitfield" | "bitfield_ro", "offset") => {
                let mark = if self.random.once_in(3) { "#" } else { "" };
                let offset = self.random.between(-1, 60);
                format!("{mark}{offset}").into_bytes()
            }
            ("setrange", "offset") => self.edge(&["-1", "536870912", "536870911111"], 0, 60),
            ("setbit" | "getbit", "offset") => self.edge(&["-1", "4294967296"], 0, 300),
            ("setbit", "value") | (_, "bit") => self.edge(&["2", "-1"], 0, 1),
            (_, "start" | "end" | "len") => self.edge(&["9223372036854775807", "-9223372036854775808"], -20, 40),
            ("incrbyfloat", _) => self.float(),
            // Redis saturates the least integer upwards (docs/differences.md).
            ("bitfield", "value") => self.edge(&["9223372036854775807", "-4611686018427387904"], -300, 300),
            _ => self.plain(row, argument),
        }
    }

    /// Returns a value that is not peculiar to one type.
    fn plain(&mut self, row: &Row, argument: &Argument) -> Vec<u8> {
        match (row.full_name, argument.name.as_ref()) {
            (_, "db" | "destination-db" | "index" | "index1" | "index2") if row.group != Group::List => {
                self.edge(&["16", "-1"], 0, 2)
            }
            (_, "type") => self.one_of(&["string", "STRING", "list", "set", "hash", "zset", "stream"]),
            (_, "cursor") => self.one_of(&["0", "0", "0", "0", "0", "0", "x"]),
            (_, "index") => self.edge(&["100", "-100"], -12, 12),
            (_, "offset") => self.edge(&["0", "1000"], 0, 5),
            (_, "start" | "stop" | "end") => self.edge(&["9223372036854775807", "-9223372036854775808"], -12, 12),
            (_, "count" | "len" | "limit" | "num-matches" | "rank" | "maxlen") => {
                self.edge(&["0", "-1", "9223372036854775807", "1000"], -3, 12)
            }
            ("hincrbyfloat" | "incrbyfloat", "increment") => self.float(),
            (_, "value" | "increment" | "decrement") if argument.kind == Kind::Integer => {
                self.edge(&["9223372036854775807", "-9223372036854775808", "9223372036854775806"], -300, 300)
            }
            (_, "field" | "member" | "element" | "pivot") => self.member(),
            _ if argument.kind == Kind::Integer => self.edge(&["0", "-1"], 1, 1000),
            _ => self.string(),
        }
    }

    fn sorted_set(&mut self, row: &Row, argument: &Argument) -> Vec<u8> {
        let is_range = matches!(row.full_name, "zrange" | "zrangestore");
        let is_lex = row.full_name.contains("lex") || (is_range && self.bounds == Bounds::Name);
        match argument.name.as_ref() {
            "min" | "max" | "start" | "stop" if is_lex => self.name_bound(),
            "min" | "max" if !is_range || self.bounds == Bounds::Score => self.score_bound(),
            "start" | "stop" if is_range && self.bounds == Bounds::Score => self.score_bound(),
            "min" | "max" => self.edge(&["9223372036854775807", "-9223372036854775808"], -12, 12),
            "score" | "increment" => self.score(),
            "weight" => self.one_of(&["1", "2", "-1", "0", "0.5", "inf", "1e3", "x"]),
            _ => self.plain(row, argument),
        }
    }

    fn name_bound(&mut self) -> Vec<u8> {
        if self.random.once_in(3) {
            return self.one_of(&["-", "+", "-", "+", "[", "(", "x"]);
        }
        let mut bound = self.one_of(&["[", "("]);
        bound.extend(self.member());
        bound
    }

    fn score_bound(&mut self) -> Vec<u8> {
        let mut bound = if self.random.once_in(3) { b"(".to_vec() } else { Vec::new() };
        let score = if self.random.once_in(4) { self.one_of(&["-inf", "+inf", "inf", "x"]) } else { self.score() };
        bound.extend(score);
        bound
    }

    fn score(&mut self) -> Vec<u8> {
        match self.random.below(12) {
            0..=5 => self.random.between(-2, 4).to_string().into_bytes(),
            6..=7 => self.random.between(-1000, 1000).to_string().into_bytes(),
            8 => self.one_of(&["inf", "-inf", "nan", "1e308", "-1e308", "1e-300"]),
            9 => self.one_of(&["9007199254740993", "1152921504606846976", "123456789012345678", "3.0", "1e15", "1e21"]),
            // The negative zero is left out: a packed score loses its sign, and since 7.2 large sets are not packed at first.
            _ => self.one_of(&["1.5", "-1.5", "0.1", "3", "1e2", "0.000001", "1e17", "5.0", "10.25", "0.3"]),
        }
    }

    fn float(&mut self) -> Vec<u8> {
        self.one_of(&["1.5", "-1.5", "0.1", "3", "1e2", "-0", "0.000001", "1e17", "nan", "inf", "5.0", "10.25", "0.3"])
    }

    fn geo(&mut self, argument: &Argument) -> Vec<u8> {
        let hundredths = |random: &mut Random, low: i64, high: i64| {
            let value = random.between(low, high);
            format!("{}{}.{:02}", if value < 0 { "-" } else { "" }, value.abs() / 100, value.abs() % 100).into_bytes()
        };
        match argument.name.as_ref() {
            "longitude" if self.random.once_in(20) => self.one_of(&["180", "-180", "181", "x", "179.99"]),
            "latitude" if self.random.once_in(20) => self.one_of(&["85.05", "-85.05", "86", "x", "90"]),
            "longitude" => hundredths(&mut self.random, 1_000, 1_800),
            "latitude" => hundredths(&mut self.random, 3_500, 4_000),
            "radius" | "width" | "height" if self.random.once_in(15) => self.one_of(&["0", "-1", "x", "1e10"]),
            "radius" | "width" | "height" => hundredths(&mut self.random, 10, 100_000),
            "count" => self.edge(&["0", "-1"], 1, 6),
            _ => self.member(),
        }
    }

    fn stream(&mut self, row: &Row, argument: &Argument) -> Vec<u8> {
        match argument.name.as_ref() {
            "id" if row.full_name == "xreadgroup" && self.random.once_in(2) => b">".to_vec(),
            "id" if row.full_name.starts_with("xg") && self.random.once_in(2) => b"0".to_vec(),
            "pid" => self.one_of(&["p", "p", "q"]),
            "iid" => self.edge(&[""], 1, 9),
            // A known id stays known for longer than a run lasts.
            "duration" => self.edge(&["0", "86401"], 80_000, 86_400),
            "maxsize" => self.edge(&["0", "10001"], 1, 6),
            "group" | "groupname" => self.one_of(&["g1", "g1", "g2", "nosuch"]),
            "consumer" | "consumername" => self.one_of(&["alice", "bob", "carol"]),
            "min-idle-time" => self.one_of(&["0", "0", "0", "1000000000", "-1"]),
            "ms" => self.one_of(&["0", "1000000"]),
            "threshold" => self.threshold(),
            "count" => self.edge(&["0", "-1", "1000"], 1, 12),
            // No two versions reply alike if a group has read more entries than there ever were.
            "entries_read" => self.one_of(&["0", "0", "1", "-1", "-2", "x"]),
            "entries_added" => self.edge(&["-1", "-2", "9223372036854775807"], 0, 100),
            "start" | "end" if self.random.once_in(3) => self.one_of(&["-", "+", "-", "+", "(", "(1-1"]),
            "id" | "last-id" | "start" | "end" | "max_deleted_entry_id" => self.entry(),
            "field" => self.member(),
            _ if argument.kind == Kind::Integer => self.edge(&["0", "-1"], 1, 100),
            _ => self.string(),
        }
    }

    fn threshold(&mut self) -> Vec<u8> {
        if self.random.once_in(2) { self.edge(&["0", "-1"], 0, 50) } else { self.entry() }
    }

    /// Returns the name of an entry for XADD, which must be greater than all before.
    pub fn next_entry(&mut self) -> Vec<u8> {
        self.entry += self.random.between(0, 3);
        match self.random.below(12) {
            0 => self.one_of(&["0-0", "0", "1-1", "x", "18446744073709551615-18446744073709551615", "1-x"]),
            1..=3 => format!("{}-*", self.entry).into_bytes(),
            4 => self.entry.to_string().into_bytes(),
            _ => format!("{}-{}", self.entry, self.random.below(50)).into_bytes(),
        }
    }

    /// Returns the name of an entry that may exist.
    fn entry(&mut self) -> Vec<u8> {
        let back = *self.random.pick(&[5, 30, 300]);
        let near = (self.entry - self.random.between(0, back)).max(0);
        match self.random.below(8) {
            0 => self.one_of(&["0", "0-0", "$", ">", "x", "0-1", "-"]),
            1..=2 => near.to_string().into_bytes(),
            _ => format!("{near}-{}", self.random.below(4)).into_bytes(),
        }
    }

    /// Returns a member of a collection, a field of a hash, an element of a list.
    pub fn member(&mut self) -> Vec<u8> {
        let number = self.random.below(usize::try_from(self.members).unwrap_or(8));
        match self.random.below(16) {
            // SORT compares up to the first zero byte in Redis, so elements have none.
            0 => self.string().into_iter().filter(|&byte| byte != 0).collect(),
            1 if self.members > 8 => {
                let length = *self.random.pick(&[60, 63, 64, 65, 70, 100]);
                format!("{number:0length$}").into_bytes()
            }
            _ if self.key == 0 || self.random.once_in(6) => number.to_string().into_bytes(),
            _ => format!("m{number}").into_bytes(),
        }
    }

    /// Returns a value for a string to hold.
    pub fn string(&mut self) -> Vec<u8> {
        match self.random.below(10) {
            0 => Vec::new(),
            1..=3 => self.random.between(-100, 100).to_string().into_bytes(),
            4 => {
                self.one_of(&["9223372036854775807", "-9223372036854775808", "9223372036854775808", "012", "-0", " 1"])
            }
            5 => self.one_of(&["1.5", "3.0", "1e3", "0.1", "nan", "inf", "-1.25", "1.50"]),
            6 => {
                let length = *self.random.pick(&[1, 7, 8, 20, 43, 44, 45, 60, 63, 64, 65, 100, 300]);
                (0..length).map(|_| b'a' + self.random.bits().to_le_bytes()[0] % 4).collect()
            }
            7 => {
                let length = 1 + self.random.below(12);
                (0..length).map(|_| self.random.bits().to_le_bytes()[0]).collect()
            }
            8 => self.one_of(&["\u{0}", "\u{0}\u{0}\u{0}", "\r\n", "a b"]),
            _ => self.one_of(&["hello", "world", "foobar", "ohmytext", "mynewtext"]),
        }
    }

    /// Returns a time from now that does not pass while the test runs, or one that is refused or has passed.
    fn duration(&mut self, low: i64, high: i64) -> Vec<u8> {
        if self.random.once_in(6) {
            return self.one_of(&[
                "0",
                "-1",
                "-100",
                "9223372036854775807",
                "9223372036854775",
                "-9223372036854775808",
            ]);
        }
        self.random.between(low, high).to_string().into_bytes()
    }

    /// Returns a point in time that is far away. It has not passed if it is for SET: a server may keep a key that has expired
    /// already for a while, which DBSIZE shows.
    fn moment(&mut self, row: &Row, scale: i64) -> Vec<u8> {
        if self.random.once_in(6) {
            let low: &[&str] = if row.full_name == "set" { &["0", "-1"] } else { &["0", "-1", "1", "1000000"] };
            return self.one_of(low);
        }
        (self.random.between(4_000_000_000, 33_177_117_420) * scale).to_string().into_bytes()
    }

    /// Returns mostly a number between two, sometimes one of the edges.
    pub fn edge(&mut self, edges: &[&str], low: i64, high: i64) -> Vec<u8> {
        if self.random.once_in(16) {
            return self.one_of(edges);
        }
        self.random.between(low, high).to_string().into_bytes()
    }

    /// Returns one of some words.
    pub fn one_of(&mut self, choices: &[&str]) -> Vec<u8> {
        self.random.pick(choices).as_bytes().to_vec()
    }

    /// Returns a word of the grammar in some case of letters.
    pub fn cased(&mut self, word: &str) -> Vec<u8> {
        if self.random.once_in(4) { word.to_ascii_lowercase() } else { word.to_ascii_uppercase() }.into_bytes()
    }
}

/// Returns whether an argument takes only certain values: another cursor returns another part, another timeout takes its
/// time.
fn is_fixed(argument: &Argument) -> bool {
    matches!(argument.name.as_ref(), "timeout" | "cursor")
}
