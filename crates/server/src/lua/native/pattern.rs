//! Lua 5.1's patterns, matched with bounds that Lua's own matcher lacks.
//!
//! The rules are those of the reference manual of Lua 5.1, section 5.4.1, including the corner cases: a pattern ends at its
//! first zero byte. A script chooses both texts and could make the match take for ever. So the steps are counted, and the
//! pulse is checked every so many steps. An item with a match that depends on the items after it takes a level of this thread's
//! stack, and the levels are bounded ([`DEPTH_MAX`]). Nothing here allocates or has a destructor, so errors of Lua may jump
//! over it. Runs on the script's thread.

use super::interrupt;

/// The most levels of items that depend on the items after them: repetitions, options and captures.
const DEPTH_MAX: u32 = 1_000;
/// The most captures of a pattern.
const CAPTURES_MAX: usize = 32;
/// The number of steps between two checks of the pulse.
const STEPS: u32 = 4_096;

const ESCAPE: u8 = b'%';

/// The reason why a match was ended without a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MatchError {
    /// The pattern is wrong; the text is Lua's.
    Pattern(&'static std::ffi::CStr),
    /// The script has to end.
    Ended,
}

type Found = Result<Option<usize>, MatchError>;

/// The capture of a pair of parentheses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Caught {
    /// Bytes of the subject: their position, and their number.
    Text(usize, usize),
    /// A position in the subject, counted from 0.
    Place(usize),
    /// The capture is still open; it began at this position.
    Open(usize),
}

/// The state of matching a pattern with a subject.
pub struct Matcher<'a> {
    subject: &'a [u8],
    pattern: &'a [u8],
    captures: [Caught; CAPTURES_MAX],
    level: usize,
    depth: u32,
    steps: u32,
}

impl<'a> Matcher<'a> {
    /// Makes the matcher of a pattern without its anchor.
    pub fn new(subject: &'a [u8], pattern: &'a [u8]) -> Self {
        let captures = [Caught::Open(0); CAPTURES_MAX];
        Self { subject, pattern: until_zero(pattern), captures, level: 0, depth: 0, steps: 0 }
    }

    /// Returns the end of a match that begins at `start`; None if there is none.
    ///
    /// # Errors
    /// The pattern is wrong, or the script has to end.
    pub fn at(&mut self, start: usize) -> Found {
        self.level = 0;
        self.depth = 0;
        self.step()?;
        self.run(start, 0)
    }

    /// Returns how many captures the last match has.
    pub fn captures_len(&self) -> usize {
        self.level
    }

    /// Returns capture `index` of a match from `start` to `end`. If the pattern has no captures, capture 0 is the whole
    /// match.
    ///
    /// # Errors
    /// There is no such capture, or it was never closed.
    pub fn capture(&self, index: usize, start: usize, end: usize) -> Result<Caught, MatchError> {
        match self.captures[..self.level].get(index) {
            None if index == 0 => Ok(Caught::Text(start, end - start)),
            None => Err(MatchError::Pattern(c"invalid capture index")),
            Some(Caught::Open(_)) => Err(MatchError::Pattern(c"unfinished capture")),
            Some(caught) => Ok(*caught),
        }
    }

    /// Counts a step.
    #[inline]
    fn step(&mut self) -> Result<(), MatchError> {
        self.steps += 1;
        if self.steps < STEPS {
            return Ok(());
        }
        self.steps = 0;
        interrupt::spend(STEPS as usize).map_err(|_| MatchError::Ended)
    }

    /// Returns a byte of the pattern; zero behind its end.
    fn item(&self, at: usize) -> u8 {
        self.pattern.get(at).copied().unwrap_or(0)
    }

    /// Matches the pattern from `item` on with the subject from `at` on, one level deeper.
    fn rest(&mut self, at: usize, item: usize) -> Found {
        self.step()?;
        if self.depth == DEPTH_MAX {
            return Err(MatchError::Pattern(c"pattern too complex"));
        }
        self.depth += 1;
        let found = self.run(at, item);
        self.depth -= 1;
        found
    }

