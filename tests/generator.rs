//! Random commands made from the grammar in the command table.
//!
//! Most are well-formed and fall on a few keys, so that they meet each other's work; some are broken on purpose: an
//! argument too many or too few, a word that does not belong, a number out of range. What no two servers answer alike is
//! left out: random keys, access times, the list of clients, deadlines that pass while the test runs. Deadlines are far
//! away and differ from each other by more than a run lasts. One thread uses a generator at a time.

use sleeve_wire::commands::{Group, Row, all};
use sleeve_wire::grammar::{Argument, Kind, arguments};

use crate::random::Random;

/// A command as its words.
pub type Words = Vec<Vec<u8>>;

/// Commands whose replies depend on more than the commands before them, and those that end a connection.
const LEFT_OUT: &[&str] = &["randomkey", "object|freq", "object|idletime", "object|refcount", "object|help"];

/// Commands of other groups that are taken in.
const TAKEN_IN: &[&str] = &[
    "ping",
    "echo",
    "select",
    "dbsize",
    "flushdb",
    "flushall",
    "swapdb",
    "command|getkeys",
    "command|getkeysandflags",
];

/// How often a command that would wash away everything is really sent.
const RARELY: &[&str] = &["flushdb", "flushall", "swapdb", "select", "move"];

/// Replies to which of these commands may differ, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leeway {
    /// Not at all.
    None,
    /// The order is open.
    Order,
    /// A time in seconds that was taken at two moments.
    Seconds,
    /// A time in milliseconds that was taken at two moments.
    Milliseconds,
}

/// What a reply to this command may differ in.
pub fn leeway(words: &[Vec<u8>]) -> Leeway {
    let name = words.first().map(|name| name.to_ascii_lowercase()).unwrap_or_default();
    match name.as_slice() {
        b"keys" | b"scan" => Leeway::Order,
        b"ttl" | b"expiretime" => Leeway::Seconds,
        b"pttl" | b"pexpiretime" => Leeway::Milliseconds,
        _ => Leeway::None,
    }
}

/// Makes commands, each from the same seed the same.
#[derive(Debug)]
pub struct Generator {
    random: Random,
    rows: Vec<&'static Row>,
}

impl Generator {
    /// A generator whose commands depend on `seed` only.
    pub fn new(seed: u64) -> Generator {
        let taken = |row: &&Row| {
            let by_group = matches!(row.group, Group::String | Group::Bitmap | Group::Generic | Group::Transactions);
            let is_container = all().iter().any(|other| other.parent == Some(row.id));
            (by_group || TAKEN_IN.contains(&row.full_name)) && !LEFT_OUT.contains(&row.full_name) && !is_container
        };
        Generator { random: Random::new(seed), rows: all().iter().filter(taken).collect() }
    }

    /// The source of the generator's choices, for choices that belong to the same run.
    pub fn random(&mut self) -> &mut Random {
        &mut self.random
    }

    /// The next command.
    pub fn command(&mut self) -> Words {
        let mut row = *self.random.pick(&self.rows);
        while RARELY.contains(&row.full_name) && !self.random.once_in(6) {
            row = *self.random.pick(&self.rows);
        }
        let mut words: Words = row.full_name.split('|').map(|part| self.cased(part)).collect();
        match row.full_name {
            "scan" => words.push(b"0".to_vec()),
            "command|getkeys" | "command|getkeysandflags" => words.extend(self.inner_command()),
            _ => {}
        }
        for argument in arguments(row).iter().skip(usize::from(row.full_name == "scan")) {
            if !row.full_name.starts_with("command|") {
                self.argument(row, argument, &mut words);
            }
        }
        if row.full_name == "scan" {
            // One step over everything: which keys a smaller step meets is the server's own business.
            words.extend([b"COUNT".to_vec(), b"1000000".to_vec()]);
        }
        if self.random.once_in(25) {
            self.spoil(&mut words);
        }
        words
    }

    /// As [`Generator::command`] for a connection whose last command was queued: transactions end soon enough to be whole.
    pub fn command_in_transaction(&mut self) -> Words {
        if self.random.once_in(8) { vec![b"EXEC".to_vec()] } else { self.command() }
    }

    /// A command for a command to look at.
    fn inner_command(&mut self) -> Words {
        let row = *self.random.pick(&self.rows);
        let mut words: Words = row.full_name.split('|').map(|part| part.as_bytes().to_vec()).collect();
        for argument in arguments(row) {
            self.argument(row, argument, &mut words);
        }
        words
    }

    /// Writes one argument of the grammar, or leaves it out where that is allowed.
    fn argument(&mut self, row: &Row, argument: &Argument, words: &mut Words) {
        if argument.optional && !self.random.once_in(3) {
            return;
        }
        let times = if argument.multiple { 1 + self.random.below(3) } else { 1 };
        for time in 0..times {
            if let Some(token) = argument.token
                && (time == 0 || argument.multiple_token || argument.kind == Kind::PureToken)
            {
                let token = self.cased(token);
                words.push(token);
            }
            match argument.kind {
                Kind::PureToken => {}
                Kind::OneOf => {
                    let child = self.random.below(argument.children.len().max(1));
                    if let Some(child) = argument.children.get(child) {
                        self.argument(row, child, words);
                    }
                }
                Kind::Block => argument.children.iter().for_each(|child| self.argument(row, child, words)),
                Kind::Key => words.push(self.key()),
                Kind::Pattern => {
                    words.push(self.one_of(&["*", "k*", "k?", "k[0-4]", "k[^0-4]", "\\k1", "", "[", "k1"]))
                }
                Kind::String | Kind::Integer | Kind::Double | Kind::UnixTime => {
                    let value = self.value(row, argument);
                    words.push(value);
                }
            }
        }
    }

