//! Reads key specifications: where a command's keys stand, and its effect on each.
//!
//! A specification says where keys begin (at an index, or after a word) and how to find the rest (a range, or a count given
//! as an argument). Reading one is arithmetic on the number of arguments; only counts and words look at their bytes. Counts
//! come from the peer: positions beyond the arguments are never returned. Pure functions; any thread.

use super::flags::KeyFlags;
use super::key_spec::{Begin, Find, KeySpec};
use super::{Command, Row};
use crate::arguments::Args;
use crate::number;

/// The run of argument indexes that a specification gives: `start`, `start + step`, ... below `end`.
#[derive(Clone, Copy, Debug, Default)]
struct Run {
    start: usize,
    end: usize,
    step: usize,
}

impl KeySpec {
    #[inline]
    fn run(&self, args: Args<'_>) -> Run {
        let begin = match self.begin {
            Begin::Index(index) => usize::from(index),
            Begin::Keyword(word, from) => {
                // A group, a consumer, a password or a key may be equal to the word, so the options of XREAD and MIGRATE are
                // read in order.
                let begin = match word {
                    "STREAMS" => streams(args),
                    "KEYS" => migrated(args).filter(|_| args.get(3).is_some_and(<[u8]>::is_empty)),
                    _ => keyword(args, word, from),
                };
                let Some(begin) = begin else { return Run::default() };
                begin
            }
            // The specification finds no keys, but the key that SORT overwrites can be found by its options.
            Begin::Unknown if self.flags.contains(KeyFlags::OW) => match sort_destination(args) {
                Some(index) => return Run { start: index, end: index + 1, step: 1 },
                None => return Run::default(),
            },
            Begin::Unknown => return Run::default(),
        };
        match self.find {
            Find::Range { last: 0, .. } => Run { start: begin, end: (begin + 1).min(args.len()), step: 1 },
            Find::Range { last, step, limit } => {
                let end = range_end(begin, args.len(), last, limit);
                Run { start: begin, end, step: usize::from(step) }
            }
            Find::Count { count, first, step } => {
                let start = begin + usize::from(first);
                let keys = args.get(begin + usize::from(count)).and_then(number::parse_i64).unwrap_or(0);
                let keys = usize::try_from(keys).unwrap_or(0);
                let end = start.saturating_add(keys.saturating_mul(usize::from(step)));
                // If the count is larger than the number of arguments, the request is wrong, and touches no key.
                if end > args.len() { Run::default() } else { Run { start, end, step: usize::from(step) } }
            }
            Find::Unknown => Run::default(),
        }
    }
}

/// Returns the first index behind a range of keys.
fn range_end(begin: usize, len: usize, last: i8, limit: u8) -> usize {
    let from_end = usize::from(last.unsigned_abs()) - usize::from(last < 0);
    let end = if last >= 0 {
        begin + from_end + 1
    } else if limit <= 1 {
        len.saturating_sub(from_end)
    } else {
        (begin + len.saturating_sub(begin) / usize::from(limit)).saturating_sub(from_end)
    };
    end.min(len)
}

/// Returns the index after the word STREAMS of XREAD and XREADGROUP.
fn streams(args: Args<'_>) -> Option<usize> {
    let mut at = 1;
    loop {
        let option = args.get(at)?;
        at += match option.len() {
            7 if option.eq_ignore_ascii_case(b"streams") => return Some(at + 1),
            5 if option.eq_ignore_ascii_case(b"group") => 3,
            5 if option.eq_ignore_ascii_case(b"noack") => 1,
            5 if option.eq_ignore_ascii_case(b"count") || option.eq_ignore_ascii_case(b"block") => 2,
            5 if option.eq_ignore_ascii_case(b"claim") => 2,
            _ => return None,
        };
    }
}

/// Returns the index after the word KEYS of MIGRATE.
fn migrated(args: Args<'_>) -> Option<usize> {
    let mut at = 6;
    loop {
        let option = args.get(at)?;
        at += match option.len() {
            4 if option.eq_ignore_ascii_case(b"keys") => return Some(at + 1),
            4 if option.eq_ignore_ascii_case(b"auth") => 2,
            5 if option.eq_ignore_ascii_case(b"auth2") => 3,
            _ => 1,
        };
    }
}

