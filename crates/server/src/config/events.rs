//! `notify-keyspace-events`: the events about keys that are published, as letters and as bits.
//!
//! Each letter is a bit of a number, so that a write learns with one load whether its event is to be published. Pure
//! functions; any thread.

/// The class of an event about a key. Its number is its bit in the option's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum EventClass {
    /// Commands on keys of any type: `g`.
    Generic = 1 << 2,
    /// Strings: `$`.
    String = 1 << 3,
    /// Lists: `l`.
    List = 1 << 4,
    /// Sets: `s`.
    Set = 1 << 5,
    /// Hashes: `h`.
    Hash = 1 << 6,
    /// Sorted sets: `z`.
    Zset = 1 << 7,
    /// A key past its deadline was removed: `x`.
    Expired = 1 << 8,
    /// A key was evicted: `e`.
    Evicted = 1 << 9,
    /// Streams: `t`.
    Stream = 1 << 10,
    /// A key was looked up and does not exist: `m`, which `A` does not include.
    KeyMiss = 1 << 11,
    /// Types of modules, of which there are none: `d`.
    Module = 1 << 13,
    /// A key was created: `n`, which `A` does not include.
    New = 1 << 14,
}

/// Events are published to `__keyspace@<database>__:<key>`: `K`.
pub const KEYSPACE: u32 = 1 << 0;
/// Events are published to `__keyevent@<database>__:<event>`: `E`.
pub const KEYEVENT: u32 = 1 << 1;

/// The letters that `A` stands for, in the order in which they are shown.
const ALL: [(u8, EventClass); 10] = [
    (b'g', EventClass::Generic),
    (b'$', EventClass::String),
    (b'l', EventClass::List),
    (b's', EventClass::Set),
    (b'h', EventClass::Hash),
    (b'z', EventClass::Zset),
    (b'x', EventClass::Expired),
    (b'e', EventClass::Evicted),
    (b't', EventClass::Stream),
    (b'd', EventClass::Module),
];

const fn all_bits() -> u32 {
    let (mut bits, mut at) = (0, 0);
    while at < ALL.len() {
        bits |= ALL[at].1 as u32;
        at += 1;
    }
    bits
}

/// Reads the letters as bits.
///
/// # Errors
/// The reason in Redis's words.
pub fn parse(letters: &[u8]) -> Result<u32, String> {
    let mut bits = 0;
    for letter in letters {
        bits |= match letter {
            b'A' => all_bits(),
            b'K' => KEYSPACE,
            b'E' => KEYEVENT,
            b'm' => EventClass::KeyMiss as u32,
            b'n' => EventClass::New as u32,
            _ => match ALL.iter().find(|(known, _)| known == letter) {
                Some((_, class)) => *class as u32,
                None => return Err("Invalid event class character. Use 'Ag$lshzxeKEtmdn'.".into()),
            },
        };
    }
    Ok(bits)
}

/// Returns the letters of these bits in Redis's order. If `A` is shown, `n` is not.
pub fn show(bits: u32) -> String {
    let mut letters = String::new();
    if bits & all_bits() == all_bits() {
        letters.push('A');
    } else {
        letters.extend(ALL.iter().filter(|(_, class)| bits & *class as u32 != 0).map(|(letter, _)| *letter as char));
        if bits & EventClass::New as u32 != 0 {
            letters.push('n');
        }
    }
    let more = [(KEYSPACE, 'K'), (KEYEVENT, 'E'), (EventClass::KeyMiss as u32, 'm')];
    letters.extend(more.iter().filter(|(bit, _)| bits & bit != 0).map(|(_, letter)| letter));
    letters
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_are_shown_as_redis_shows_them() {
        let shown = |letters: &[u8]| parse(letters).map(show);
        for (given, expected) in
            [("KEA", "AKE"), ("AKEnm", "AKEm"), ("KEn", "nKE"), ("gxE", "gxE"), ("KElmst", "lstKEm"), ("Ed$", "$dE")]
        {
            assert_eq!(shown(given.as_bytes()), Ok(expected.into()), "{given}");
        }
        assert_eq!(shown(b""), Ok(String::new()));
        assert!(shown(b"Kq").is_err());
    }
}
