//! The commands that wait on the server, and the longest time for which each may wait.
//!
//! A command that waits holds up its connection, so it must not travel on a connection that others share. A late answer is
//! then no fault of the server's: the caller asked for that time. Both facts are read from the request itself, so that a
//! command by its name is treated as the method of that name. The command's row in the table says which argument is the
//! timeout. Pure functions; any thread.

use std::time::Duration;

use sleeve_wire::frame::{Frame, decode};

use super::Request;
use super::name::Name;

/// The time for which a command may hold up its connection on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BlockTimeout {
    /// Without a limit, until the server has an element to return.
    Endless,
    /// At most this time.
    For(Duration),
}

impl BlockTimeout {
    /// Reads a number of units of time as the server does. The server refuses any other text at once.
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

/// Returns the time for which this request may wait; `None` if it never waits.
pub(crate) fn of(request: &Request) -> Option<BlockTimeout> {
    let timeout = request.name().row()?.timeout?;
    let words = request.words();
    let position = timeout.position(words.len(), |index| words.get(index).copied().unwrap_or_default())?;
    Some(BlockTimeout::of(words.get(position), timeout.unit.duration()))
}

/// Returns the bytes of a request that has waited for `waited` on one server, and is sent to another: it may wait there for the
/// rest of its time, which is returned too. Returns none if the request waits without a limit, or not at all.
pub(crate) fn shortened(bytes: &[u8], name: Name, waited: Duration) -> Option<(Vec<u8>, Duration)> {
    let timeout = name.row()?.timeout?;
    let Ok((Frame::Array(items), _)) = decode(bytes) else { return None };
    let word = |item| if let Ok(Frame::Bulk(word)) = item { Some(word) } else { None };
    let mut words = items.map(word).collect::<Option<Vec<&[u8]>>>()?;
    let position = timeout.position(words.len(), |index| words.get(index).copied().unwrap_or_default())?;
    let before = words.get_mut(position)?;
    let unit = timeout.unit.duration();
    let BlockTimeout::For(whole) = BlockTimeout::of(Some(&*before), unit) else { return None };
    if whole.is_zero() {
        return None;
    }
    // Zero would mean no limit. Old servers take whole numbers only, so a whole number stays one.
    let left_ms = whole.saturating_sub(waited).as_millis().clamp(1, whole.as_millis().max(1));
    let (rest, rest_ms) = match before.contains(&b'.') {
        true => (format!("{:.3}", left_ms as f64 / unit.as_millis() as f64), left_ms),
        false => {
            let count = left_ms.div_ceil(unit.as_millis());
            (count.to_string(), count * unit.as_millis())
        }
    };
    *before = rest.as_bytes();
    let request = Request::bytes_of(|request| words.iter().for_each(|word| _ = request.bytes(word))).ok()?;
    Some((request, Duration::from_millis(u64::try_from(rest_ms).unwrap_or(u64::MAX))))
}

#[cfg(test)]
mod tests {
    use sleeve_wire::commands::all;

    use super::*;

    fn timeout(line: &str) -> Option<BlockTimeout> {
        let words: Vec<&str> = line.split(' ').collect();
        let mut request = Request::empty();
        request.call(Name::of(&words));
        words.iter().for_each(|word| _ = request.word(word));
        of(&request)
    }

    #[test]
    fn the_time_is_where_the_command_has_it() {
        let seconds = |count| Some(BlockTimeout::For(Duration::from_secs(count)));
        assert_eq!(timeout("blpop a b 2"), seconds(2));
        assert_eq!(timeout("BLPOP a 0"), Some(BlockTimeout::Endless));
        assert_eq!(timeout("BLPOP a 0.25"), Some(BlockTimeout::For(Duration::from_millis(250))));
        assert_eq!(timeout("BLMOVE a b LEFT RIGHT 3"), seconds(3));
        assert_eq!(timeout("BZMPOP 4 2 a b MIN COUNT 10"), seconds(4));
        assert_eq!(timeout("XREAD COUNT 2 BLOCK 5000 STREAMS a $"), seconds(5));
        assert_eq!(timeout("XREADGROUP GROUP block BLOCK BLOCK 0 STREAMS a >"), Some(BlockTimeout::Endless));
    }

    #[test]
    fn a_request_waits_for_the_rest_of_its_time_elsewhere() {
        let shorter = |line: &str, waited_ms| {
            let words: Vec<&str> = line.split(' ').collect();
            let bytes = Request::bytes_of(|request| words.iter().for_each(|word| _ = request.word(word))).ok()?;
            let (bytes, _) = shortened(&bytes, Name::of(&words), Duration::from_millis(waited_ms))?;
            let Ok((Frame::Array(items), _)) = decode(&bytes) else { panic!("no request") };
            let words = items.map(|item| match item {
                Ok(Frame::Bulk(word)) => String::from_utf8_lossy(word).into_owned(),
                other => panic!("no word: {other:?}"),
            });
            Some(words.collect::<Vec<_>>().join(" "))
        };
        assert_eq!(shorter("BLPOP a b 0.250", 100).as_deref(), Some("BLPOP a b 0.150"));
        assert_eq!(shorter("BLPOP a 5", 2_300).as_deref(), Some("BLPOP a 3"));
        assert_eq!(shorter("BLPOP a 5", 9_000).as_deref(), Some("BLPOP a 1"));
        assert_eq!(shorter("BLPOP a 0.2", 9_000).as_deref(), Some("BLPOP a 0.001"));
        assert_eq!(
            shorter("XREAD COUNT 2 BLOCK 500 STREAMS a $", 120).as_deref(),
            Some("XREAD COUNT 2 BLOCK 380 STREAMS a $")
        );
        assert_eq!([shorter("BLPOP a 0", 10), shorter("LPOP a", 10), shorter("BLPOP a -1", 10)], [None, None, None]);
    }

    #[test]
    fn those_that_wait_are_known() {
        let waits = |name: &&str| Name::of(&[name]).may_wait();
        let waiting: Vec<&str> = all().iter().map(|row| row.full_name).filter(waits).collect();
        let lists = ["blmove", "blmovem", "blmpop", "blpop", "brpop", "brpoplpush"];
        let others = ["bzmpop", "bzpopmax", "bzpopmin", "xread", "xreadgroup", "wait", "waitaof"];
        assert_eq!(sorted(waiting), sorted([&lists[..], &others].concat()));
    }

    fn sorted(mut names: Vec<&str>) -> Vec<&str> {
        names.sort_unstable();
        names
    }

    #[test]
    fn commands_that_do_not_wait_have_no_block_timeout() {
        assert_eq!(timeout("LPOP a 2"), None);
        assert_eq!(timeout("XREAD STREAMS BLOCK 0"), None);
        assert_eq!(timeout("XREADGROUP GROUP g BLOCK STREAMS a >"), None);
    }

    #[test]
    fn block_timeouts_that_the_server_refuses_wait_for_nothing() {
        for line in ["BLPOP a", "BLPOP a -1", "BLPOP a nan", "BLMPOP", "XREAD BLOCK"] {
            assert_eq!(timeout(line), Some(BlockTimeout::For(Duration::ZERO)), "{line}");
        }
        assert_eq!(timeout("BLPOP a 1e300"), Some(BlockTimeout::Endless));
    }
}
