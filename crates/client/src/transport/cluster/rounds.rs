//! The rounds of requests for the owners of slots: the time of the next round, and the progress of the present one. Pure data
//! of the cluster's task.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::pipe::slot::Handle;
use crate::transport::node::Node;

/// The shortest pause between two rounds of requests.
pub(super) const REFRESH_PAUSE: Duration = Duration::from_millis(50);

/// A request for the owners of slots that is in flight.
pub(super) struct Question {
    pub(super) handle: Handle,
    pub(super) asked: Arc<Node>,
    pub(super) until: Instant,
}

/// The rounds of requests for the map: in each round, one node after the other is asked until one answers.
pub(super) struct Rounds {
    pub(super) question: Option<Question>,
    /// The nodes to ask next if this one does not answer.
    pub(super) candidates: VecDeque<Arc<Node>>,
    pub(super) is_under_way: bool,
    /// The time at which the next round begins.
    pub(super) next_at: Option<Instant>,
    /// The time at which the last round began.
    pub(super) began: Option<Instant>,
    /// The number of rounds in a row without an answer.
    pub(super) failed: u32,
}

impl Rounds {
    /// Returns rounds of which the first begins at this time.
    pub(super) fn from(at: Instant) -> Self {
        let (question, candidates, is_under_way, began, failed) = Default::default();
        Self { question, candidates, is_under_way, next_at: Some(at), began, failed }
    }

    /// Plans a round, as soon as the pause since the last one allows. A round in progress may bring an older state than the
    /// one just seen, so another one is planned.
    pub(super) fn want(&mut self, now: Instant) {
        let pause_over = self.began.map_or(now, |began| began + REFRESH_PAUSE);
        self.plan(pause_over.max(now));
    }

    /// Plans a round for this time, if none is planned for an earlier one.
    pub(super) fn plan(&mut self, at: Instant) {
        self.next_at = Some(self.next_at.map_or(at, |planned| planned.min(at)));
    }

    /// Returns the time at which the node that is being asked has taken too long, or the next round begins.
    pub(super) fn next_look(&self) -> Option<Instant> {
        // While a node is being asked, the next round waits for its answer.
        let next = self.next_at.filter(|_| !self.is_under_way);
        self.question.as_ref().map(|question| question.until).into_iter().chain(next).min()
    }
}
