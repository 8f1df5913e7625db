//! CLIENT PAUSE: until when, and whom it holds.

use std::sync::atomic::{AtomicI64, Ordering};

/// The running pause of an engine. Any thread may look; while there is none, a look is one relaxed load.
#[derive(Debug, Default)]
pub struct Pause {
    /// Wall clock at which commands that may write go on, in milliseconds; 0 when nothing is held.
    writes_until_ms: AtomicI64,
    /// The same for all commands.
    all_until_ms: AtomicI64,
}

/// Whom a pause holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Held {
    /// Every command.
    All,
    /// Commands that may change the data.
    Writes,
}

impl Pause {
    /// Begins a pause, or prolongs the one that runs: an end never moves closer, and ALL never weakens to WRITE.
    pub fn begin(&self, held: Held, until_ms: i64) {
        self.writes_until_ms.fetch_max(until_ms, Ordering::Relaxed);
        if held == Held::All || self.all_until_ms.load(Ordering::Relaxed) != 0 {
            self.all_until_ms.fetch_max(until_ms, Ordering::Relaxed);
        }
    }

    /// Ends the pause.
    pub fn end(&self) {
        self.writes_until_ms.store(0, Ordering::Relaxed);
        self.all_until_ms.store(0, Ordering::Relaxed);
    }

    /// Whether a pause was begun and not ended; its time may be over.
    #[inline]
    pub fn is_begun(&self) -> bool {
        self.writes_until_ms.load(Ordering::Relaxed) != 0
    }

    /// When the pause is over, wall clock milliseconds; 0 when there is none.
    pub fn until_ms(&self) -> i64 {
        self.writes_until_ms.load(Ordering::Relaxed)
    }

    /// Whom the pause holds now. Ends a pause whose time is over.
    pub fn held(&self, now_ms: i64) -> Option<Held> {
        let until_ms = self.until_ms();
        if until_ms == 0 {
            return None;
        }
        if until_ms <= now_ms {
            self.end();
            return None;
        }
        let all = self.all_until_ms.load(Ordering::Relaxed) > now_ms;
        Some(if all { Held::All } else { Held::Writes })
    }
}
