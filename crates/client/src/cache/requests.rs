//! The keys of a request: the one that decides its reply, and those that it may change.
//!
//! Both are read from the command table. Pure functions; any thread.

use sleeve_wire::arguments::{Args, Span};
use sleeve_wire::commands::{Flags, all};

use crate::resp::request::EncodedRequest;
use crate::resp::request::name::Name;
use crate::resp::request::words::Words;

/// The number of rows in the command table.
const ROWS: usize = all().len();

/// The bit that says that the key is the last argument.
const IS_LAST: u8 = 0x80;

/// The position of the key in each command with a reply that may be kept; 0 for the others.
static DECIDING: [u8; ROWS] = {
    let mut table = [0; ROWS];
    let mut row = 0;
    while row < ROWS {
        if let Some(key) = all()[row].deciding_key() {
            table[row] = key.index as u8 | if key.is_last { IS_LAST } else { 0 };
        }
        row += 1;
    }
    table
};

/// Returns the place of the key in the bytes of a request with a reply that may be kept.
#[inline]
pub(super) fn deciding_key(request: EncodedRequest<'_>) -> Option<(usize, usize)> {
    let place = DECIDING.get(usize::from(request.name.number())).copied().filter(|&place| place != 0)?;
    let mut words = Words::of(request.bytes);
    let key = words.nth(usize::from(place & !IS_LAST))?;
    (place & IS_LAST == 0 || words.left() == 0).then_some(key)
}

/// The keys that requests may have changed.
pub(super) enum Change<'a> {
    /// This key.
    Key(&'a [u8]),
    /// Any key may have changed.
    Everything,
}

/// Calls back with the keys that these requests may change, request by request.
pub(super) fn changes<'a>(requests: &'a [u8], mut tell: impl FnMut(Change<'a>)) {
    let mut rest = requests;
    while !rest.is_empty() {
        let mut words = Words::of(rest);
        let places: Vec<(usize, usize)> = words.by_ref().collect();
        let Some((request, after)) = rest.split_at_checked(words.at()).filter(|_| !places.is_empty()) else {
            return tell(Change::Everything);
        };
        changed_by(request, &places, &mut tell);
        rest = after;
    }
}

fn changed_by<'a>(request: &'a [u8], places: &[(usize, usize)], tell: &mut impl FnMut(Change<'a>)) {
    let words: Vec<&'a [u8]> = places.iter().map(|&(start, end)| request.get(start..end).unwrap_or_default()).collect();
    // A command that is not in the table may change any key.
    let Some(row) = Name::find(&words).row() else { return tell(Change::Everything) };
    if row.flags.contains(Flags::READONLY) {
        return;
    }
    let span = |&(start, end): &(usize, usize)| Span { start: start as u32, len: (end - start) as u32 };
    let spans: Vec<Span> = places.iter().map(span).collect();
    let args = Args::new(request, &spans);
    let mut has_keys = false;
    for index in row.key_positions(args) {
        has_keys = true;
        tell(Change::Key(words.get(index).copied().unwrap_or_default()));
    }
    // A script may write to keys that it does not declare.
    if !has_keys && (row.flags.contains(Flags::WRITE) || row.runs_script()) {
        tell(Change::Everything);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resp::request::Request;

    fn written(words: &[&str]) -> Vec<u8> {
        Request::bytes_of(|request| words.iter().for_each(|word| _ = request.word(word))).expect("a request")
    }

    fn key(words: &[&str]) -> Option<String> {
        let bytes = written(words);
        let (start, end) = deciding_key(EncodedRequest { bytes: &bytes, name: Name::of(words) })?;
        Some(String::from_utf8_lossy(bytes.get(start..end)?).into_owned())
    }

    #[test]
    fn one_key_decides_a_reply_or_it_is_not_kept() {
        let long = "x".repeat(1234);
        for (words, wanted) in [
            (&["GET", "k"][..], Some("k")),
            (&["HGET", &long, "field"], Some(&long)),
            (&["GETRANGE", "", "0", "-1"], Some("")),
            (&["EXISTS", "a"], Some("a")),
            (&["EXISTS", "a", "b"], None),
            (&["MGET", "a"], Some("a")),
            (&["SINTER", "a", "b"], None),
            (&["SET", "a", "b"], None),
            (&["TTL", "a"], None),
            (&["SRANDMEMBER", "a"], None),
            (&["PING"], None),
            (&["GET"], None),
            (&["MY.READ", "a"], None),
        ] {
            assert_eq!(key(words).as_deref(), wanted, "{words:?}");
        }
    }

    #[test]
    fn a_request_says_what_it_may_change() {
        let told = |requests: &[&[&str]]| {
            let bytes: Vec<u8> = requests.iter().flat_map(|words| written(words)).collect();
            let mut told = Vec::new();
            changes(&bytes, |change| {
                told.push(match change {
                    Change::Key(key) => String::from_utf8_lossy(key).into_owned(),
                    Change::Everything => "*".to_owned(),
                });
            });
            told.join(" ")
        };
        assert_eq!(told(&[&["SET", "a", "1"], &["GET", "b"], &["MSET", "c", "1", "d", "2"]]), "a c d");
        assert_eq!(told(&[&["MULTI"], &["RENAME", "a", "b"], &["EXEC"]]), "a b");
        assert_eq!(told(&[&["EVAL", "return 1", "2", "a", "b", "c"]]), "a b");
        assert_eq!(
            told(&[&["EVAL", "return 1", "0"], &["FCALL", "f", "0", "a"], &["EVAL_RO", "return 1", "0"]]),
            "* *"
        );
        assert_eq!(told(&[&["SORT", "a", "BY", "x", "STORE", "b"]]), "a b");
        assert_eq!(told(&[&["FLUSHDB"], &["PING"], &["PUBLISH", "a", "b"], &["MY.WRITE", "a"]]), "* *");
        assert_eq!(told(&[&["CLIENT", "SETNAME", "a"], &["CONFIG", "SET", "a", "b"]]), "");
        assert_eq!(told(&[&["SWAPDB", "0", "1"]]), "*");
    }
}
