//! Which commands wait on the server, and for how long they may.
//!
//! A command that waits holds up its connection, so it must not travel on one that others share; and it is no fault of the
//! server's when its answer takes as long as was asked. Both are read from the request itself, so that a command by its name
//! is treated as the method of that name. Pure functions; any thread.

use std::time::Duration;

/// How long a command may hold up its connection on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Patience {
    /// Until there is something, whenever that is.
    Endless,
    /// For this long.
    For(Duration),
}

impl Patience {
    /// A number of units of time, as the server reads it. What is no time the server refuses at once.
    fn of(word: Option<&&[u8]>, unit: Duration) -> Self {
        let number: Option<f64> = word.and_then(|word| str::from_utf8(word).ok()?.parse().ok());
        match number {
            Some(0.0) => Self::Endless,
            Some(count) if count > 0.0 => {
                Duration::try_from_secs_f64(count * unit.as_secs_f64()).map_or(Self::Endless, Self::For)
            }
            _ => Self::For(Duration::ZERO),
        }
    }
}

/// How long these words may wait; `None` for a command that does not.
pub(crate) fn of(words: &[&[u8]]) -> Option<Patience> {
    const SECOND: Duration = Duration::from_secs(1);
    const MILLISECOND: Duration = Duration::from_millis(1);
    let name = words.first()?;
    let is = |names: &[&str]| names.iter().any(|known| name.eq_ignore_ascii_case(known.as_bytes()));
    if is(&["BLPOP", "BRPOP", "BRPOPLPUSH", "BLMOVE", "BZPOPMIN", "BZPOPMAX"]) {
        return Some(Patience::of(words.last(), SECOND));
    }
    if is(&["BLMPOP", "BZMPOP"]) {
        return Some(Patience::of(words.get(1), SECOND));
    }
    if !is(&["XREAD", "XREADGROUP"]) {
        return None;
    }
    let mut options = words.iter().take_while(|word| !word.eq_ignore_ascii_case(b"STREAMS"));
    // A group or a consumer may be called BLOCK; their names follow the word GROUP.
    while let Some(word) = options.next() {
        if word.eq_ignore_ascii_case(b"GROUP") {
            options.nth(1);
        } else if word.eq_ignore_ascii_case(b"BLOCK") {
            return Some(Patience::of(options.next(), MILLISECOND));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patience(line: &str) -> Option<Patience> {
        of(&line.split(' ').map(str::as_bytes).collect::<Vec<_>>())
    }

    #[test]
    fn the_time_is_where_the_command_has_it() {
        let seconds = |count| Some(Patience::For(Duration::from_secs(count)));
        assert_eq!(patience("blpop a b 2"), seconds(2));
        assert_eq!(patience("BLPOP a 0"), Some(Patience::Endless));
        assert_eq!(patience("BLPOP a 0.25"), Some(Patience::For(Duration::from_millis(250))));
        assert_eq!(patience("BLMOVE a b LEFT RIGHT 3"), seconds(3));
        assert_eq!(patience("BZMPOP 4 2 a b MIN COUNT 10"), seconds(4));
        assert_eq!(patience("XREAD COUNT 2 BLOCK 5000 STREAMS a $"), seconds(5));
        assert_eq!(patience("XREADGROUP GROUP block BLOCK BLOCK 0 STREAMS a >"), Some(Patience::Endless));
    }

    #[test]
    fn what_does_not_wait_has_none() {
        assert_eq!(patience("LPOP a 2"), None);
        assert_eq!(patience("XREAD STREAMS BLOCK 0"), None);
        assert_eq!(patience("XREADGROUP GROUP g BLOCK STREAMS a >"), None);
    }

    #[test]
    fn what_the_server_refuses_waits_for_nothing() {
        for line in ["BLPOP a", "BLPOP a -1", "BLPOP a nan", "BLMPOP", "XREAD BLOCK"] {
            assert_eq!(patience(line), Some(Patience::For(Duration::ZERO)), "{line}");
        }
        assert_eq!(patience("BLPOP a 1e300"), Some(Patience::Endless));
    }
}
