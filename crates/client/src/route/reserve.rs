//! Who keeps requests back for a while: a client that is closed waits until they are sent.

use std::sync::Arc;
use std::time::Instant;

use crate::reactor::TaskWaker;

/// Somebody who keeps requests back for a while, before they are sent.
pub(crate) trait Reserve: Send + Sync {
    /// Takes no more, and sends what is left.
    fn close(self: Arc<Self>);

    /// Whether all that was left is answered. Where it is not, the task is woken when that may have changed.
    fn is_settled(&self, task_waker: TaskWaker) -> bool;

    /// Waits until all that was left is answered, but for no longer than this.
    fn settle(&self, deadline: Instant);
}
