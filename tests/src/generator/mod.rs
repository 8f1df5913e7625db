//! Random commands made from the grammar in the command table, over all types.
//!
//! Most are well-formed and fall on a few keys, so that they meet each other's work; some are broken on purpose: an argument
//! too many or too few, a word that does not belong, a number out of range. Some run inside scripts. Requests with replies
//! that differ between any two servers are left out: access times, the list of clients, deadlines that pass while the test
//! runs. Deadlines are far away and differ from each other by more than a run lasts. One thread uses a generator at a time.

pub mod edges;
pub mod leeway;
pub mod scripts;
pub mod values;

use sleeve_wire::commands::{Flags, Group, Row, all};
use sleeve_wire::grammar::{Argument, Kind, arguments};

use crate::random::Random;
use scripts::{BROKEN, FUNCTIONS, LIBRARY, SCRIPTS};
use values::{Bounds, Values};

/// A command as its words.
pub type Words = Vec<Vec<u8>>;

/// Commands with replies that depend on more than the commands before them, and commands that end a connection.
const LEFT_OUT: &[&str] = &[
    "object|freq",
    "object|idletime",
    "object|refcount",
    "object|help",
    "xgroup|help",
    "xinfo|help",
    "dump",
    "restore",
    "migrate",
    "pfdebug",
    "pfselftest",
    "wait",
    "waitaof",
];

/// Commands of other groups that the generator includes.
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
    "eval",
    "eval_ro",
    "evalsha",
    "evalsha_ro",
    "fcall",
    "fcall_ro",
    "function|load",
    "function|list",
    "script|exists",
    "script|load",
];

/// The commands that are sent in one of so many cases only, because they would delete much data or may have to wait.
const RARELY: &[(&str, usize)] = &[
    ("flushdb", 30),
    ("flushall", 30),
    ("swapdb", 10),
    ("select", 20),
    ("move", 4),
    ("function|load", 2),
    ("unwatch", 3),
    ("discard", 3),
];

/// Commands with a result that is chosen at random, or depends on the clock.
pub const RANDOM: &[&str] = &["spop", "srandmember", "hrandfield", "zrandmember", "randomkey"];

/// Options without a version of their own in the table, and the version that brought them.
const NEWER_OPTIONS: &[(&str, &str, &str)] = &[("zrank", "WITHSCORE", "7.2.0"), ("zrevrank", "WITHSCORE", "7.2.0")];

/// The parts of the command table that a generator may use.
#[derive(Debug, Clone)]
pub struct Scope {
    /// The commands.
    pub rows: Vec<&'static Row>,
    /// The version up to which options are used. Before 7.2, consumers were created by other commands.
    pub newest: (u32, u32),
    /// True if commands may state the number of entries that a group has read, which Valkey counts and Redis 8 bounds in a
    /// way of its own.
    pub entries_read: bool,
    /// True if producers may number their messages, which only Redis 8.6 understands.
    pub producers: bool,
    /// True if entries of streams may get their ids from the clock.
    pub clock: bool,
    /// True if many arguments are such as break a server that trusts them, and many commands are not well-formed.
    pub hostile: bool,
}

impl Default for Scope {
    fn default() -> Scope {
        let taken = |row: &&Row| {
            let by_group = matches!(
                row.group,
                Group::String
                    | Group::Bitmap
                    | Group::Generic
                    | Group::Transactions
                    | Group::List
                    | Group::Set
                    | Group::Hash
                    | Group::SortedSet
                    | Group::Stream
                    | Group::Geo
                    | Group::HyperLogLog
            );
            let is_container = all().iter().any(|other| other.parent == Some(row.id));
            (by_group || TAKEN_IN.contains(&row.full_name)) && !LEFT_OUT.contains(&row.full_name) && !is_container
        };
        let rows = all().iter().filter(taken).collect();
        Scope { rows, newest: (u32::MAX, 0), entries_read: true, producers: true, clock: true, hostile: false }
    }
}

impl Scope {
    /// Returns this scope without numbered messages, which only Redis 8.6 knows.
    pub fn without_producers(mut self) -> Scope {
        self.producers = false;
        self.rows.retain(|row| row.full_name != "xcfgset");
        self
    }
}

/// A generator of commands; the same seed gives the same commands.
#[derive(Debug)]
pub struct Generator {
    values: Values,
    scope: Scope,
    /// The index of the argument with the number of the keys or fields that follow.
    counted: Option<usize>,
    /// The number of keys that the command has named in a row.
    repeated: usize,
    /// The command is for a script to run.
    in_script: bool,
}

