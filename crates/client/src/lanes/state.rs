//! The state of a lane under its lock: the connection, the waiting calls, the calls that have left on it. Pure data.

use std::any::Any;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use super::order::Order;
use crate::connection::Link;
use crate::pipe::queue::LongRequest;
use crate::pipe::slot::{Handle, Source, Target};
use crate::reactor::TaskWaker;
use crate::resp::request::name::Name;

/// A reference that keeps a client alive while one of its calls is not answered.
pub(crate) type Keeper = Arc<dyn Any + Send + Sync>;

/// The state of a lane, under its lock.
#[derive(Default)]
pub(super) struct State {
    pub(super) order: Order<Pending>,
    pub(super) wire: Option<Wire>,
    /// The connection that was closed last, for its metrics.
    pub(super) closed: Option<Arc<Link>>,
    pub(super) in_flight: VecDeque<Flight>,
    pub(super) fence: Option<Handle>,
    /// The number of bytes of requests that have taken the lane and are not answered.
    pub(super) bytes: usize,
    /// True while a thread hands out answers and sends calls.
    pub(super) is_worked: bool,
    /// True if the lane takes no more calls.
    pub(super) is_closed: bool,
    /// The number of threads that wait for a change.
    pub(super) waiting: usize,
    pub(super) task_wakers: Vec<TaskWaker>,
}

/// The open connection of a lane.
pub(super) struct Wire {
    pub(super) link: Arc<Link>,
    /// The source of the slots for callers.
    pub(super) source: Source,
    /// The number of the connection for which the source makes slots.
    pub(super) connection: u32,
    /// The time since when no call is on the lane; none while there is one.
    pub(super) idle_since: Option<Instant>,
}

/// A call that has not left.
pub(super) struct Pending {
    pub(super) request: LongRequest,
    pub(super) name: Name,
    pub(super) database: u32,
    pub(super) length: usize,
    pub(super) issued_ms: u32,
    pub(super) target: Target,
    pub(super) pattern: Option<u64>,
    /// A reference that keeps the client alive.
    pub(super) keeper: Keeper,
}

/// A call that has left.
pub(super) struct Flight {
    pub(super) number: u64,
    pub(super) handle: Handle,
    pub(super) length: usize,
    pub(super) target: Target,
    pub(super) pattern: Option<u64>,
    pub(super) keeper: Keeper,
}

/// Work to be done without the lock.
pub(super) enum Work {
    Send(u64, Box<Pending>, Arc<Link>),
    Fence { database: u32, issued_ms: u32 },
}

impl State {
    /// Returns the next work, if there is any.
    pub(super) fn next_work(&mut self) -> Option<Work> {
        if let Some(wire) = &self.wire
            && let Some((number, pending)) = self.order.next_ready()
        {
            return Some(Work::Send(number, Box::new(pending), Arc::clone(&wire.link)));
        }
        let first = self.order.begin_fence()?;
        Some(Work::Fence { database: first.database, issued_ms: first.issued_ms })
    }
}
