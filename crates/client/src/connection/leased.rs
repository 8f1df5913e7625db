//! A connection that one caller has for himself for a while, and that others have before and after him.
//!
//! The pool of its client (`route/pool`) keeps it in between. How long a reply may take is set by whoever has it, command by
//! command; its task is rung when that changes. Whether it is still of use is looked at when it enters the pool and when it
//! leaves it. Any thread.

use std::sync::atomic::Ordering;

use super::{LIMIT_MS_MAX, Link, limit_ms};
use crate::request::blocking_commands::Patience;

impl Link {
    /// The next command may wait on the server for this long, beside the command timeout.
    pub(crate) fn be_patient(&self, patience: Patience) {
        let limit = match patience {
            Patience::Endless => None,
            Patience::For(time) => self.config.command_timeout.and_then(|timeout| timeout.checked_add(time)),
        };
        self.patient.store(true, Ordering::Relaxed);
        // What is longer than the clock can watch over is not watched.
        let limit_ms = limit_ms(limit.filter(|limit| limit.as_millis() < u128::from(LIMIT_MS_MAX)));
        self.limit(limit_ms);
    }

    fn limit(&self, limit_ms: u32) {
        if self.limit_ms.swap(limit_ms, Ordering::Relaxed) != limit_ms {
            self.bell.ring();
        }
    }

    /// Nobody has it for himself any more: whether it is there, and may wait for whoever needs it next.
    pub(crate) fn enter_pool(&self) -> bool {
        let shared = self.shared.lock();
        self.lasting.store(false, Ordering::Relaxed);
        shared.is_wanted() && shared.pipe.is_connected()
    }

    /// Somebody has it for himself from now on. False when it was lost.
    pub(crate) fn leave_pool(&self, lasting: bool) -> bool {
        if !self.process.is_this() {
            return false;
        }
        let shared = self.shared.lock();
        if !shared.is_wanted() || !shared.pipe.is_connected() {
            return false;
        }
        self.lasting.store(lasting, Ordering::Relaxed);
        self.patient.store(false, Ordering::Relaxed);
        self.limit(limit_ms(self.config.command_timeout));
        true
    }
}