/// Returns the index after `word`, searched as Redis does: forwards from a positive index, backwards from a negative one.
fn keyword(args: Args<'_>, word: &str, from: i8) -> Option<usize> {
    let is_word = |&index: &usize| args.get(index).is_some_and(|arg| arg.eq_ignore_ascii_case(word.as_bytes()));
    let offset = usize::from(from.unsigned_abs());
    let found = if from >= 0 {
        (offset..args.len()).find(is_word)
    } else {
        (1..=args.len().checked_sub(offset)?).rev().find(is_word)
    };
    found.map(|index| index + 1)
}

impl Row {
    /// Returns the indexes of the arguments that are keys, in the order of the specifications. Arguments that only route a
    /// request, such as a channel of SPUBLISH, are left out. `args` begins with the command's name (a subcommand's container
    /// first).
    #[inline]
    pub fn key_positions<'a>(&self, args: Args<'a>) -> KeyPositions<'a> {
        let specs = match self.id {
            // If keys follow the word KEYS, the argument at the place of the single key is no key.
            Command::Migrate if migrated(args).is_some() => self.keys.specs.get(1..).unwrap_or_default(),
            _ => self.keys.specs,
        };
        KeyPositions { run: Run::default(), specs: specs.iter(), args }
    }

    /// Returns the indexes of the arguments that choose the node of a cluster: keys, and arguments that only route a request.
    pub fn routing_positions<'a>(&self, args: Args<'a>) -> impl Iterator<Item = usize> + use<'a> {
        let named = self.keys.specs.iter().filter(|spec| spec.flags.contains(KeyFlags::NOT_KEY));
        let named = named.flat_map(move |spec| {
            let Run { start, end, step } = spec.run(args);
            (start..end).step_by(step.max(1))
        });
        self.key_positions(args).chain(named)
    }

    /// Returns the same positions as [`key_positions`](Row::key_positions), with the effect of this request on each key.
    pub fn key_uses<'a>(&self, args: Args<'a>) -> KeyUses<'a> {
        let varying = varying_flags(self.id, args);
        KeyUses { positions: self.key_positions(args), flags: KeyFlags::EMPTY, varying }
    }

    /// Returns first key, last key and step, as COMMAND INFO's old form gives them; zeros if there are no keys. A negative
    /// last key counts from the end. The range is derived as in Redis (7.0): the first range, extended by those that continue
    /// it.
    pub fn legacy_range(&self) -> (i64, i64, i64) {
        let mut range: Option<(i64, i64, i64)> = None;
        for spec in self.keys.specs {
            let (Begin::Index(index), Find::Range { last, step, limit: 0 | 1 }) = (spec.begin, spec.find) else {
                continue;
            };
            let (index, last, step) = (i64::from(index), i64::from(last), i64::from(step));
            let last = if last >= 0 { index + last } else { last };
            match range {
                None => range = Some((index, last, step)),
                Some((first, end, step)) if end >= 0 && end + 1 == index => range = Some((first, last, step)),
                Some(_) => {}
            }
        }
        range.unwrap_or((0, 0, 0))
    }
}

/// Returns the index of the key that SORT stores to. If STORE is given several times, the last one counts.
fn sort_destination(args: Args<'_>) -> Option<usize> {
    let (mut index, mut destination) = (2, None);
    while let Some(word) = args.get(index) {
        let is = |option: &str| word.eq_ignore_ascii_case(option.as_bytes());
        if is("store") && index + 1 < args.len() {
            destination = Some(index + 1);
        }
        index += match () {
            () if is("limit") => 3,
            () if is("get") || is("by") || is("store") => 2,
            () => 1,
        };
    }
    destination
}

