//! The probe of a server that is silent on one connection: whether it answers on another.
//!
//! A server may be silent for good reasons: a long script, a fork, a command that waits. A server that answers a new
//! connection is there, with any answer. A task asks the question and lives as long as the question, at most one at a time
//! for all connections of a client, and an answer that any of them receives serves all.
//!
//! If the server is the node of a cluster, the other nodes are asked sooner whether it still has its slots: a node that is
//! silent and has none any more was replaced, and no caller waits for it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use crate::config::Config;
use crate::connect::attempt::Attempt;
use crate::connect::dial::{dial, dial_host};
use crate::connect::sentinel::service::{Follower, Service};
use crate::pipe::reply_reader::ErrorObserver;
use crate::reactor::task_context::TaskContext;
use crate::reactor::{TaskWaker, start};
use crate::sys::lock::Mutex;
use crate::sys::now;

/// The pause between two tries at a server that refuses.
const PAUSE: Duration = Duration::from_millis(100);

/// The silence of a node with commands in flight after which the others of its cluster are asked about it: they know its
/// replacement long before the node counts as gone. A node may be silent for as long because it is busy, which costs a
/// question.
const SUSPICION: Duration = Duration::from_secs(1);

/// The pause between two such questions.
const INQUIRY_PERIOD: Duration = Duration::from_millis(500);

/// The knowledge of their server that the connections of one client share.
#[derive(Default)]
pub(crate) struct ServerHealth {
    state: Mutex<ProbeRecord>,
    /// The service of the server, if Sentinels are asked for its place.
    service: Option<Arc<Service>>,
    /// The task that asks others whether this server still has its part, where it is the node of a cluster.
    inquirer: Option<TaskWaker>,
    /// True if that task is to ask.
    is_suspected: AtomicBool,
}

#[derive(Default)]
struct ProbeRecord {
    /// The time at which a connection last received something from the server.
    heard: Option<Instant>,
    /// The time at which the last question without an answer was asked.
    unanswered: Option<Instant>,
    asking: bool,
    /// The time at which a connection without received bytes last reported it.
    suspected: Option<Instant>,
    /// The time at which the cluster said that others have all its slots, while it was suspected.
    replaced: Option<Instant>,
}

/// The known state of a server.
pub(crate) enum ProbeState {
    /// The server sent something at this time.
    Heard(Instant),
    /// The server did not answer a question that was asked after the silence had begun.
    Gone,
    /// A probe is in flight.
    Asking,
    /// The server was not probed.
    None,
}

impl ServerHealth {
    /// Creates the state, with nothing known yet, of the server that this configuration names.
    pub(crate) fn of(config: &Config) -> Arc<Self> {
        Arc::new(Self { service: Service::of(config), ..Self::default() })
    }

    /// Creates the state, with nothing known yet, of the node of a cluster; the cluster's task asks others about it.
    pub(crate) fn of_node(inquirer: TaskWaker) -> Arc<Self> {
        Arc::new(Self { inquirer: Some(inquirer), ..Self::default() })
    }

    /// Returns the length of a silence after which others are asked about it, if there are others.
    pub(crate) fn suspicion(&self, silence_max: Duration) -> Option<Duration> {
        self.inquirer.map(|_| SUSPICION.min(silence_max / 5))
    }

    /// Notes that a connection has received nothing since then: others are asked about it, now and then.
    pub(crate) fn suspect(&self, now: Instant) {
        let mut state = self.state.lock();
        if state.suspected.is_none_or(|suspected| now.saturating_duration_since(suspected) >= INQUIRY_PERIOD) {
            state.suspected = Some(now);
            drop(state);
            self.is_suspected.store(true, Ordering::Release);
            self.inquirer.iter().for_each(|inquirer| inquirer.wake());
        }
    }

    /// Returns whether others are to be asked about it. Says so once.
    pub(crate) fn take_suspicion(&self) -> bool {
        self.is_suspected.load(Ordering::Relaxed) && self.is_suspected.swap(false, Ordering::Acquire)
    }

    /// Returns whether it has not been heard of since a connection suspected it.
    pub(crate) fn is_silent(&self) -> bool {
        let state = self.state.lock();
        state.suspected.is_some() && state.suspected > state.heard
    }

    /// Others have all that it had. A connection on which it is silent waits for it no longer.
    pub(crate) fn replace(&self, now: Instant) {
        self.state.lock().replaced = Some(now);
    }