impl Generator {
    /// Returns a generator of commands that depend on `seed` and `scope` only.
    pub fn new(seed: u64, scope: Scope) -> Generator {
        Generator { values: Values::new(seed), scope, counted: None, repeated: 1, in_script: false }
    }

    /// Returns the source of the generator's choices, for choices that belong to the same run.
    pub fn random(&mut self) -> &mut Random {
        &mut self.values.random
    }

    /// Returns the next command.
    pub fn command(&mut self) -> Words {
        let row = self.row();
        self.words(row, true)
    }

    /// Returns a command for a connection that is in a transaction, which ends soon enough to be executed. See
    /// [`Generator::command`].
    pub fn command_in_transaction(&mut self) -> Words {
        if self.values.random.once_in(8) {
            return vec![b"EXEC".to_vec()];
        }
        let row = self.row();
        let is_random = RANDOM.contains(&row.full_name);
        if is_random { vec![b"PING".to_vec()] } else { self.words(row, true) }
    }

    /// Returns a command of this row.
    pub fn command_of(&mut self, row: &'static Row) -> Words {
        self.words(row, true)
    }

    /// Returns an invalid argument now and then, if the scope asks for such.
    fn edge(&mut self, times: usize) -> Option<Vec<u8>> {
        (self.scope.hostile && self.values.random.once_in(times)).then(|| edges::any(&mut self.values.random))
    }