/// Returns the effect of SET, DELEX and BITFIELD on their key, which depends on their options.
fn varying_flags(command: Command, args: Args<'_>) -> Option<KeyFlags> {
    let rw = KeyFlags::RW.or(KeyFlags::ACCESS).or(KeyFlags::UPDATE);
    match command {
        Command::Set => Some(if args.from(3).iter().any(|arg| arg.eq_ignore_ascii_case(b"get")) {
            rw
        } else if args.from(3).iter().any(compares) {
            KeyFlags::RW.or(KeyFlags::UPDATE)
        } else {
            KeyFlags::OW.or(KeyFlags::UPDATE)
        }),
        Command::DelEx => Some(if args.get(2).is_some_and(compares) {
            KeyFlags::RW.or(KeyFlags::DELETE)
        } else {
            KeyFlags::RM.or(KeyFlags::DELETE)
        }),
        Command::BitField => Some(if only_reads_bits(args) { KeyFlags::RO.or(KeyFlags::ACCESS) } else { rw }),
        _ => None,
    }
}

/// Returns whether this word makes a command depend on the string at its key.
fn compares(word: &[u8]) -> bool {
    ["IFEQ", "IFNE", "IFDEQ", "IFDNE"].iter().any(|own| word.eq_ignore_ascii_case(own.as_bytes()))
}

/// Returns whether every operation of a BITFIELD is a whole GET or OVERFLOW. Arguments that cannot be read as such count as a
/// write.
fn only_reads_bits(args: Args<'_>) -> bool {
    let mut rest = args.from(2);
    while let Some(operation) = rest.get(0) {
        let operands = match operation {
            _ if operation.eq_ignore_ascii_case(b"get") => 2,
            _ if operation.eq_ignore_ascii_case(b"overflow") => 1,
            _ => return false,
        };
        if rest.len() <= operands {
            return false;
        }
        rest = rest.from(1 + operands);
    }
    true
}

/// Iterator over the indexes of a request's keys.
#[derive(Clone)]
pub struct KeyPositions<'a> {
    run: Run,
    specs: std::slice::Iter<'static, KeySpec>,
    args: Args<'a>,
}

impl KeyPositions<'_> {
    #[inline]
    fn in_run(&mut self) -> Option<usize> {
        let index = self.run.start;
        if index >= self.run.end {
            return None;
        }
        self.run.start = index + self.run.step.max(1);
        Some(index)
    }
}

impl Iterator for KeyPositions<'_> {
    type Item = usize;

    #[inline]
    fn next(&mut self) -> Option<usize> {
        loop {
            if let Some(index) = self.in_run() {
                return Some(index);
            }
            let spec = self.specs.next()?;
            if !spec.flags.contains(KeyFlags::NOT_KEY) {
                self.run = spec.run(self.args);
            }
        }
    }
}

/// Iterator over the indexes of a request's keys and the effect of the request on each.
#[derive(Clone)]
pub struct KeyUses<'a> {
    positions: KeyPositions<'a>,
    flags: KeyFlags,
    varying: Option<KeyFlags>,
}

