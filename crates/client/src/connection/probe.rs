//! Whether a server that is silent on one connection answers on another.
//!
//! A server may be silent for good reasons: a long script, a fork, a command that waits. One that answers whoever comes anew
//! is there, whatever it answers. The question is asked by a task that lives as long as the question, at most one at a time
//! for all connections of a client, and what any of them hears serves all.
//!
//! Where the server is the node of a cluster, the others are asked sooner whether it still has its slots: one that is silent
//! and has none any more was replaced, and nobody waits for it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use crate::config::Config;
use crate::connect::attempt::Attempt;
use crate::connect::dial::{dial, dial_host};
use crate::connect::sentinel::service::{Follower, Service};
use crate::pipe::reply_reader::ErrorObserver;
use crate::process::lock::Mutex;
use crate::reactor::task_context::TaskContext;
use crate::reactor::{TaskWaker, start};
use crate::sys::now;

/// Between two tries at a server that refuses.
const PAUSE: Duration = Duration::from_millis(100);

/// After how long a silence of a node with commands in flight the others of its cluster are asked about it: what has taken its
/// place they know long before it counts as gone. A node may be silent for as long because it is busy, which costs a question.
const SUSPICION: Duration = Duration::from_secs(1);

/// Between two such questions.
const INQUIRY_PERIOD: Duration = Duration::from_millis(500);

/// What the connections of one client know of their server.
#[derive(Default)]
pub(crate) struct ServerHealth {
    state: Mutex<State>,
    /// Where it is, if Sentinels are asked for that.
    service: Option<Arc<Service>>,
    /// The task that asks others whether this server still has its part, where it is the node of a cluster.
    inquirer: Option<TaskWaker>,
    /// Whether that task is to ask.
    is_suspected: AtomicBool,
}

#[derive(Default)]
struct State {
    /// When somebody last heard from the server.
    heard: Option<Instant>,
    /// When the question was asked that had no answer last.
    unanswered: Option<Instant>,
    asking: bool,
    /// When a connection that heard nothing said so last.
    suspected: Option<Instant>,
    /// When the cluster said that others have all its slots, while it was suspected.
    replaced: Option<Instant>,
}

/// What is known of a server.
pub(crate) enum ProbeState {
    /// It was heard at this time.
    Heard(Instant),
    /// It did not answer a question that was asked after the silence had begun.
    Gone,
    /// Somebody is asking.
    Asking,
    /// Nobody has asked.
    None,
}

impl ServerHealth {
    /// Nothing is known yet of the server that this configuration names.
    pub(crate) fn of(config: &Config) -> Arc<Self> {
        Arc::new(Self { service: Service::of(config), ..Self::default() })
    }

    /// Nothing is known yet of the node of a cluster, whose task asks others about it.
    pub(crate) fn of_node(inquirer: TaskWaker) -> Arc<Self> {
        Arc::new(Self { inquirer: Some(inquirer), ..Self::default() })
    }

    /// After how long a silence others are asked about it, where there are others.
    pub(crate) fn suspicion(&self, silence_max: Duration) -> Option<Duration> {
        self.inquirer.map(|_| SUSPICION.min(silence_max / 5))
    }

    /// A connection has heard nothing since then: others are asked about it, now and then.
    pub(crate) fn suspect(&self, now: Instant) {
        let mut state = self.state.lock();
        if state.suspected.is_none_or(|suspected| now.saturating_duration_since(suspected) >= INQUIRY_PERIOD) {
            state.suspected = Some(now);
            drop(state);
            self.is_suspected.store(true, Ordering::Release);
            self.inquirer.iter().for_each(|inquirer| inquirer.wake());
        }
    }

    /// Whether others are to be asked about it. Says so once.
    pub(crate) fn take_suspicion(&self) -> bool {
        self.is_suspected.load(Ordering::Relaxed) && self.is_suspected.swap(false, Ordering::Acquire)
    }

    /// Whether it has not been heard of since a connection suspected it.
    pub(crate) fn is_silent(&self) -> bool {
        let state = self.state.lock();
        state.suspected.is_some() && state.suspected > state.heard
    }

    /// Others have all that it had. A connection on which it is silent waits for it no longer.
    pub(crate) fn replace(&self, now: Instant) {
        self.state.lock().replaced = Some(now);
    }

    /// Whether it was replaced since then, and not heard of.
    pub(crate) fn is_replaced(&self, since: Instant) -> bool {
        let state = self.state.lock();
        state.replaced.is_some_and(|replaced| replaced > since) && state.replaced > state.heard
    }

    /// What Sentinels are asked for, if they are.
    pub(crate) fn service(&self) -> Option<&Arc<Service>> {
        self.service.as_ref()
    }

    /// The task of this waker connects to the server from now on, wherever it is. None where it is always at one place.
    pub(crate) fn follow(&self, task_waker: TaskWaker) -> Option<Follower> {
        self.service.as_ref().map(|service| service.follow(task_waker))
    }

    /// Whoever is to know when the server turns commands away: a connection, where the server may turn out to be elsewhere.
    pub(crate) fn error_observer<W: ErrorObserver + 'static>(
        &self,
        connection: &Weak<W>,
    ) -> Option<Weak<dyn ErrorObserver>> {
        self.service.as_ref().map(|_| connection.clone() as Weak<dyn ErrorObserver>)
    }

    /// The server has said something.
    pub(crate) fn hear(&self, at: Instant) {
        let mut state = self.state.lock();
        state.heard = state.heard.max(Some(at));
    }

    /// What is known about the time after `since`.
    pub(crate) fn known(&self, since: Instant) -> ProbeState {
        let state = self.state.lock();
        match (state.heard, state.unanswered) {
            (Some(heard), _) if heard > since => ProbeState::Heard(heard),
            (_, Some(asked)) if asked > since => ProbeState::Gone,
            _ if state.asking => ProbeState::Asking,
            _ => ProbeState::None,
        }
    }

    /// Has a task ask until the deadline.
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
            // Where nobody can ask, nobody is accused.
            unasked.state.lock().asking = false;
        }
    }
}

/// Whether the server says anything on a connection of its own before the deadline.
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
            // Whoever speaks TLS wrongly is there.
            Err(error) if error.kind() == std::io::ErrorKind::InvalidData => return true,
            Err(_) => {}
        }
        let again = (now() + PAUSE).min(deadline);
        while now() < again {
            context.wait(Some(again)).await;
        }
    }
}

/// Connects, asks, and says how many bytes came.
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
