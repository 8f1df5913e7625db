//! The slots that a request is for.
//!
//! `sleeve_wire::slot` gives the slot of a key, and the command table says where a request has its keys. Pure functions; any
//! thread.

use sleeve_wire::commands::Row;
use sleeve_wire::slot;

use crate::error::Error;
use crate::resp::request::words::{Places, Words};
use crate::resp::request::{EncodedRequest, Request, ToArgs};

/// The slots of a request's keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Named {
    /// The request has no keys, or their positions are unknown.
    None,
    /// All keys lie in this slot.
    One(u16),
    /// The keys lie in several slots, among them these two.
    Several(u16, u16),
}

/// Returns the slots of a request's keys, by its row in the command table.
pub(super) fn named(request: EncodedRequest<'_>) -> Named {
    let Some(row) = request.name.row() else { return Named::None };
    match row.keys.lone {
        Some(index) => {
            let key = Words::of(request.bytes).nth(usize::from(index));
            let key = key.and_then(|(start, end)| request.bytes.get(start..end));
            key.map_or(Named::None, |key| Named::One(slot::of_key(key)))
        }
        None if row.keys.is_empty() => Named::None,
        None => of_keys(row, request.bytes),
    }
}

fn of_keys(row: &Row, request: &[u8]) -> Named {
    let places = Places::of(request);
    let args = places.args(request);
    let mut first = None;
    for slot in row.routing_positions(args).filter_map(|index| args.get(index)).map(slot::of_key) {
        match first {
            None => first = Some(slot),
            Some(first) if first != slot => return Named::Several(first, slot),
            Some(_) => {}
        }
    }
    first.map_or(Named::None, Named::One)
}

/// Returns the slot in which all these keys lie; that of the empty key if there are none.
pub(crate) fn slot_of_all(what: &str, keys: impl ToArgs) -> Result<u16, Error> {
    let slots: Vec<u16> = Request::words_of(keys)?.iter().map(|key| slot::of_key(key)).collect();
    let first = slots.first().copied().unwrap_or_default();
    match slots.iter().find(|&&slot| slot != first) {
        Some(&other) => Err(crossing(what, first, other)),
        None => Ok(first),
    }
}

/// Returns the error for keys in two slots that have to be used together.
pub(super) fn crossing(what: &str, one: u16, other: u16) -> Error {
    Error::usage(format!(
        "CROSSSLOT {what} has keys in several slots of the cluster ({one} and {other}), so no node can run it, and nothing was \
         sent: give the keys a common part in braces, such as {{user:7}}:name and {{user:7}}:age, or send them apart"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resp::request::name::Name;

    #[test]
    fn a_request_names_the_slots_of_its_keys() {
        let named = |line: &str| {
            let words: Vec<&str> = line.split(' ').collect();
            let bytes = Request::bytes_of(|request| words.iter().for_each(|word| _ = request.word(word))).unwrap();
            named(EncodedRequest { bytes: &bytes, name: Name::of(&words) })
        };
        assert_eq!(named("GET foo"), Named::One(12182));
        assert_eq!(named("GET"), Named::None);
        assert_eq!(named("PING"), Named::None);
        assert_eq!(named("MGET bar {bar}x"), Named::One(5061));
        assert_eq!(named("MSET bar 1 foo 2"), Named::Several(5061, 12182));
        assert_eq!(named("EVAL x 0 bar"), Named::None);
        assert_eq!(named("EVAL x 1 foo bar"), Named::One(12182));
        assert_eq!(named("XREAD COUNT 2 STREAMS foo bar 0 0"), Named::Several(12182, 5061));
        assert_eq!(named("SPUBLISH foo message"), Named::One(12182));
        assert_eq!(named("PUBLISH foo message"), Named::None);
        assert_eq!(named("BLPOP foo 0"), Named::One(12182));
        assert_eq!(named("OBJECT ENCODING foo"), Named::One(12182));
        assert_eq!(named("MY.OWN foo"), Named::None);
    }
}