    fn row(&mut self) -> &'static Row {
        loop {
            let row = *self.values.random.pick(&self.scope.rows);
            let rarely = RARELY.iter().find(|(name, _)| *name == row.full_name).map(|&(_, times)| times);
            let rarely = rarely.or_else(|| row.flags.contains(Flags::BLOCKING).then_some(4)).unwrap_or(1);
            if self.values.random.once_in(rarely) {
                return row;
            }
        }
    }

    /// Returns the words of a command, now and then broken.
    fn words(&mut self, row: &'static Row, may_spoil: bool) -> Words {
        self.values.begin();
        (self.counted, self.repeated) = (None, 1);
        let mut words: Words = row.full_name.split('|').map(|part| self.values.cased(part)).collect();
        match row.full_name {
            "command|getkeys" | "command|getkeysandflags" => {
                let row = *self.values.random.pick(&self.scope.rows);
                words.extend(self.inner_command(row));
            }
            "eval" | "eval_ro" | "evalsha" | "evalsha_ro" => self.script(row, &mut words),
            "fcall" | "fcall_ro" => self.function(&mut words),
            "function|load" => words.extend([b"REPLACE".to_vec(), LIBRARY.as_bytes().to_vec()]),
            "function|list" => {}
            "script|exists" => words.push(self.values.random.pick(SCRIPTS).digest.as_bytes().to_vec()),
            "script|load" => words.push(self.values.random.pick(SCRIPTS).text.as_bytes().to_vec()),
            _ => arguments(row).iter().for_each(|argument| self.argument(row, argument, &mut words)),
        }
        if self.scope.hostile {
            if may_spoil && self.values.random.once_in(8) {
                self.spoil(&mut words);
            }
        } else if row.full_name.ends_with("scan") {
            // One step covers everything, because each server decides which elements a smaller step meets.
            words.extend([b"COUNT".to_vec(), b"1000000".to_vec()]);
        } else if may_spoil && !self.values.lexical && may_spoil_row(row) && self.values.random.once_in(30) {
            self.spoil(&mut words);
        }
        words
    }

    /// Returns a command as an argument of another command, or for a script to run.
    fn inner_command(&mut self, row: &'static Row) -> Words {
        let is_scripting = matches!(row.group, Group::Scripting) || row.full_name.starts_with("command|");
        // Consumers would have to be made there too; see `Scope::newest`.
        let waits = row.flags.contains(Flags::BLOCKING) && !row.full_name.starts_with("xread");
        let is_early = row.full_name == "xgroup|create" && self.scope.newest < (7, 2);
        if is_scripting || waits || is_early || RANDOM.contains(&row.full_name) {
            return vec![b"ECHO".to_vec(), self.values.string()];
        }
        self.in_script = true;
        let words = self.words(row, false);
        self.in_script = false;
        words
    }

    fn script(&mut self, row: &Row, words: &mut Words) {
        let script = self.values.random.pick(SCRIPTS);
        let source = match row.full_name {
            "evalsha" | "evalsha_ro" => script.digest,
            _ if self.values.random.once_in(20) => self.values.random.pick(BROKEN),
            _ => script.text,
        };
        words.push(source.as_bytes().to_vec());
        let keys = script.keys + self.values.random.below(2);
        self.keys(row, keys, words);
        self.script_arguments(script.runs_command, words);
    }

    fn function(&mut self, words: &mut Words) {
        let name = *self.values.random.pick(FUNCTIONS);
        words.push(name.as_bytes().to_vec());
        let row = *self.values.random.pick(&self.scope.rows);
        let keys = usize::from(name == "count" || self.values.random.once_in(2));
        self.keys(row, keys, words);
        self.script_arguments(name != "count", words);
    }

    fn keys(&mut self, row: &Row, count: usize, words: &mut Words) {
        words.push(count.to_string().into_bytes());
        for _ in 0..count {
            words.push(self.values.key(row));
        }
    }

    fn script_arguments(&mut self, is_command: bool, words: &mut Words) {
        if is_command {
            let row = self.row();
            words.extend(self.inner_command(row));
        } else {
            words.push(self.values.member());
        }
    }

    /// Writes one argument of the grammar, or leaves it out where that is allowed.
    fn argument(&mut self, row: &'static Row, argument: &Argument, words: &mut Words) {
        if !self.is_taken(row, argument) || !suits(row, argument, words) {
            return;
        }
        for time in 0..self.times(row, argument) {
            if let Some(token) = argument.token
                && (time == 0 || argument.multiple_token || argument.kind == Kind::PureToken)
            {
                words.push(self.values.cased(token));
            }
            match argument.kind {
                Kind::PureToken => {}
                Kind::OneOf => self.one_of(row, argument, words),
                Kind::Block => argument.children.iter().for_each(|child| self.argument(row, child, words)),
                Kind::Key => words.push(self.edge(25).unwrap_or_else(|| self.values.key(row))),
                Kind::Pattern => words.push(self.edge(4).unwrap_or_else(|| self.values.pattern(row))),
                Kind::String | Kind::Integer | Kind::Double | Kind::UnixTime => self.value(row, argument, words),
            }
        }
        if argument.multiple
            && let Some(place) = self.counted.take()
            && !self.values.random.once_in(25)
        {
            words[place] = self.repeated.to_string().into_bytes();
        }
    }

    fn is_taken(&mut self, row: &Row, argument: &Argument) -> bool {
        let newer =
            NEWER_OPTIONS.iter().find(|(name, token, _)| *name == row.full_name && argument.token == Some(token));
        // Before, scripts could not ask to wait.
        let is_waiting = self.in_script && argument.token == Some("BLOCK");
        let newer = newer.map(|&(_, _, since)| since).or(is_waiting.then_some("7.2.0"));
        let since = argument.since.or(newer);
        if since.is_some_and(|since| version(since) > self.scope.newest) {
            return false;
        }
        if self.values.lexical && argument.token == Some("INCR") {
            return false;
        }
        if argument.token == Some("ENTRIESREAD") && !self.scope.entries_read
            || argument.name == "idmp" && !self.scope.producers
        {
            return false;
        }
        if argument.optional && argument.name == "sortby" {
            return self.values.bounds != Bounds::Rank;
        }
        !argument.optional || self.values.random.once_in(3)
    }

    /// Returns the number of times that an argument is written.
    fn times(&mut self, row: &Row, argument: &Argument) -> usize {
        let is_bound = argument.name == "weight" || (argument.name == "id" && row.full_name.starts_with("xread"));
        let times = match argument.multiple {
            false => return 1,
            true if is_bound => self.repeated,
            true if argument.kind != Kind::Key && self.values.random.once_in(8) => 1 + self.values.random.below(60),
            true => 1 + self.values.random.below(3),
        };
        if !is_bound {
            self.repeated = times;
        }
        times
    }

    fn one_of(&mut self, row: &'static Row, argument: &Argument, words: &mut Words) {
        let child = match (argument.name.as_ref(), self.values.bounds) {
            ("sortby", Bounds::Score) => 0,
            ("sortby", _) => 1,
            // The entry of a numbered message gets its id from the clock.
            ("id_or_auto", _)
                if words
                    .iter()
                    .any(|word| word.eq_ignore_ascii_case(b"IDMP") || word.eq_ignore_ascii_case(b"IDMPAUTO")) =>
            {
                0
            }
            ("id_or_auto", _) if !self.scope.clock => 1,
            _ => self.values.random.below(argument.children.len().max(1)),
        };
        if let Some(child) = argument.children.get(child) {
            self.argument(row, child, words);
        }
    }

    fn value(&mut self, row: &Row, argument: &Argument, words: &mut Words) {
        if let Some(edge) = self.edge(4) {
            words.push(edge);
            return;
        }
        if argument.name.starts_with("num") && argument.name != "num-matches" {
            self.counted = Some(words.len());
            words.push(self.values.edge(&["0", "-1", "x"], 1, 3));
            return;
        }
        let value = match (row.full_name, argument.name.as_ref()) {
            ("xadd", "id") => self.values.next_entry(),
            _ => self.values.value(row, argument),
        };
        words.push(value);
    }

    /// Breaks a command: drops, doubles, swaps or adds a word after the name.
    fn spoil(&mut self, words: &mut Words) {
        if is_script(&words[0]) {
            return;
        }
        let place = 1 + self.values.random.below(words.len());
        match self.values.random.below(4) {
            0 => words.truncate(place),
            1 if place < words.len() => words.insert(place, words[place].clone()),
            2 if place + 1 < words.len() && !sets_with_time(words) => words.swap(place, place + 1),
            _ => {
                let extra = self.values.one_of(&[
                    "NX",
                    "GET",
                    "EX",
                    "BAD",
                    "",
                    "0",
                    "k1",
                    "BIT",
                    "LEN",
                    "REPLACE",
                    "KEEPTTL",
                    "COUNT",
                    "WITHSCORES",
                    "STORE",
                ]);
                words.insert(place.min(words.len()), extra);
            }
        }
    }
}

