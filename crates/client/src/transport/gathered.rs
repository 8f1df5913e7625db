//! The calls that only a coalescing handle makes on a transport (`api/coalesce`).
//!
//! Its requests were admitted and issued before they are sent, and the thread that hands out replies may be the one that
//! sends them. So these calls check and send, and never wait for room. Any thread.

use super::Transport;
use super::cluster::batches;
use crate::error::Error;
use crate::pipe::asker::Unit;
use crate::pipe::slot::{Completions, Driver};
use crate::sys::clock_ms;

impl Transport {
    /// Fails if the transport belongs to another process, or the server does not have this database.
    #[inline]
    pub(crate) fn check(&self, database: u32) -> Result<(), Error> {
        match self {
            Self::Remote(link) | Self::Replicated(link, _) => link.check(database),
            Self::Cluster(cluster) => cluster.check(database),
            #[cfg(feature = "embedded")]
            Self::Local(embedded) => embedded.check(database),
        }
    }

    /// Sends several requests that were admitted and issued before, without another request between them and without a wait.
    pub(crate) fn send_gathered(&self, units: Vec<Unit>, bytes: &[u8]) -> Result<(), (Error, Vec<Unit>)> {
        match self {
            Self::Remote(link) | Self::Replicated(link, _) => link.send_gathered(units, bytes),
            Self::Cluster(cluster) => batches::send_gathered(cluster, units, bytes),
            #[cfg(feature = "embedded")]
            Self::Local(embedded) => embedded.send_units(units, bytes),
        }
    }

    /// Returns whether the queue is above its bound.
    pub(crate) fn is_overfull(&self) -> bool {
        match self {
            Self::Remote(link) | Self::Replicated(link, _) => link.is_overfull(),
            Self::Cluster(cluster) => cluster.is_overfull(),
            #[cfg(feature = "embedded")]
            Self::Local(_) => false,
        }
    }

    /// Returns the time on the clock on which requests are issued and time out.
    pub(crate) fn now_ms(&self) -> u32 {
        match self {
            Self::Remote(_) | Self::Replicated(..) | Self::Cluster(_) => clock_ms(),
            #[cfg(feature = "embedded")]
            Self::Local(_) => 0,
        }
    }

    /// Returns whether requests are executed in the thread that sends them.
    pub(crate) fn is_local(&self) -> bool {
        !matches!(self, Self::Remote(_) | Self::Replicated(..) | Self::Cluster(_))
    }

    /// Returns the driver, which a waiting caller may ask to write.
    pub(crate) fn as_driver(&self) -> &dyn Driver {
        match self {
            Self::Remote(link) | Self::Replicated(link, _) => &**link,
            Self::Cluster(cluster) => &**cluster,
            #[cfg(feature = "embedded")]
            Self::Local(embedded) => &**embedded,
        }
    }

    /// Wakes the callers of completed calls, and reports the errors of forgotten calls. No lock may be held.
    pub(crate) fn finish(&self, done: &mut Completions) {
        match self {
            Self::Remote(link) | Self::Replicated(link, _) => link.finish(done),
            Self::Cluster(cluster) => cluster.finish(done),
            #[cfg(feature = "embedded")]
            Self::Local(embedded) => embedded.finish(done),
        }
    }
}
