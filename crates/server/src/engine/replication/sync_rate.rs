//! The bandwidth of a full sync: a token bucket for the snapshot that one replica is sent (`repl-sync-rate`).
//!
//! Bytes are earned by time alone: a bucket begins empty, so the first `n` bytes take at least `n / rate` seconds. A replica
//! that took nothing for a while may catch up by one second's worth. Small remainders wait until they are worth a system
//! call, at most 50 ms. The worker that owns the replica's connection asks at each of its wake-ups, and its periodic work
//! wakes it between 1 and 500 times a second (`hz`). No clock of its own.

/// The least time that one piece is worth, in parts of a second.
const PIECES_A_SECOND: u64 = 20;

/// The bytes that are worth a system call at any rate.
const PIECE_BYTES_MAX: u64 = 16 << 10;

/// Thousandths of a byte, so that slow rates lose nothing by rounding.
const PARTS: u64 = 1_000;

/// The token bucket of one transfer.
#[derive(Debug, Default)]
pub struct SyncRate {
    /// The earned and unused bytes, in thousandths.
    earned: u64,
    /// The time up to which bytes are earned; None before the first question.
    seen_ms: Option<u64>,
}

impl SyncRate {
    /// Returns how many bytes may be sent now at `rate` bytes a second; 0 stands for no bound.
    pub fn allowed(&mut self, rate: u64, now_ms: u64) -> usize {
        let passed_ms = now_ms.saturating_sub(self.seen_ms.replace(now_ms).unwrap_or(now_ms));
        if rate == 0 {
            // A rate that is set later begins with an empty bucket.
            self.earned = 0;
            return usize::MAX;
        }
        // A byte a second for a millisecond is a thousandth of a byte.
        let earned = self.earned.saturating_add(rate.saturating_mul(passed_ms));
        self.earned = earned.min(rate.saturating_mul(PARTS));
        let (bytes, piece) = (self.earned / PARTS, (rate / PIECES_A_SECOND).clamp(1, PIECE_BYTES_MAX));
        if bytes < piece { 0 } else { usize::try_from(bytes).unwrap_or(usize::MAX) }
    }

    /// Notes that so many bytes were sent.
    pub fn spend(&mut self, bytes: usize) {
        self.earned = self.earned.saturating_sub((bytes as u64).saturating_mul(PARTS));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sends all that is allowed every `step_ms` up to `until_ms`; returns the bytes and the pieces.
    fn send(bucket: &mut SyncRate, rate: u64, (from_ms, until_ms, step_ms): (u64, u64, usize)) -> (u64, u64) {
        let (mut bytes, mut pieces) = (0, 0);
        for now_ms in (from_ms..=until_ms).step_by(step_ms) {
            let allowed = bucket.allowed(rate, now_ms);
            bucket.spend(allowed);
            bytes += allowed as u64;
            pieces += u64::from(allowed != 0);
        }
        (bytes, pieces)
    }

    #[test]
    fn bytes_never_exceed_the_rate_and_reach_it() {
        for rate in [1, 7, 1_000, 123_457, 10 << 30] {
            for step_ms in [1, 13, 100, 1_000] {
                let (bytes, pieces) = send(&mut SyncRate::default(), rate, (5, 20_005, step_ms));
                assert!(bytes <= rate * 20, "{bytes} bytes at {rate}");
                assert!(bytes >= rate * 18, "{bytes} bytes at {rate}, asked each {step_ms} ms");
                assert!(rate > 400_000 || pieces <= 20 * PIECES_A_SECOND, "{pieces} pieces at {rate}");
            }
        }
    }

    #[test]
    fn a_pause_earns_a_second_and_a_rate_begins_empty() {
        let mut bucket = SyncRate::default();
        assert_eq!(bucket.allowed(1_000, 0), 0);
        assert_eq!(bucket.allowed(1_000, 60_000), 1_000);
        assert_eq!(bucket.allowed(0, 60_001), usize::MAX);
        bucket.spend(1 << 40);
        assert_eq!(bucket.allowed(1_000, 60_001), 0);
        assert_eq!(bucket.allowed(1_000, 60_100), 99);
        // A lower rate counts at once, for bytes that are earned too.
        assert_eq!(bucket.allowed(10, 60_100), 10);
        assert_eq!(bucket.allowed(u64::MAX, 120_000), (u64::MAX / PARTS) as usize, "no overflow");
    }
}