    fn run(&mut self, mut at: usize, mut item: usize) -> Found {
        loop {
            match self.item(item) {
                0 => return Ok(Some(at)),
                b'(' => return self.open(at, item + 1),
                b')' => return self.close(at, item + 1),
                b'$' if self.item(item + 1) == 0 => return Ok((at == self.subject.len()).then_some(at)),
                ESCAPE => match self.item(item + 1) {
                    b'b' => {
                        let Some(end) = self.balanced(at, item + 2)? else { return Ok(None) };
                        (at, item) = (end, item + 4);
                        continue;
                    }
                    b'f' => {
                        let Some(next) = self.frontier(at, item + 2)? else { return Ok(None) };
                        item = next;
                        continue;
                    }
                    digit if digit.is_ascii_digit() => {
                        let Some(end) = self.again(at, digit)? else { return Ok(None) };
                        (at, item) = (end, item + 2);
                        continue;
                    }
                    _ => {}
                },
                _ => {}
            }
            let end = self.class_end(item)?;
            let is_one = self.is_one(at, item, end);
            match self.item(end) {
                b'?' => {
                    if is_one && let Some(found) = self.rest(at + 1, end + 1)? {
                        return Ok(Some(found));
                    }
                    item = end + 1;
                }
                b'*' => return self.most(at, at, item, end),
                b'+' => return if is_one { self.most(at, at + 1, item, end) } else { Ok(None) },
                b'-' => return self.least(at, item, end),
                _ if is_one => (at, item) = (at + 1, end),
                _ => return Ok(None),
            }
            self.step()?;
        }
    }

    /// Matches a repetition with as many bytes of a class as possible, and then with fewer, down to those before `least`.
    fn most(&mut self, start: usize, least: usize, item: usize, end: usize) -> Found {
        debug_assert!(start <= least);
        let mut at = least;
        while self.is_one(at, item, end) {
            self.step()?;
            at += 1;
        }
        loop {
            if let Some(found) = self.rest(at, end + 1)? {
                return Ok(Some(found));
            }
            if at == least {
                return Ok(None);
            }
            at -= 1;
        }
    }

    /// Matches a repetition with as few bytes of a class as possible.
    fn least(&mut self, mut at: usize, item: usize, end: usize) -> Found {
        loop {
            if let Some(found) = self.rest(at, end + 1)? {
                return Ok(Some(found));
            }
            if !self.is_one(at, item, end) {
                return Ok(None);
            }
            at += 1;
        }
    }

    fn open(&mut self, at: usize, item: usize) -> Found {
        let Some(place) = self.captures.get_mut(self.level) else {
            return Err(MatchError::Pattern(c"too many captures"));
        };
        let is_place = self.pattern.get(item) == Some(&b')');
        *place = if is_place { Caught::Place(at) } else { Caught::Open(at) };
        self.level += 1;
        let found = self.rest(at, item + usize::from(is_place))?;
        if found.is_none() {
            self.level -= 1;
        }
        Ok(found)
    }

    fn close(&mut self, at: usize, item: usize) -> Found {
        let is_open = |caught: &Caught| matches!(caught, Caught::Open(_));
        let Some(index) = self.captures[..self.level].iter().rposition(is_open) else {
            return Err(MatchError::Pattern(c"invalid pattern capture"));
        };
        let Caught::Open(start) = self.captures[index] else { return Ok(None) };
        self.captures[index] = Caught::Text(start, at - start);
        let found = self.rest(at, item)?;
        if found.is_none() {
            self.captures[index] = Caught::Open(start);
        }
        Ok(found)
    }

