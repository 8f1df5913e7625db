//! The slots of a cluster: the slot of a key, and the slot that a request is for.
//!
//! A cluster has 16,384 slots. The slot of a key is its CRC16 (XMODEM: polynomial 0x1021, from 0) modulo their number. If the
//! key has a part in `{...}` that is not empty, only that part counts, so that several keys can be given the same slot. The
//! command table says where a request has its keys. Pure functions; any thread.

use sleeve_wire::commands::Row;

use crate::error::Error;
use crate::resp::request::words::{Places, Words};
use crate::resp::request::{EncodedRequest, Request, ToArgs};

/// The number of slots.
pub(crate) const SLOTS: u16 = 16_384;

/// The CRC16 of each byte.
static TABLE: [u16; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = (byte as u16) << 8;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 0x8000 == 0 { crc << 1 } else { crc << 1 ^ 0x1021 };
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
};

fn crc16(bytes: &[u8]) -> u16 {
    let step = |crc: u16, &byte: &u8| {
        let index = usize::from(crc.to_be_bytes()[0] ^ byte);
        crc << 8 ^ TABLE.get(index).copied().unwrap_or_default()
    };
    bytes.iter().fold(0, step)
}

/// Returns the part of a key that decides its slot.
fn tag(key: &[u8]) -> &[u8] {
    let inner = || {
        let open = key.iter().position(|&byte| byte == b'{')?;
        let rest = key.get(open + 1..)?;
        let close = rest.iter().position(|&byte| byte == b'}')?;
        rest.get(..close).filter(|inner| !inner.is_empty())
    };
    inner().unwrap_or(key)
}

/// Returns the slot of a key.
pub(crate) fn slot_of(key: &[u8]) -> u16 {
    crc16(tag(key)) % SLOTS
}

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
            key.map_or(Named::None, |key| Named::One(slot_of(key)))
        }
        None if row.keys.is_empty() => Named::None,
        None => of_keys(row, request.bytes),
    }
}

fn of_keys(row: &Row, request: &[u8]) -> Named {
    let places = Places::of(request);
    let args = places.args(request);
    let mut first = None;
    for slot in row.routing_positions(args).filter_map(|index| args.get(index)).map(slot_of) {
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
    let slots: Vec<u16> = Request::words_of(keys)?.iter().map(|key| slot_of(key)).collect();
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
    fn slots_are_those_of_a_cluster() {
        assert_eq!(crc16(b"123456789"), 0x31c3);
        // The expected slots are those of CLUSTER KEYSLOT.
        for (key, slot) in [
            ("", 0),
            ("foo", 12182),
            ("123456789", 12739),
            ("{user1000}.following", 3443),
            ("{user1000}.followers", 3443),
            ("user1000", 3443),
            ("foo{}{bar}", 8363),
            ("foo{{bar}}zap", 4015),
            ("foo{bar}{zap}", 5061),
            ("bar", 5061),
            ("{bar", 4015),
        ] {
            assert_eq!(slot_of(key.as_bytes()), slot, "{key}");
        }
    }

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
