//! The calls that only a coalescing handle makes of a transport (`api/coalesce`).
//!
//! Its requests were admitted and issued before they are sent, and the thread that hands out replies may be the one that
//! sends them: so these calls look and send, and never wait for room. Any thread.

use super::Transport;
use super::cluster::batches;
use crate::error::Error;
use crate::pipe::in_flight::Unit;
use crate::pipe::slot::{Completions, Driver};
use crate::sys::clock_ms;

impl Transport {
    /// Whether this process has the way, and the server this database.
    #[inline]
    pub(crate) fn check(&self, database: u32) -> Result<(), Error> {
        match self {
            Self::Remote(link) | Self::Replicated(link, _) => link.check(database),
            Self::Cluster(cluster) => cluster.check(database),
            #[cfg(feature = "embedded")]
            Self::Local(embedded) => embedded.check(database),
        }
    }

    /// Sends several requests that were admitted and issued before, with nothing in between and without a wait.
    pub(crate) fn send_gathered(&self, units: Vec<Unit>, bytes: &[u8]) -> Result<(), (Error, Vec<Unit>)> {
        match self {
            Self::Remote(link) | Self::Replicated(link, _) => link.send_gathered(units, bytes),
            Self::Cluster(cluster) => batches::send_gathered(cluster, units, bytes),
            #[cfg(feature = "embedded")]
            Self::Local(embedded) => embedded.send_units(units, bytes),
        }
    }

    /// Whether more is queued than should be.
    pub(crate) fn is_overfull(&self) -> bool {
        match self {
            Self::Remote(link) | Self::Replicated(link, _) => link.is_overfull(),
            Self::Cluster(cluster) => cluster.is_overfull(),
            #[cfg(feature = "embedded")]
            Self::Local(_) => false,
        }
    }

    /// The time on the clock by which requests grow old.
    pub(crate) fn now_ms(&self) -> u32 {
        match self {
            Self::Remote(_) | Self::Replicated(..) | Self::Cluster(_) => clock_ms(),
            #[cfg(feature = "embedded")]
            Self::Local(_) => 0,
        }
    }

    /// Whether requests are executed in the thread that sends them.
    pub(crate) fn is_local(&self) -> bool {
        !matches!(self, Self::Remote(_) | Self::Replicated(..) | Self::Cluster(_))
    }

    /// Returns the driver that a waiting caller may ask to write.
    pub(crate) fn as_driver(&self) -> &dyn Driver {
        match self {
            Self::Remote(link) | Self::Replicated(link, _) => &**link,
            Self::Cluster(cluster) => &**cluster,
            #[cfg(feature = "embedded")]
            Self::Local(embedded) => &**embedded,
        }
    }

    /// Wakes the callers of completed calls, and reports errors of forgotten ones. No lock may be held.
    pub(crate) fn finish(&self, done: &mut Completions) {
        match self {
            Self::Remote(link) | Self::Replicated(link, _) => link.finish(done),
            Self::Cluster(cluster) => cluster.finish(done),
            #[cfg(feature = "embedded")]
            Self::Local(embedded) => embedded.finish(done),
        }
    }
}
