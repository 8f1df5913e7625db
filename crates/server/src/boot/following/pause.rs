//! How long a replica waits before it tries its primary again.
//!
//! A primary that was there a moment ago is tried at once, and one that cannot be reached, or cannot serve now, every second:
//! it may be there again, or it is being replaced. One that refuses, by its words or by closing the connection before the
//! stream has begun, is tried after a pause that doubles up to a minute: each attempt may cost it a snapshot.

use std::time::Duration;

use crate::engine::replication::link::Fault;

/// The shortest pause.
const PAUSE: Duration = Duration::from_secs(1);
/// The longest.
const PAUSE_MAX: Duration = Duration::from_secs(60);

/// The pause behind an attempt that has ended so, when the one before it was `last`. `streamed` is for how long the stream came,
/// if it came at all.
pub(super) fn next(last: Duration, fault: Fault, streamed: Option<Duration>) -> Duration {
    let longer = (last * 2).clamp(PAUSE, PAUSE_MAX);
    match (fault, streamed) {
        (Fault::Passing | Fault::Closed, Some(streamed)) if streamed >= PAUSE => Duration::ZERO,
        (Fault::Passing, _) | (Fault::Closed, Some(_)) => PAUSE,
        (Fault::Foreign, Some(streamed)) if streamed >= PAUSE_MAX => PAUSE,
        (Fault::Foreign, _) | (Fault::Closed, None) => longer,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_refuses_is_asked_more_and_more_seldom() {
        for fault in [Fault::Foreign, Fault::Closed] {
            let mut pause = Duration::ZERO;
            let seconds: Vec<u64> = (0..9)
                .map(|_| {
                    pause = next(pause, fault, None);
                    pause.as_secs()
                })
                .collect();
            assert_eq!(seconds, [1, 2, 4, 8, 16, 32, 60, 60, 60]);
        }
        // One that sends all data and then what cannot be applied costs as much.
        assert_eq!(next(Duration::from_secs(8), Fault::Foreign, Some(PAUSE)).as_secs(), 16);
        assert_eq!(next(Duration::from_secs(8), Fault::Foreign, Some(PAUSE_MAX)), PAUSE);
    }

    #[test]
    fn who_was_there_or_will_be_is_asked_soon() {
        let long = Duration::from_secs(60);
        for fault in [Fault::Passing, Fault::Closed] {
            assert_eq!(next(long, fault, Some(long)), Duration::ZERO);
            assert_eq!(
                next(long, fault, Some(Duration::ZERO)),
                PAUSE,
                "one that closes at once is not asked without end"
            );
        }
        assert_eq!(next(long, Fault::Passing, None), PAUSE);
    }
}