    fn key(&mut self) -> Vec<u8> {
        format!("k{}", self.random.below(8)).into_bytes()
    }

    /// A value for an argument that is neither a key nor a word of the grammar.
    fn value(&mut self, row: &Row, argument: &Argument) -> Vec<u8> {
        if argument.kind != Kind::String && self.random.once_in(30) {
            return self.one_of(&[
                "",
                "x",
                "1.5",
                " 1",
                "1 ",
                "+1",
                "01",
                "9223372036854775808",
                "-9223372036854775809",
            ]);
        }
        match (row.full_name, argument.name.as_ref()) {
            (_, "seconds") => self.duration(100_000, 1_000_000_000),
            (_, "milliseconds") => self.duration(100_000_000, 1_000_000_000_000),
            (_, "unix-time-seconds") => self.moment(row, 1),
            (_, "unix-time-milliseconds") => self.moment(row, 1000),
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
            (_, "db" | "destination-db" | "index" | "index1" | "index2") => self.edge(&["16", "-1"], 0, 2),
            (_, "start" | "end" | "len") => self.edge(&["9223372036854775807", "-9223372036854775808"], -20, 40),
            (_, "type") => self.one_of(&["string", "STRING", "list", "nosuch"]),
            ("incrbyfloat", _) => {
                self.one_of(&["1.5", "-1.5", "0.1", "3", "1e2", "-0", "0.000001", "1e17", "nan", "inf", "5.0", "10.25"])
            }
            // Redis saturates the least integer upwards (docs/differences.md).
            ("bitfield", "value") => self.edge(&["9223372036854775807", "-4611686018427387904"], -300, 300),
            (_, "value" | "increment" | "decrement") if argument.kind == Kind::Integer => {
                self.edge(&["9223372036854775807", "-9223372036854775808", "9223372036854775806"], -300, 300)
            }
            _ if argument.kind == Kind::Integer => self.edge(&["0", "-1"], 1, 1000),
            _ => self.string(),
        }
    }

    /// A value for a string to hold.
    fn string(&mut self) -> Vec<u8> {
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

    /// A time from now that does not pass while the test runs, or one that is refused or has passed.
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

    /// A point in time that is far away. SET may keep a key that has expired already for a while, which DBSIZE shows, so
    /// it gets none that has passed.
    fn moment(&mut self, row: &Row, scale: i64) -> Vec<u8> {
        if self.random.once_in(6) {
            let low: &[&str] = if row.full_name == "set" { &["0", "-1"] } else { &["0", "-1", "1", "1000000"] };
            return self.one_of(low);
        }
        (self.random.between(4_000_000_000, 33_177_117_420) * scale).to_string().into_bytes()
    }

    /// Mostly a number between two, sometimes one of the edges.
    fn edge(&mut self, edges: &[&str], low: i64, high: i64) -> Vec<u8> {
        if self.random.once_in(12) {
            return self.one_of(edges);
        }
        self.random.between(low, high).to_string().into_bytes()
    }

    fn one_of(&mut self, choices: &[&str]) -> Vec<u8> {
        self.random.pick(choices).as_bytes().to_vec()
    }

    /// A word of the grammar in some case of letters.
    fn cased(&mut self, word: &str) -> Vec<u8> {
        if self.random.once_in(4) { word.to_ascii_lowercase() } else { word.to_ascii_uppercase() }.into_bytes()
    }

    /// Breaks a command: drops, doubles, swaps or adds a word after the name.
    fn spoil(&mut self, words: &mut Words) {
        // Which commands there are besides these is the server's own business, so names stay where COMMAND looks at them.
        let names = if words[0].eq_ignore_ascii_case(b"command") { 3 } else { 1 };
        let place = names.min(words.len()) + self.random.below((words.len() + 1).saturating_sub(names).max(1));
        match self.random.below(4) {
            0 => words.truncate(place),
            1 if place < words.len() => words.insert(place, words[place].clone()),
            2 if place + 1 < words.len() && !sets_with_time(words) => words.swap(place, place + 1),
            _ => {
                let extra = self.one_of(&["NX", "GET", "EX", "BAD", "", "0", "k1", "BIT", "LEN", "REPLACE", "KEEPTTL"]);
                words.insert(place.min(words.len()), extra);
            }
        }
    }
}

/// Whether a command's value would be taken for a time if the two changed places: a small number, which would pass while
/// the test runs, on one server sooner than on the other.
fn sets_with_time(words: &Words) -> bool {
    words[0].eq_ignore_ascii_case(b"setex") || words[0].eq_ignore_ascii_case(b"psetex")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_commands_again() {
        let (mut one, mut two) = (Generator::new(1), Generator::new(1));
        assert!((0..1000).all(|_| one.command() == two.command()));
    }

    #[test]
    fn every_command_comes_up() {
        let mut generator = Generator::new(2);
        let mut missing: Vec<&str> = generator.rows.iter().map(|row| row.full_name).collect();
        for _ in 0..20_000 {
            let name = String::from_utf8_lossy(&generator.command()[0]).to_ascii_lowercase();
            missing.retain(|full| !full.starts_with(&name));
        }
        assert!(missing.is_empty(), "{missing:?}");
    }
}
