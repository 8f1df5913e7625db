//! The probe of a server that is silent on one connection: it is asked on another.
//!
//! A server may be silent for good reasons: a long script, a fork, a command that waits. A server that answers on a new
//! connection in any way is alive. A task asks, and ends with the answer. There is at most one such task for all connections
//! of a client, and an answer that any of them receives serves all.
//!
//! If the server is the node of a cluster, the other nodes are asked sooner whether it still has its slots: a silent node
//! that has no slots any more was replaced, and no caller waits for it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use crate::config::Config;
use crate::connection::connect::attempt::Attempt;
use crate::connection::connect::dial::{dial, dial_host};
use crate::connection::connect::sentinel::service::{Follower, Service};
use crate::pipe::reply_reader::ErrorObserver;
use crate::reactor::task_context::TaskContext;
use crate::reactor::{TaskWaker, start};
use crate::sys::lock::Mutex;
use crate::sys::now;

/// The pause between two attempts at a server that refuses.
const PAUSE: Duration = Duration::from_millis(100);

/// The silence of a node, with commands in flight, after which the other nodes are asked about it: they know its replacement
/// long before the connection's own limit. A busy node may be silent for as long, which costs one request.
const SUSPICION: Duration = Duration::from_secs(1);

/// The pause between two such requests to other nodes.
const INQUIRY_PERIOD: Duration = Duration::from_millis(500);

/// The knowledge of their server that the connections of one client share.
#[derive(Default)]
pub(crate) struct ServerHealth {
    state: Mutex<ProbeRecord>,
    /// The service of the server, if Sentinels are asked for its place.
    service: Option<Arc<Service>>,
    /// The cluster's task, which asks other nodes whether this node still has its slots; none for a single server.
    inquirer: Option<TaskWaker>,
    /// True if the cluster's task has to ask about this node.
    is_suspected: AtomicBool,
}

#[derive(Default)]
struct ProbeRecord {
    /// The time at which a connection last received bytes from the server.
    heard: Option<Instant>,
    /// The time at which the last probe without an answer was begun.
    unanswered: Option<Instant>,
    asking: bool,
    /// The time at which a silent connection last reported its suspicion.
    suspected: Option<Instant>,
    /// The time at which the cluster reported that other nodes have all slots of this one, while it was suspected.
    replaced: Option<Instant>,
}

/// The known state of a server.
pub(crate) enum ProbeState {
    /// The server sent bytes at this time.
    Heard(Instant),
    /// The server did not answer a probe that was begun after the silence had begun.
    Gone,
    /// A probe is in flight.
    Asking,
    /// The server was not probed.
    None,
}

impl ServerHealth {
    /// Creates the state of the server that this configuration names, with nothing known yet.
    pub(crate) fn of(config: &Config) -> Arc<Self> {
        Arc::new(Self { service: Service::of(config), ..Self::default() })
    }

    /// Creates the state of the node of a cluster, with nothing known yet; the cluster's task asks other nodes about it.
    pub(crate) fn of_node(inquirer: TaskWaker) -> Arc<Self> {
        Arc::new(Self { inquirer: Some(inquirer), ..Self::default() })
    }

    /// Returns the length of a silence after which other nodes are asked about this one; none for a single server.
    pub(crate) fn suspicion(&self, silence_max: Duration) -> Option<Duration> {
        self.inquirer.map(|_| SUSPICION.min(silence_max / 5))
    }

    /// Notes that a connection is silent. From time to time, the cluster's task is woken to ask other nodes.
    pub(crate) fn suspect(&self, now: Instant) {
        let mut state = self.state.lock();
        if state.suspected.is_none_or(|suspected| now.saturating_duration_since(suspected) >= INQUIRY_PERIOD) {
            state.suspected = Some(now);
            drop(state);
            self.is_suspected.store(true, Ordering::Release);
            self.inquirer.iter().for_each(|inquirer| inquirer.wake());
        }
    }

    /// Returns whether other nodes have to be asked about this one, and clears that mark.
    pub(crate) fn take_suspicion(&self) -> bool {
        self.is_suspected.load(Ordering::Relaxed) && self.is_suspected.swap(false, Ordering::Acquire)
    }

    /// Returns whether no bytes have arrived since a connection suspected the server.
    pub(crate) fn is_silent(&self) -> bool {
        let state = self.state.lock();
        state.suspected.is_some() && state.suspected > state.heard
    }

    /// Notes that other nodes have all slots of this one. A connection on which it is silent then ends.
    pub(crate) fn replace(&self, now: Instant) {
        self.state.lock().replaced = Some(now);
    }

    /// Returns whether the node was replaced since this time, and has sent no bytes.
    pub(crate) fn is_replaced(&self, since: Instant) -> bool {
        let state = self.state.lock();
        state.replaced.is_some_and(|replaced| replaced > since) && state.replaced > state.heard
    }

    /// Returns the service, if Sentinels are asked for the server's address.
    pub(crate) fn service(&self) -> Option<&Arc<Service>> {
        self.service.as_ref()
    }

    /// Registers the task of this waker as a follower of the server's address. Returns none if the address is fixed.
    pub(crate) fn follow(&self, task_waker: TaskWaker) -> Option<Follower> {
        self.service.as_ref().map(|service| service.follow(task_waker))
    }

    /// Returns the observer that is notified when the server refuses commands: the connection, if the server's address may
    /// change.
    pub(crate) fn error_observer<W: ErrorObserver + 'static>(
        &self,
        connection: &Weak<W>,
    ) -> Option<Weak<dyn ErrorObserver>> {
        self.service.as_ref().map(|_| connection.clone() as Weak<dyn ErrorObserver>)
    }

    /// Notes that the server has sent bytes.
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

    /// Starts a task that probes the server until the deadline.
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
            // If the probe could not be sent, the server does not count as silent.
            unasked.state.lock().asking = false;
        }
    }
}

/// Returns whether the server sends any bytes on a new connection before the deadline.
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
            // A server that answers with a fault in its TLS is alive.
            Err(error) if error.kind() == std::io::ErrorKind::InvalidData => return true,
            Err(_) => {}
        }
        let again = (now() + PAUSE).min(deadline);
        while now() < again {
            context.wait(Some(again)).await;
        }
    }
}

/// Connects, sends a request, and returns the number of bytes that arrived.
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
    // ECHO without an argument is refused, and a refusal is an answer: a server gives it before it asks for a password, and
    // while CLIENT PAUSE holds up every command that can be executed. So few bytes always find room on a fresh connection.
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
