//! Handles that keep requests back for a while: a closing client waits until these are sent.

use std::sync::Arc;
use std::time::Instant;

use crate::reactor::TaskWaker;

/// A handle that keeps requests back for a while, before they are sent.
pub(crate) trait Reserve: Send + Sync {
    /// Takes no more requests, and sends the remaining ones.
    fn close(self: Arc<Self>);

    /// Returns whether all remaining requests are answered. If not, the task is woken when that may have changed.
    fn is_settled(&self, task_waker: TaskWaker) -> bool;

    /// Waits until all remaining requests are answered, but for no longer than this.
    fn settle(&self, deadline: Instant);
}