    /// Matches `%1`: the text of an earlier capture.
    fn again(&mut self, at: usize, digit: u8) -> Found {
        let index = usize::from(digit).checked_sub(usize::from(b'1'));
        let caught = index.and_then(|index| self.captures[..self.level].get(index));
        match caught {
            None | Some(Caught::Open(_)) => Err(MatchError::Pattern(c"invalid capture index")),
            Some(Caught::Place(_)) => Ok(None),
            Some(&Caught::Text(start, len)) => {
                let caught = &self.subject[start..start + len];
                let is_there = self.subject[at..].starts_with(caught);
                Ok(is_there.then_some(at + len))
            }
        }
    }

    /// Matches `%bxy`: from an `x` to the `y` that balances it.
    fn balanced(&mut self, at: usize, item: usize) -> Found {
        let (opens, closes) = (self.item(item), self.item(item + 1));
        if opens == 0 || closes == 0 {
            return Err(MatchError::Pattern(c"unbalanced pattern"));
        }
        if self.subject.get(at) != Some(&opens) {
            return Ok(None);
        }
        let mut open = 1_usize;
        for place in at + 1..self.subject.len() {
            self.step()?;
            let byte = self.subject[place];
            if byte == closes {
                open -= 1;
                if open == 0 {
                    return Ok(Some(place + 1));
                }
            } else if byte == opens {
                open += 1;
            }
        }
        Ok(None)
    }

    /// Matches `%f[set]` and the items after it: at a position where the byte before is not in the set and the byte at it is.
    fn frontier(&mut self, at: usize, item: usize) -> Found {
        if self.item(item) != b'[' {
            return Err(MatchError::Pattern(c"missing '[' after '%f' in pattern"));
        }
        let end = self.class_end(item)?;
        let before = if at == 0 { 0 } else { self.subject[at - 1] };
        let here = self.subject.get(at).copied().unwrap_or(0);
        let enters = !self.is_in_set(before, item, end - 1) && self.is_in_set(here, item, end - 1);
        Ok(enters.then_some(end))
    }

    /// Returns where the class that begins at `item` ends.
    fn class_end(&self, item: usize) -> Result<usize, MatchError> {
        match self.item(item) {
            ESCAPE if self.item(item + 1) == 0 => Err(MatchError::Pattern(c"malformed pattern (ends with '%')")),
            ESCAPE => Ok(item + 2),
            b'[' => self.set_end(item + 1),
            _ => Ok(item + 1),
        }
    }

    fn set_end(&self, first: usize) -> Result<usize, MatchError> {
        let mut at = first + usize::from(self.item(first) == b'^');
        loop {
            match self.item(at) {
                0 => return Err(MatchError::Pattern(c"malformed pattern (missing ']')")),
                ESCAPE if self.item(at + 1) != 0 => at += 2,
                _ => at += 1,
            }
            // The first member of a set may be a closing bracket, so the end is looked for only after it.
            if self.item(at) == b']' {
                return Ok(at + 1);
            }
        }
    }

    /// Returns whether the byte at `at` is of the class from `item` to `end`.
    fn is_one(&self, at: usize, item: usize, end: usize) -> bool {
        let Some(&byte) = self.subject.get(at) else { return false };
        match self.item(item) {
            b'.' => true,
            ESCAPE => is_in_class(byte, self.item(item + 1)),
            b'[' => self.is_in_set(byte, item, end - 1),
            other => byte == other,
        }
    }

    /// Returns whether a byte is in the set that has its brackets at `first` and `last`.
    fn is_in_set(&self, byte: u8, first: usize, last: usize) -> bool {
        let negated = self.item(first + 1) == b'^';
        let mut at = first + 1 + usize::from(negated);
        while at < last {
            let is_member = if self.item(at) == ESCAPE {
                at += 2;
                is_in_class(byte, self.item(at - 1))
            } else if self.item(at + 1) == b'-' && at + 2 < last {
                at += 3;
                (self.item(at - 3)..=self.item(at - 1)).contains(&byte)
            } else {
                at += 1;
                byte == self.item(at - 1)
            };
            if is_member {
                return !negated;
            }
        }
        negated
    }
}