impl Iterator for KeyUses<'_> {
    type Item = (usize, KeyFlags);

    fn next(&mut self) -> Option<(usize, KeyFlags)> {
        loop {
            if let Some(index) = self.positions.in_run() {
                return Some((index, self.flags));
            }
            let spec = self.positions.specs.next()?;
            if spec.flags.contains(KeyFlags::NOT_KEY) {
                continue;
            }
            let varies = spec.flags.contains(KeyFlags::VARIABLE_FLAGS);
            // INCOMPLETE says that the specification misses keys; it is no effect on a key.
            self.flags = self.varying.filter(|_| varies).unwrap_or(spec.flags).without(KeyFlags::INCOMPLETE);
            self.positions.run = spec.run(self.positions.args);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::OwnedArgs;

    fn run(begin: Begin, find: Find, line: &str) -> Vec<usize> {
        let owned = OwnedArgs::collect(line.split(' ').map(str::as_bytes));
        let spec = KeySpec { flags: KeyFlags::RO, begin, find, notes: "" };
        let Run { start, end, step } = spec.run(owned.args());
        (start..end).step_by(step.max(1)).collect()
    }

    #[test]
    fn counts_beyond_the_arguments_count_nothing() {
        let find = Find::Count { count: 0, first: 1, step: 1 };
        assert_eq!(run(Begin::Index(2), find, "eval s 2 a b c"), [3, 4]);
        for none in [
            "eval s 9223372036854775807 a b",
            "eval s 3 a b",
            "eval s 0 a",
            "eval s -1 a",
            "eval s x a",
            "eval s",
            "eval",
        ] {
            assert!(run(Begin::Index(2), find, none).is_empty(), "{none}");
        }
        assert_eq!(run(Begin::Index(2), Find::Count { count: 0, first: 2, step: 2 }, "x s 2 y a b c d"), [4, 6]);
    }

    #[test]
    fn words_are_sought_from_either_end() {
        let half = Find::Range { last: -1, step: 1, limit: 2 };
        assert_eq!(run(Begin::Keyword("STREAMS", 1), half, "xread count 2 streams a b 0 0"), [4, 5]);
        let all = Find::Range { last: -1, step: 1, limit: 0 };
        assert_eq!(run(Begin::Keyword("KEYS", -2), all, "migrate h p  0 1 keys a b"), [7, 8]);
        assert_eq!(run(Begin::Keyword("KEYS", -2), all, "migrate h p  0 1 auth keys keys a keys"), [9, 10]);
        assert!(run(Begin::Keyword("KEYS", -2), all, "migrate h p x 0 1 keys a b").is_empty());
        assert!(run(Begin::Keyword("KEYS", -2), all, "migrate h").is_empty());
        assert!(run(Begin::Keyword("KEYS", 1), all, "migrate h p").is_empty());
        assert!(run(Begin::Unknown, all, "a b").is_empty() && run(Begin::Index(1), Find::Unknown, "a b").is_empty());
    }

    #[test]
    fn what_is_named_like_a_key_says_the_way() {
        let positions = |command: Command, line: &str| {
            let owned = OwnedArgs::collect(line.split(' ').map(str::as_bytes));
            let routing: Vec<usize> = command.row().routing_positions(owned.args()).collect();
            (routing, command.row().key_positions(owned.args()).count())
        };
        assert_eq!(positions(Command::SPublish, "spublish c m"), (vec![1], 0));
        assert_eq!(positions(Command::SSubscribe, "ssubscribe c d"), (vec![1, 2], 0));
        assert_eq!(positions(Command::MSet, "mset a 1 b 2"), (vec![1, 3], 2));
    }

    #[test]
    fn what_compares_depends_on_its_key() {
        let use_of = |line: &str| {
            let owned = OwnedArgs::collect(line.split(' ').map(str::as_bytes));
            let row = crate::commands::find(owned.args().get(0).unwrap_or_default()).expect("it is in the table");
            row.key_uses(owned.args()).map(|(_, flags)| flags.names().collect::<Vec<_>>().join(" ")).collect::<Vec<_>>()
        };
        assert_eq!(use_of("set k v"), ["OW update"]);
        assert_eq!(use_of("set k v ifdne 0"), ["RW update"]);
        assert_eq!(use_of("set k v ifeq a get"), ["RW access update"]);
        assert_eq!(use_of("delex k"), ["RM delete"]);
        assert_eq!(use_of("delex k IFEQ a"), ["RW delete"]);
        assert_eq!(use_of("msetex 2 a 1 b 2 nx"), ["OW update", "OW update"]);
    }

    #[test]
    fn ranges_end_at_the_arguments() {
        assert_eq!(run(Begin::Index(1), Find::Range { last: -2, step: 1, limit: 0 }, "blpop a b 0"), [1, 2]);
        assert_eq!(run(Begin::Index(1), Find::Range { last: 5, step: 2, limit: 0 }, "x a b c"), [1, 3]);
        assert!(run(Begin::Index(4), Find::Range { last: 0, step: 1, limit: 0 }, "x a").is_empty());
    }
}
