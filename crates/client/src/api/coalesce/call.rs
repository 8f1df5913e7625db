//! A request as the gatherer sees it: the way in which it can be merged with others, and the keys that it touches.
//!
//! The row of the command table says whether calls of a command can be merged; the arguments decide whether this call can.
//! Pure functions; any thread.

use std::hash::{BuildHasher, RandomState};

use sleeve_wire::arguments::{Args, Span};
use sleeve_wire::commands::{Command, Merge, Shape};
use sleeve_wire::number::parse_i64;

use crate::resp::request::EncodedRequest;

/// The length above which a request is not merged: a longer one gains nothing, and is not copied once more.
const MERGED_LENGTH_MAX: usize = 8 * 1024;

/// The keys that a request touches, each as a hash of the key and its database. Two keys may have the same hash; that costs
/// an unneeded order, and nothing else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Touch {
    /// The request touches these keys.
    Keys { first: u64, others: Vec<u64> },
    /// The request may touch any key.
    Everything,
}

impl Touch {
    fn of(mut keys: impl Iterator<Item = u64>) -> Self {
        keys.next().map_or(Self::Everything, |first| Self::Keys { first, others: keys.collect() })
    }

    /// Returns the keys, if they are known.
    pub(super) fn keys(&self) -> impl Iterator<Item = u64> {
        let (first, others) = match self {
            Self::Keys { first, others } => (Some(*first), others.as_slice()),
            Self::Everything => (None, Default::default()),
        };
        first.into_iter().chain(others.iter().copied())
    }
}

/// A call that is to be gathered.
pub(super) struct Call<'a> {
    pub(super) request: EncodedRequest<'a>,
    pub(super) database: u32,
    pub(super) touch: Touch,
    /// The call in parts, if it can be merged.
    pub(super) merged: Option<Mergeable<'a>>,
}

/// The parts of a call that can be merged.
pub(super) struct Mergeable<'a> {
    pub(super) rule: &'static Merge,
    /// The encoded key that merged calls have in common; empty if they have none.
    pub(super) key: &'a [u8],
    /// The other arguments of the call, encoded.
    pub(super) said: &'a [u8],
    /// The number of these arguments.
    pub(super) arguments: u32,
    /// The amount that the call adds to a number.
    pub(super) amount: i64,
}

impl<'a> Call<'a> {
    /// Splits a call that can be merged into its parts; returns none for any other call.
    #[inline]
    pub(super) fn mergeable(request: EncodedRequest<'a>, database: u32, hasher: &RandomState) -> Option<Self> {
        let row = request.name.row()?;
        let rule = row.sharing.merge.as_ref()?;
        if request.bytes.len() > MERGED_LENGTH_MAX {
            return None;
        }
        let (mut words, count) = Words::new(request.bytes)?;
        if !row.takes(count) {
            return None;
        }
        words.next()?;
        let number = |key: &[u8]| number_of(hasher, database, key);
        let named = words.at;
        let key = words.next()?;
        let first = number(key);
        let touch = match rule.shape {
            Shape::Keys if count > 2 => {
                let others = words.clone().map(number).collect();
                Touch::Keys { first, others }
            }
            _ => Touch::Keys { first, others: Vec::new() },
        };
        let behind_key = words.at;
        let amount = match (rule.shape, count) {
            (Shape::Keys | Shape::Members, _) | (Shape::KeyValue, 3) => 0,
            (Shape::FieldsAndValues, count) if count % 2 == 0 => 0,
            (Shape::ScoresAndMembers, count) if count % 2 == 0 && words.clone().step_by(2).all(is_number) => 0,
            (Shape::Step(by), 2) => by,
            (Shape::Amount(times), 3) => parse_i64(words.next()?)?.checked_mul(times)?,
            _ => return None,
        };
        let start = if rule.shape.shares_key() { behind_key } else { named };
        let merged = Mergeable {
            rule,
            key: request.bytes.get(named..start)?,
            said: request.bytes.get(start..)?,
            arguments: u32::try_from(count - 1).ok()? - u32::from(rule.shape.shares_key()),
            amount,
        };
        Some(Self { request, database, touch, merged: Some(merged) })
    }

