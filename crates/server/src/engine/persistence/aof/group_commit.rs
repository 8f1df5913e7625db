//! The group commit: the changes that one fsync covers under `appendfsync always`. The thread that fsyncs has it.

use std::time::Duration;

/// The longest time for which an fsync waits for the clients that the last one answered, because a disk that was slow once
/// may not be slow now.
const COMMIT_WAIT_MAX: Duration = Duration::from_millis(20);

/// The pieces of the journal that the next fsync is to cover under `appendfsync always`.
///
/// Clients that have been answered together send their next requests at nearly the same time. If an fsync began with the
/// first of them, the others would wait for the one after it. The clients would part into groups, each of which waits for the
/// others' fsyncs. So an fsync waits until as many pieces have arrived as the last one covered, but at most for the duration
/// of one fsync, and never for long. A lone client that waits for each reply does not wait for others.
#[derive(Debug, Default, Clone, Copy)]
pub struct GroupCommit {
    /// The number of pieces that the last fsync has covered.
    covered: u64,
    /// The number of appended pieces at which the next fsync begins without further waiting.
    whole_at: u64,
    /// The longest wait for that number.
    wait_max: Duration,
}

impl GroupCommit {
    /// Returns the goal after an fsync that covered the pieces up to `covered`, took `took`, and at the end of which
    /// `appended` pieces existed.
    pub fn next(self, covered: u64, appended: u64, took: Duration) -> Self {
        Self { covered, whole_at: appended + (covered - self.covered), wait_max: took.min(COMMIT_WAIT_MAX) }
    }

    /// Returns how much longer the next fsync has to wait for pieces, if `appended` pieces exist and it has waited for so
    /// long; None if it may begin.
    pub fn wait(&self, appended: u64, waited: Duration) -> Option<Duration> {
        if appended >= self.whole_at { None } else { self.wait_max.checked_sub(waited).filter(|left| !left.is_zero()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_is_whole_when_all_threads_of_the_last_round_are_back() {
        let is_whole = |commit: GroupCommit, appended| commit.wait(appended, Duration::ZERO).is_none();
        let begun = GroupCommit::default();
        assert!(is_whole(begun, 0), "nobody is known yet");
        let took = Duration::from_millis(1);
        let lone = begun.next(1, 1, took).next(2, 2, took);
        assert!(is_whole(lone, 3) && lone.wait(2, Duration::ZERO) == Some(took));
        assert!(lone.wait(2, took / 4) == Some(took - took / 4) && lone.wait(2, took).is_none());
        // 30 pieces came during the fsync of 20, and the clients of the 20 are about to write again.
        let commit = begun.next(20, 50, took);
        assert!(!is_whole(commit, 69) && is_whole(commit, 70));
        assert!(is_whole(begun.next(0, 50, took), 50), "nothing was synced, as where the disk fails");
        assert_eq!(begun.next(1, 1, Duration::from_secs(10)).wait_max, COMMIT_WAIT_MAX, "the disk may have hung");
    }
}
