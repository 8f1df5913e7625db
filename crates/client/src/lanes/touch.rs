//! The keys that a call touches, which decide the calls that it has to follow.
//!
//! A key is a number here, a hash of the key and its database. Two keys may have the same number; that costs an unneeded
//! order, and nothing else. Scripts and functions touch the keys that they declare, as in a cluster; a script that declares
//! none may touch any key. Pure functions; any thread.

use std::hash::{BuildHasher, RandomState};

use sleeve_wire::commands::Flags;

use crate::resp::request::EncodedRequest;
use crate::resp::request::words::Places;

/// The keys that a call touches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Touch {
    /// The call touches no key: it is about the server, or the connection.
    Nothing,
    /// The call touches these keys, as numbers.
    Keys(Vec<u64>),
    /// The call may touch any key.
    Everything,
}

/// Returns the keys that a request touches in this database.
pub(super) fn touch(request: EncodedRequest<'_>, database: u32, hasher: &RandomState) -> Touch {
    let Some(row) = request.name.row() else { return Touch::Everything };
    if !row.names_its_keys() && !row.runs_script() {
        let is_about_keys = row.flags.contains(Flags::WRITE) || row.flags.contains(Flags::READONLY);
        return if is_about_keys { Touch::Everything } else { Touch::Nothing };
    }
    let places = Places::of(request.bytes);
    let args = places.args(request.bytes);
    let named = row.key_positions(args).filter_map(|index| args.get(index));
    let keys: Vec<u64> = named.map(|key| hasher.hash_one((database, key))).collect();
    match keys.is_empty() {
        true if row.runs_script() => Touch::Everything,
        true => Touch::Nothing,
        false => Touch::Keys(keys),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resp::request::Request;
    use crate::resp::request::name::Name;

    fn touched(line: &str, hasher: &RandomState, database: u32) -> Touch {
        let words: Vec<&str> = line.split(' ').collect();
        let write = |request: &mut Request| {
            words.iter().for_each(|word| _ = request.word(word));
            request.call(Name::of(&words));
        };
        Request::with(write, |request| touch(request, database, hasher)).expect("it can be sent")
    }

    #[test]
    fn a_call_touches_the_keys_that_it_names_all_or_none() {
        let hasher = RandomState::new();
        for (line, keys) in [
            ("GET a", Some(1)),
            ("MSET a 1 b 2", Some(2)),
            ("OBJECT ENCODING a", Some(1)),
            ("EVAL x 2 a b c", Some(2)),
            ("FCALL f 1 a", Some(1)),
            ("EVAL x 0 a", None),
            ("FLUSHALL", None),
            ("KEYS *", None),
            ("SCAN 0", None),
            ("DBSIZE", None),
            ("SORT a", None),
            ("COPY a b DB 1", None),
            ("NEVER.HEARD a", None),
            ("PING", Some(0)),
            ("ECHO a", Some(0)),
            ("PUBLISH c m", Some(0)),
            ("INFO keyspace", Some(0)),
            ("CONFIG GET x", Some(0)),
            ("SCRIPT LOAD x", Some(0)),
        ] {
            let expected = match touched(line, &hasher, 0) {
                Touch::Nothing => Some(0),
                Touch::Keys(keys) => Some(keys.len()),
                Touch::Everything => None,
            };
            assert_eq!(expected, keys, "{line}");
        }
        assert_eq!(touched("GET a", &hasher, 1), touched("DEL a", &hasher, 1));
        assert_ne!(touched("GET a", &hasher, 1), touched("GET a", &hasher, 2));
    }
}