    /// Creates a call that leaves alone.
    pub(super) fn alone(request: EncodedRequest<'a>, database: u32, hasher: &RandomState) -> Self {
        let touch = touch(request, database, hasher).unwrap_or(Touch::Everything);
        Self { request, database, touch, merged: None }
    }

    /// Returns the same call, which leaves alone if the server refuses the merged command.
    pub(super) fn unless(self, is_refused: impl FnOnce(Command) -> bool) -> Self {
        match &self.merged {
            Some(merged) if is_refused(merged.rule.into) => Self { merged: None, ..self },
            _ => self,
        }
    }
}

/// Returns whether this word begins as a number does. (`inf` does not count, because the option INCR begins like it.)
fn is_number(word: &[u8]) -> bool {
    matches!(word.first(), Some(b'0'..=b'9' | b'-' | b'+' | b'.'))
}

fn number_of(hasher: &RandomState, database: u32, key: &[u8]) -> u64 {
    hasher.hash_one((database, key))
}

/// Returns the keys that a request touches, if these are exactly the keys that it names.
fn touch(request: EncodedRequest<'_>, database: u32, hasher: &RandomState) -> Option<Touch> {
    let row = request.name.row()?;
    if !row.names_its_keys() {
        return None;
    }
    let (mut words, count) = Words::new(request.bytes)?;
    let mut spans = Vec::with_capacity(count);
    while let Some(word) = words.next() {
        let end = words.at - LINE_END.len();
        spans.push(Span { start: u32::try_from(end - word.len()).ok()?, len: u32::try_from(word.len()).ok()? });
    }
    let args = Args::new(request.bytes, &spans);
    let keys = row.key_positions(args).filter_map(|index| args.get(index));
    Some(Touch::of(keys.map(|key| number_of(hasher, database, key))))
}

const LINE_END: &[u8] = b"\r\n";

/// An iterator over the words of a request.
#[derive(Clone)]
struct Words<'a> {
    bytes: &'a [u8],
    /// The offset of the next word in the encoded request.
    at: usize,
}

impl<'a> Words<'a> {
    /// Creates the iterator; also returns the number of words.
    fn new(bytes: &'a [u8]) -> Option<(Self, usize)> {
        let mut words = Self { bytes, at: 0 };
        let count = words.line(b'*')?;
        Some((words, count))
    }

    /// Returns the number in the next line, which must begin with this byte.
    fn line(&mut self, first: u8) -> Option<usize> {
        let rest = self.bytes.get(self.at..)?;
        if rest.first() != Some(&first) {
            return None;
        }
        let (mut number, mut length) = (0usize, 1);
        while let Some(digit @ b'0'..=b'9') = rest.get(length) {
            number = number.checked_mul(10)?.checked_add(usize::from(digit - b'0'))?;
            length += 1;
        }
        self.at += length + LINE_END.len();
        Some(number)
    }
}

