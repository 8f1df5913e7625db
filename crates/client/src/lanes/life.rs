//! The life of a lane's connection: it is opened when a call needs it, and closed after an idle time.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::Lane;
use super::state::{State, Wire};
use crate::error::{Error, ErrorKind};
use crate::pipe::slot::Source;
use crate::reactor::task_context::TaskContext;
use crate::reactor::{self, TaskWaker};
use crate::sys::now;
use crate::transport::Transport;

/// The interval of the checks whether calls that have timed out can still be executed.
const LATE_LOOK: Duration = Duration::from_secs(1);

impl Lane {
    /// Returns the lane's connection, which it opens if there is none.
    pub(super) fn wire<'a>(self: &Arc<Self>, state: &'a mut State) -> Result<&'a mut Wire, Error> {
        if state.wire.is_none() {
            state.wire = Some(self.open()?);
        }
        let wire = state.wire.as_mut().ok_or_else(|| Error::closed("the lane was closed"))?;
        wire.idle_since = None;
        let connection = wire.link.connection.load(Ordering::Relaxed);
        if wire.connection != connection {
            wire.connection = connection;
            wire.source.renew_for(connection);
        }
        Ok(wire)
    }

    fn open(self: &Arc<Self>) -> Result<Wire, Error> {
        let Transport::Remote(link) = self.transport.separate(true)? else {
            return Err(Error::usage("there are lanes only over a connection to one server"));
        };
        let me = Arc::downgrade(self);
        let watch = async move |context: TaskContext| {
            while let Some(until) = me.upgrade().and_then(|lane| lane.look()) {
                context.wait(Some(until)).await;
            }
        };
        let failed = |error| Error::unsent(ErrorKind::Connect, format!("cannot watch over a connection: {error}"));
        TaskWaker::new().and_then(|task_waker| reactor::start(task_waker, watch, |_| ())).map_err(failed)?;
        let (source, connection) = (Source::new(Arc::downgrade(&link) as _), link.connection.load(Ordering::Relaxed));
        Ok(Wire { link, source, connection, idle_since: Some(now()) })
    }

    /// Closes the connection if it was idle for long. Returns the time of the next check; none if there is no connection.
    fn look(self: &Arc<Self>) -> Option<Instant> {
        let now = now();
        let mut state = self.state.lock();
        let link = Arc::clone(&state.wire.as_ref()?.link);
        if state.order.has_late() {
            drop(state);
            let is_idle = link.is_idle();
            state = self.state.lock();
            if is_idle && state.in_flight.is_empty() && state.order.has_all_left() {
                state.order.settle();
                self.calls.store(state.order.len(), Ordering::Relaxed);
            }
        }
        if !state.order.is_empty() {
            let pause = if state.order.has_late() { LATE_LOOK } else { self.options.idle_after };
            return now.checked_add(pause);
        }
        let idle_since = *state.wire.as_mut()?.idle_since.get_or_insert(now);
        let until = idle_since.checked_add(self.options.idle_after);
        if until.is_none_or(|until| until > now) {
            return until;
        }
        state.closed = state.wire.take().map(|wire| wire.link);
        drop(state);
        // A close without a wait cannot fail.
        let _ = link.close(None);
        None
    }
}