/// Returns whether a byte is of the class that a letter after `%` names, in the locale "C". A character that is no letter
/// stands for itself.
fn is_in_class(byte: u8, letter: u8) -> bool {
    let is_member = match letter.to_ascii_lowercase() {
        b'a' => byte.is_ascii_alphabetic(),
        b'c' => byte.is_ascii_control(),
        b'd' => byte.is_ascii_digit(),
        b'l' => byte.is_ascii_lowercase(),
        b'p' => byte.is_ascii_punctuation(),
        b's' => matches!(byte, b' ' | 0x09..=0x0d),
        b'u' => byte.is_ascii_uppercase(),
        b'w' => byte.is_ascii_alphanumeric(),
        b'x' => byte.is_ascii_hexdigit(),
        b'z' => byte == 0,
        _ => return byte == letter,
    };
    is_member != letter.is_ascii_uppercase()
}

/// Returns the bytes before the first zero.
pub fn until_zero(text: &[u8]) -> &[u8] {
    text.split(|&byte| byte == 0).next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(subject: &str, pattern: &str) -> Result<Option<(usize, usize)>, MatchError> {
        let mut matcher = Matcher::new(subject.as_bytes(), pattern.as_bytes());
        for start in 0..=subject.len() {
            if let Some(end) = matcher.at(start)? {
                return Ok(Some((start, end)));
            }
        }
        Ok(None)
    }

    #[test]
    fn items_match_what_the_manual_says() {
        for (subject, pattern, found) in [
            ("hello world", "o w", Some((4, 7))),
            ("hello", "l+", Some((2, 4))),
            ("hello", "l-o", Some((2, 5))),
            ("hello", "hx?e", Some((0, 2))),
            ("key = value", "(%w+)%s*=%s*(%w+)", Some((0, 11))),
            ("f(a(b)c)d", "%b()", Some((1, 8))),
            ("THE (quick) fox", "%f[%a]%a+%f[%A]", Some((0, 3))),
            ("abab", "(ab)%1", Some((0, 4))),
            ("a]b", "[]]", Some((1, 2))),
            ("a-b", "[a%-]+", Some((0, 2))),
            ("x^", "[%^x]+", Some((0, 2))),
            ("abc", "[^a]", Some((1, 2))),
            ("abc", "c$", Some((2, 3))),
            ("a$c", "a$c", Some((0, 3))),
            ("abc", "d", None),
            ("abc", "", Some((0, 0))),
        ] {
            assert_eq!(find(subject, pattern), Ok(found), "{pattern}");
        }
    }

    #[test]
    fn wrong_patterns_are_told() {
        for (pattern, why) in [
            ("%", c"malformed pattern (ends with '%')"),
            ("[a", c"malformed pattern (missing ']')"),
            ("[a%", c"malformed pattern (missing ']')"),
            ("%f", c"missing '[' after '%f' in pattern"),
            ("%b(", c"unbalanced pattern"),
            (")", c"invalid pattern capture"),
            ("%1", c"invalid capture index"),
            ("(%1)", c"invalid capture index"),
        ] {
            assert_eq!(find("abc", pattern), Err(MatchError::Pattern(why)), "{pattern}");
        }
        assert_eq!(find("abc", &"()".repeat(33)), Err(MatchError::Pattern(c"too many captures")));
    }

    #[test]
    fn what_waits_is_bounded() {
        let subject = "a".repeat(40_000);
        for item in ["a?", "a*", "a-"] {
            assert_eq!(find(&subject, &item.repeat(1_000)).map(|found| found.is_some()), Ok(true), "{item}");
            let deep = find(&subject, &format!("{}b", item.repeat(33_000)));
            assert_eq!(deep, Err(MatchError::Pattern(c"pattern too complex")), "{item}");
        }
        assert_eq!(find(&subject, &"a".repeat(33_000)), Ok(Some((0, 33_000))));
    }
}