    /// Returns whether it was replaced since then, and not heard of.
    pub(crate) fn is_replaced(&self, since: Instant) -> bool {
        let state = self.state.lock();
        state.replaced.is_some_and(|replaced| replaced > since) && state.replaced > state.heard
    }

    /// Returns the service that Sentinels are asked for, if they are.
    pub(crate) fn service(&self) -> Option<&Arc<Service>> {
        self.service.as_ref()
    }

    /// Makes the task of this waker follow the server from now on, at any place. Returns none if the server is always at
    /// one place.
    pub(crate) fn follow(&self, task_waker: TaskWaker) -> Option<Follower> {
        self.service.as_ref().map(|service| service.follow(task_waker))
    }

    /// Returns the observer that is notified when the server turns commands away: a connection, if the server may turn out to
    /// be elsewhere.
    pub(crate) fn error_observer<W: ErrorObserver + 'static>(
        &self,
        connection: &Weak<W>,
    ) -> Option<Weak<dyn ErrorObserver>> {
        self.service.as_ref().map(|_| connection.clone() as Weak<dyn ErrorObserver>)
    }

    /// Notes that the server has sent something.
    pub(crate) fn hear(&self, at: Instant) {
        let mut state = self.state.lock();
        state.heard = state.heard.max(Some(at));
    }

    /// Returns the known state for the time after `since`.
    pub(crate) fn known(&self, since: Instant) -> ProbeState {
        let state = self.state.lock();
        match (state.heard, state.unanswered) {
            (Some(heard), _) if heard > since => ProbeState::Heard(heard),
            (_, Some(asked)) if asked > since => ProbeState::Gone,
            _ if state.asking => ProbeState::Asking,
            _ => ProbeState::None,
        }
    }

    /// Starts a task that asks until the deadline.
    pub(crate) fn ask(self: &Arc<Self>, config: &Config, deadline: Instant) {
        self.state.lock().asking = true;
        let (health, config) = (self.clone(), config.clone());
        let asked = now();
        let (unasked, failed) = (Arc::clone(&health), Arc::clone(&health));
        let ask = async move |context: TaskContext| {
            let answered = asks(&config, health.service.as_deref(), deadline, &context).await;
            let mut state = health.state.lock();
            state.asking = false;
            if answered { state.heard = Some(now()) } else { state.unanswered = Some(asked) }
        };
        let started =
            TaskWaker::new().and_then(|task_waker| start(task_waker, ask, move |_| failed.state.lock().asking = false));
        if started.is_err() {
            // If no question can be asked, no server is accused.
            unasked.state.lock().asking = false;
        }
    }
}

/// Returns whether the server says anything on a connection of its own before the deadline.
async fn asks(config: &Config, service: Option<&Service>, deadline: Instant, context: &TaskContext) -> bool {
    let mut tick = || Some(PAUSE);
    loop {
        let left = deadline.saturating_duration_since(now());
        if left.is_zero() {
            return false;
        }
        let mut attempt = Attempt::new(left, &mut tick);
        match ask_once(config, service, context, &mut attempt).await {
            Ok(0) => {}
            Ok(_) => return true,
            // A server that speaks TLS wrongly is there.
            Err(error) if error.kind() == std::io::ErrorKind::InvalidData => return true,
            Err(_) => {}
        }
        let again = (now() + PAUSE).min(deadline);
        while now() < again {
            context.wait(Some(again)).await;
        }
    }
}

/// Connects, asks, and returns how many bytes arrived.
async fn ask_once(
    config: &Config,
    service: Option<&Service>,
    context: &TaskContext,
    attempt: &mut Attempt<'_>,
) -> std::io::Result<usize> {
    let socket = match service.and_then(Service::primary) {
        None => dial(config, context, attempt).await?,
        Some(place) => dial_host(config, &place.host, place.port, context, attempt).await?,
    };
    let watch = context.watch(&socket)?;
    // An ECHO of nothing is refused, and a refusal is an answer: a server gives it before it asks for a password, and while
    // CLIENT PAUSE holds up everything that can be executed. So few bytes always find room on a fresh connection.
    socket.send(b"*1\r\n$4\r\nECHO\r\n")?;
    loop {
        match socket.receive(&mut [0; 64]) {
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                watch.arm(false)?;
                attempt.wait(context).await?;
            }
            outcome => return outcome,
        }
    }
}
