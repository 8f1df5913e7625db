//! The pause of a replica before it retries its primary.
//!
//! | the attempt | the pause |
//! | --- | --- |
//! | the stream arrived for a second or more, without an error in it | none |
//! | the stream arrived for a minute or more, with an error in it | a second |
//! | the stream arrived for less than a second | a second |
//! | the primary cannot be reached, or cannot serve now | a second: it may be back soon, or is being replaced |
//! | the primary refuses, by its reply or by closing the connection before it has sent anything, or sends data that cannot be used | doubles up to a minute: each attempt may cost the primary a snapshot |
//! | the connection ended within the snapshot | as long as the snapshot had been arriving, from a tenth of a second to a minute |
//!
//! The end of a connection within the snapshot is no refusal. With this pause, a primary with a replica that never receives a
//! complete snapshot spends half of its time on it.

use std::time::Duration;

use crate::peers::follower::link::Fault;

/// The shortest pause.
const PAUSE: Duration = Duration::from_secs(1);
/// The shortest pause after an incomplete snapshot.
const PAUSE_OF_DUMP: Duration = Duration::from_millis(100);
/// The longest pause.
const PAUSE_MAX: Duration = Duration::from_secs(60);

/// The progress of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reached {
    /// Neither a dump nor the stream.
    Nothing,
    /// The dump, and the time for which it had been arriving.
    Dump(Duration),
    /// The stream, and the time for which it had been arriving.
    Stream(Duration),
}

/// Returns the pause after an attempt with this fault and progress. `last` is the pause before the attempt.
pub(super) fn next(last: Duration, fault: Fault, reached: Reached) -> Duration {
    let longer = (last * 2).clamp(PAUSE, PAUSE_MAX);
    match (fault, reached) {
        (Fault::Passing | Fault::Closed, Reached::Stream(came)) if came >= PAUSE => Duration::ZERO,
        (Fault::Passing, _) | (Fault::Closed, Reached::Stream(_)) => PAUSE,
        (Fault::Closed, Reached::Dump(came)) => came.clamp(PAUSE_OF_DUMP, PAUSE_MAX),
        (Fault::Foreign, Reached::Stream(came)) if came >= PAUSE_MAX => PAUSE,
        (Fault::Foreign, _) | (Fault::Closed, Reached::Nothing) => longer,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_refuses_is_asked_more_and_more_seldom() {
        let grows = |fault: Fault, reached: Reached| {
            let mut pause = Duration::ZERO;
            let seconds = [(); 9].map(|()| {
                pause = next(pause, fault, reached);
                pause.as_secs()
            });
            assert_eq!(seconds, [1, 2, 4, 8, 16, 32, 60, 60, 60], "{fault:?} {reached:?}");
        };
        grows(Fault::Foreign, Reached::Nothing);
        grows(Fault::Closed, Reached::Nothing);
        // An invalid dump costs the primary as much as a refused attempt. So does a complete dump with a command after it
        // that cannot be applied.
        grows(Fault::Foreign, Reached::Dump(PAUSE_MAX));
        grows(Fault::Foreign, Reached::Stream(PAUSE));
        assert_eq!(next(Duration::from_secs(8), Fault::Foreign, Reached::Stream(PAUSE_MAX)), PAUSE);
    }

    #[test]
    fn who_was_there_or_will_be_is_asked_soon() {
        let long = Duration::from_secs(60);
        for fault in [Fault::Passing, Fault::Closed] {
            assert_eq!(next(long, fault, Reached::Stream(long)), Duration::ZERO);
            assert_eq!(
                next(long, fault, Reached::Stream(Duration::ZERO)),
                PAUSE,
                "one that closes at once is not asked without end"
            );
        }
        assert_eq!(next(long, Fault::Passing, Reached::Nothing), PAUSE);
        assert_eq!(next(long, Fault::Passing, Reached::Dump(long)), PAUSE);
    }

    #[test]
    fn a_dump_that_is_cut_is_asked_for_again_after_as_long_as_it_came() {
        for (came, pause) in [(0, 100), (50, 100), (700, 700), (7_000, 7_000), (60_000, 60_000), (600_000, 60_000)] {
            for last in [0, 1, 60] {
                let next = next(Duration::from_secs(last), Fault::Closed, Reached::Dump(Duration::from_millis(came)));
                assert_eq!(next.as_millis(), pause, "{came} after {last}");
            }
        }
    }
}