impl<'a> Iterator for Words<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        let length = self.line(b'$')?;
        let word = self.bytes.get(self.at..self.at.checked_add(length)?)?;
        self.at += length + LINE_END.len();
        Some(word)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resp::request::Request;
    use crate::resp::request::name::Name;

    /// Returns the parts of a command line that can be merged, and the amount that it adds; none for a command that leaves
    /// alone.
    fn merged(line: &str) -> Option<(Command, String, String, u32, i64)> {
        let words: Vec<&str> = line.split(' ').collect();
        Request::with(
            |request| {
                words.iter().for_each(|word| _ = request.word(word));
                request.call(Name::of(&words));
            },
            |request| {
                let call = Call::mergeable(request, 0, &RandomState::new())?.merged?;
                let shown = |bytes: &[u8]| String::from_utf8_lossy(bytes).replace("\r\n", " ").trim_end().to_owned();
                Some((call.rule.into, shown(call.key), shown(call.said), call.arguments, call.amount))
            },
        )
        .expect("it can be sent")
    }

    #[test]
    fn calls_that_can_be_merged_are_taken_apart() {
        for (line, into, key, said, arguments, amount) in [
            ("SET k v", Command::MSet, "", "$1 k $1 v", 2, 0),
            ("GET k", Command::MGet, "", "$1 k", 1, 0),
            ("DEL a bb c", Command::Del, "", "$1 a $2 bb $1 c", 3, 0),
            ("HGET h f", Command::HMGet, "$1 h", "$1 f", 1, 0),
            ("SISMEMBER s m", Command::SMIsMember, "$1 s", "$1 m", 1, 0),
            ("ZSCORE z m", Command::ZMScore, "$1 z", "$1 m", 1, 0),
            ("LPUSH l a b", Command::LPush, "$1 l", "$1 a $1 b", 2, 0),
            ("RPUSH l a", Command::RPush, "$1 l", "$1 a", 1, 0),
            ("INCR n", Command::IncrBy, "$1 n", "", 0, 1),
            ("DECR n", Command::IncrBy, "$1 n", "", 0, -1),
            ("INCRBY n 5", Command::IncrBy, "$1 n", "$1 5", 1, 5),
            ("DECRBY n -5", Command::IncrBy, "$1 n", "$2 -5", 1, 5),
            ("HSET h a 1 b 2", Command::HSet, "$1 h", "$1 a $1 1 $1 b $1 2", 4, 0),
            ("ZADD z 1 a -2.5 b", Command::ZAdd, "$1 z", "$1 1 $1 a $4 -2.5 $1 b", 4, 0),
            ("PFADD p", Command::PfAdd, "$1 p", "", 0, 0),
        ] {
            assert_eq!(merged(line), Some((into, key.to_owned(), said.to_owned(), arguments, amount)), "{line}");
        }
    }

    #[test]
    fn calls_with_other_arguments_go_alone() {
        for line in [
            "SET k v NX",
            "SET k v EX 10",
            "SET k",
            "GET",
            "GET k k",
            "HGET h",
            "HSET h a 1 b",
            "ZADD z NX 1 a",
            "ZADD z NX CH 1 a",
            "ZADD z 1 a INCR b",
            "ZADD z inf a",
            "INCRBY n five",
            "INCRBY n 05",
            "INCRBY n +5",
            "INCRBY n 9223372036854775808",
            "DECRBY n -9223372036854775808",
            "LPUSH l",
            "EXPIRE k 5",
            "PING",
            "MSET k v",
        ] {
            assert_eq!(merged(line), None, "{line}");
        }
        assert!(merged(&format!("SET k {}", "x".repeat(MERGED_LENGTH_MAX))).is_none());
    }

    fn touched(line: &str) -> usize {
        let words: Vec<&str> = line.split(' ').collect();
        let name = Name::of(&words);
        Request::with(
            |request| {
                words.iter().for_each(|word| _ = request.word(word));
                request.call(name);
            },
            |request| Call::alone(request, 0, &RandomState::new()).touch.keys().count(),
        )
        .expect("it can be sent")
    }

    #[test]
    fn a_call_touches_the_keys_it_names_or_unknown_ones() {
        for (line, keys) in [("EXPIRE k 5", 1), ("RENAME a b", 2), ("MSET a 1 b 2 c 3", 3), ("OBJECT ENCODING k", 1)] {
            assert_eq!(touched(line), keys, "{line}");
        }
        for line in [
            "PING",
            "FLUSHALL",
            "EVAL x 1 k",
            "SORT k",
            "MOVE k 1",
            "COPY a b DB 1",
            "KEYS *",
            "PUBLISH c m",
            "NEVER.HEARD k",
        ] {
            assert_eq!(touched(line), 0, "{line}");
        }
    }
}
