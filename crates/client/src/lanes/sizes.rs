//! A prediction which replies will be large, learned from earlier replies.
//!
//! The sizes are remembered for a pattern: a command, a database, and a key in which all parts with a digit count as equal
//! (`user:17:picture` is as `user:4711:picture`, and not as `user:17:name`). Each pattern has a score, as branch predictors
//! have: a large reply adds two, up to three, a small one subtracts one, and from two on the next reply is expected to be
//! large. So the first large reply raises the expectation, two small ones in a row lower it, and a reply that is large now
//! and then costs little. A pattern with score 0 is forgotten. If there are too many patterns, the one that was not seen for
//! the longest time is forgotten.
//!
//! Pure data; any thread.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, Hasher, RandomState};

use crate::resp::request::name::Name;

/// The largest number of patterns that are remembered.
const PATTERNS_MAX: usize = 1024;

const SCORE_MAX: u8 = 3;

/// The score from which on the next reply is expected to be large.
const LARGE_FROM: u8 = 2;

/// Returns a pattern as a number.
pub(super) fn pattern(hasher: &RandomState, name: Name, database: u32, key: &[u8]) -> u64 {
    let mut state = hasher.build_hasher();
    (name.row().map(|row| row.id as u16), database).hash(&mut state);
    for part in key.split_inclusive(|byte| b":/.-_|{}".contains(byte)) {
        let (text, end) = match part.split_last() {
            Some((end, text)) if b":/.-_|{}".contains(end) => (text, Some(*end)),
            _ => (part, None),
        };
        match text.iter().any(u8::is_ascii_digit) {
            true => state.write_u8(b'#'),
            false => state.write(text),
        }
        end.into_iter().for_each(|end| state.write_u8(end));
    }
    state.finish()
}

struct Score {
    score: u8,
    seen: u64,
}

/// The remembered patterns.
#[derive(Default)]
pub(super) struct Sizes {
    scores: HashMap<u64, Score>,
    now: u64,
}

impl Sizes {
    /// Returns the number of patterns that are remembered.
    pub(super) fn len(&self) -> usize {
        self.scores.len()
    }

    /// Returns whether the next reply is expected to be large.
    pub(super) fn expects_large(&self, pattern: u64) -> bool {
        self.scores.get(&pattern).is_some_and(|known| known.score >= LARGE_FROM)
    }

    /// Notes the size of a reply.
    pub(super) fn saw(&mut self, pattern: u64, is_large: bool) {
        self.now += 1;
        let now = self.now;
        match (self.scores.get_mut(&pattern), is_large) {
            (None, false) => {}
            (None, true) => {
                if self.scores.len() >= PATTERNS_MAX {
                    self.forget_oldest();
                }
                self.scores.insert(pattern, Score { score: LARGE_FROM, seen: now });
            }
            (Some(known), true) => *known = Score { score: (known.score + 2).min(SCORE_MAX), seen: now },
            (Some(known), false) if known.score > 1 => *known = Score { score: known.score - 1, seen: now },
            (Some(_), false) => _ = self.scores.remove(&pattern),
        }
    }

    fn forget_oldest(&mut self) {
        let oldest = self.scores.iter().min_by_key(|(_, known)| known.seen).map(|(pattern, _)| *pattern);
        oldest.into_iter().for_each(|oldest| _ = self.scores.remove(&oldest));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_differ_in_parts_with_digits_are_alike() {
        let hasher = RandomState::new();
        let of = |command: &str, database, key: &str| pattern(&hasher, Name::of(&[command]), database, key.as_bytes());
        let picture = of("GET", 0, "user:17:picture");
        assert_eq!(picture, of("GET", 0, "user:4711:picture"));
        assert_eq!(of("GET", 0, "doc/3f2a9c.pdf"), of("GET", 0, "doc/b17.pdf"));
        assert_ne!(picture, of("GET", 0, "user:17:name"));
        assert_ne!(picture, of("GET", 0, "group:17:picture"));
        assert_ne!(picture, of("STRLEN", 0, "user:17:picture"));
        assert_ne!(picture, of("GET", 1, "user:17:picture"));
        assert_ne!(of("GET", 0, "ann"), of("GET", 0, "bob"));
        assert_ne!(of("GET", 0, "a:1"), of("GET", 0, "a.1"));
    }

    #[test]
    fn the_first_large_reply_teaches_and_two_small_ones_take_it_back() {
        let mut sizes = Sizes::default();
        let expected = |sizes: &mut Sizes, replies: &str| {
            replies.bytes().for_each(|size| sizes.saw(1, size == b'L'));
            sizes.expects_large(1)
        };
        assert!(!expected(&mut sizes, "sss"));
        assert_eq!(sizes.len(), 0, "what is small is not remembered");
        assert!(expected(&mut sizes, "L"));
        assert!(!expected(&mut sizes, "s"));
        assert!(expected(&mut sizes, "LsLs"), "now and then");
        assert!(!expected(&mut sizes, "s"));
        assert!(!expected(&mut sizes, "s"));
        assert_eq!(sizes.len(), 0, "it is forgotten");
    }

    #[test]
    fn no_more_is_remembered_than_may_be_and_the_oldest_goes_first() {
        let mut sizes = Sizes::default();
        let many = PATTERNS_MAX as u64 + 10;
        for pattern in 0..many {
            sizes.saw(pattern, true);
            // This pattern is always in use, so it is never forgotten.
            sizes.saw(0, true);
        }
        assert_eq!(sizes.len(), PATTERNS_MAX);
        assert!(sizes.expects_large(0) && sizes.expects_large(many - 1));
        assert!(!sizes.expects_large(1));
    }
}
