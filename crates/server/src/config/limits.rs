//! Output buffer limits by client class: how they are written, shown and kept.
//!
//! A limit has three numbers: the hard limit, a number of unsent bytes at which a client is closed at once; the soft limit, a
//! number of bytes that may be exceeded for a while; and the length of that while. Pure functions; any thread.

use super::size;

/// The class of a client, as `client-output-buffer-limit` names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum ClientClass {
    /// A client that is neither a replica nor a subscriber.
    Normal,
    /// A replica of this server.
    Replica,
    /// A client that has subscribed.
    Pubsub,
}

/// The limits of unread bytes for a client of one class; 0 sets no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OutputLimit {
    /// Bytes at which the client is disconnected at once.
    pub hard_bytes: u64,
    /// Bytes that may be exceeded for [`OutputLimit::soft_seconds`] only.
    pub soft_bytes: u64,
    /// Seconds over the soft limit after which the client is disconnected.
    pub soft_seconds: u64,
}

impl OutputLimit {
    /// Returns whether a client with `waiting_bytes` unsent is to be closed at `now_s` (seconds of the monotonic clock).
    /// `over_soft_since_s` is the client's note of the time at which it exceeded the soft limit.
    pub fn is_exceeded(&self, waiting_bytes: u64, over_soft_since_s: &mut Option<u64>, now_s: u64) -> bool {
        let is_over_soft = self.soft_bytes != 0 && waiting_bytes >= self.soft_bytes;
        let since_s = if is_over_soft { Some(over_soft_since_s.unwrap_or(now_s)) } else { None };
        *over_soft_since_s = since_s;
        let is_too_long = since_s.is_some_and(|since_s| now_s.saturating_sub(since_s) > self.soft_seconds);
        is_too_long || (self.hard_bytes != 0 && waiting_bytes >= self.hard_bytes)
    }
}

/// The limits of all classes, in the order of [`ClientClass`].
pub type OutputLimits = [OutputLimit; 3];

/// Reads `CLASS HARD SOFT SECONDS ...`; classes that are not named keep their limits in `old`. If there is only one word, it
/// is split first, so that the whole list may be in one pair of quotes.
///
/// # Errors
/// The reason in Redis's words.
pub fn parse(old: &OutputLimits, words: &[&[u8]]) -> Result<OutputLimits, String> {
    let words: Vec<&[u8]> = match words {
        // An empty list changes no limit.
        [b""] => Vec::new(),
        _ => words.iter().flat_map(|word| word.split(|&byte| byte == b' ')).collect(),
    };
    let (fours, []) = words.as_chunks::<4>() else {
        return Err("Wrong number of arguments in buffer limit configuration.".into());
    };
    let mut limits = *old;
    for [class, hard, soft, seconds] in fours {
        let class = class_of(class).ok_or("Invalid client class specified in buffer limit configuration.")?;
        let limit = limit_of(hard, soft, seconds)
            .ok_or("Error in hard, soft or soft_seconds setting in buffer limit configuration.")?;
        limits[class as usize] = limit;
    }
    Ok(limits)
}

/// Returns the limits as CONFIG GET shows them.
pub fn show(limits: &OutputLimits) -> String {
    let one = |(name, limit): (&str, &OutputLimit)| {
        format!("{name} {} {} {}", limit.hard_bytes, limit.soft_bytes, limit.soft_seconds)
    };
    ["normal", "slave", "pubsub"].into_iter().zip(limits).map(one).collect::<Vec<_>>().join(" ")
}

/// Returns the class with this name.
pub fn class_of(word: &[u8]) -> Option<ClientClass> {
    match word.to_ascii_lowercase().as_slice() {
        b"normal" => Some(ClientClass::Normal),
        b"slave" | b"replica" => Some(ClientClass::Replica),
        b"pubsub" => Some(ClientClass::Pubsub),
        _ => None,
    }
}

fn limit_of(hard: &[u8], soft: &[u8], seconds: &[u8]) -> Option<OutputLimit> {
    let soft_seconds = std::str::from_utf8(seconds).ok()?.parse::<u64>().ok()?;
    Some(OutputLimit { hard_bytes: size::parse(hard)?, soft_bytes: size::parse(soft)?, soft_seconds })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_that_are_not_named_keep_their_limits() {
        let old = parse(&Default::default(), &[b"normal 0 0 0 slave 256mb 64mb 60 pubsub 32mb 8mb 60"]).expect("valid");
        let new = parse(&old, &[b"replica", b"1k", b"2", b"3"]).expect("valid");
        assert_eq!(show(&new), "normal 0 0 0 slave 1000 2 3 pubsub 33554432 8388608 60");
    }

    #[test]
    fn the_soft_limit_takes_time_and_the_hard_one_none() {
        let limit = OutputLimit { hard_bytes: 100, soft_bytes: 10, soft_seconds: 5 };
        let mut since = None;
        assert!(limit.is_exceeded(100, &mut since, 0));
        assert!(!limit.is_exceeded(9, &mut since, 1), "and the time over the soft limit is forgotten");
        let answers = [2, 7, 8].map(|now_s| limit.is_exceeded(10, &mut since, now_s));
        assert_eq!(answers, [false, false, true]);
        assert!(!OutputLimit::default().is_exceeded(u64::MAX, &mut since, 100), "zeros set no limit");
    }

    #[test]
    fn halves_are_refused_and_nothing_is_not() {
        assert_eq!(parse(&Default::default(), &[b""]), Ok(Default::default()));
        for words in ["normal 1 2", "normal 1 2 3 slave"] {
            let refused = parse(&Default::default(), &[words.as_bytes()]);
            assert_eq!(refused, Err("Wrong number of arguments in buffer limit configuration.".into()), "{words}");
        }
    }
}