/// Returns whether an option goes with the words before it. Elements of equal weight come in any order, so that a part of
/// them, or a list made of them, would be different data on each server.
fn suits(row: &Row, argument: &Argument, words: &Words) -> bool {
    let is_open = row.full_name.starts_with("sort") && words.iter().any(|word| word.eq_ignore_ascii_case(b"BY"));
    !(is_open && matches!(argument.token, Some("LIMIT" | "STORE")))
}

/// Returns whether a command may be broken. It may not if it could then wait for ever, if versions take different numbers of
/// arguments, or if makers differ in how strict they are.
fn may_spoil_row(row: &Row) -> bool {
    let is_newer = NEWER_OPTIONS.iter().any(|(name, _, _)| *name == row.full_name) || row.full_name == "xgroup|create";
    !row.flags.contains(Flags::BLOCKING)
        && !is_newer
        && !row.full_name.starts_with("sort")
        && row.group != Group::Server
        && version(row.docs.since) <= (7, 2)
}

fn version(text: &str) -> (u32, u32) {
    let mut parts = text.split('.').map(|part| part.parse().unwrap_or(0));
    (parts.next().unwrap_or(0), parts.next().unwrap_or(0))
}

/// Returns whether words after the name are a command, so that its name must stay as it is.
fn is_script(name: &[u8]) -> bool {
    let name = name.to_ascii_lowercase();
    name.starts_with(b"eval") || name.starts_with(b"fcall")
}

/// Returns whether a command has a time beside a value that would be taken for the time if the two changed places. Such a
/// value is a small number, which would pass while the test runs, on one server sooner than on the other.
fn sets_with_time(words: &Words) -> bool {
    let name = words[0].to_ascii_lowercase();
    matches!(name.as_slice(), b"setex" | b"psetex") || name.starts_with(b"hexpire") || name.starts_with(b"hpexpire")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_commands_again() {
        let (mut one, mut two) = (Generator::new(1, Scope::default()), Generator::new(1, Scope::default()));
        assert!((0..1000).all(|_| one.command() == two.command()));
    }

    #[test]
    fn every_command_comes_up() {
        let mut generator = Generator::new(2, Scope::default());
        let mut missing: Vec<&str> = generator.scope.rows.iter().map(|row| row.full_name).collect();
        for _ in 0..40_000 {
            let name = String::from_utf8_lossy(&generator.command()[0]).to_ascii_lowercase();
            missing.retain(|full| !full.starts_with(&name));
        }
        assert!(missing.is_empty(), "{missing:?}");
    }
}
