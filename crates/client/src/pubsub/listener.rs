//! The task of a subscription: connects, subscribes to the wanted names, reads, and begins again when the connection is lost.
//!
//! It has a connection of its own, because messages of a subscription on a shared one would go to every caller. It moves
//! frames into the inbox and decides nothing about them. It ends when there is no reader any more, or when the server refuses
//! the subscription for good.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sleeve_wire::frame::Scanner;
use sleeve_wire::slot;

use super::event;
use super::event::{PubSubFrame, SubscriptionEvent};
use super::inbox::Inbox;
use super::names::SubscriptionVerb;
use super::wanted::{Progress, WantedNames};
use crate::config::Config;
use crate::connection::connect::attempt::Attempt;
use crate::connection::connect::conversation::send_all;
use crate::connection::connect::refusal::Refusal;
use crate::connection::connect::sentinel::search::reach;
use crate::connection::connect::sentinel::service::Follower;
use crate::connection::connect::socket::Socket;
use crate::connection::heartbeat::{Advice, InFlight, SilenceWatch};
use crate::connection::probe::ServerHealth;
use crate::error::{Error, ErrorKind};
use crate::pipe::reply_reader::too_long;
use crate::reactor;
use crate::reactor::TaskWaker;
use crate::reactor::task_context::{TaskContext, WatchedStream};
use crate::sys::Process;
use crate::sys::{elapsed, now};
use crate::transport::cluster::Cluster;

/// The state that a reader of a connection shares with the subscription.
pub(crate) struct Listener {
    pub(crate) config: Config,
    pub(crate) upstream: Upstream,
    pub(crate) inbox: Inbox,
    pub(crate) task_waker: TaskWaker,
    /// The names that the subscription is to have, and the callers that wait for their confirmation.
    pub(crate) wanted: WantedNames,
    /// The process in which the subscription was made; only that process may read it.
    pub(crate) process: Process,
}

/// The server, or the cluster, that the subscription listens to.
pub(crate) enum Upstream {
    /// This server; its known state is shared by all of a client's connections.
    Server(Arc<ServerHealth>),
    /// A node of a cluster: any node, or for shard channels the owner of their slot.
    Cluster(Arc<Cluster>),
}

impl Listener {
    /// Returns the server to connect to now, and its known state.
    fn server(&self) -> Result<(Config, Arc<ServerHealth>), Error> {
        match &self.upstream {
            Upstream::Server(health) => Ok((self.config.clone(), Arc::clone(health))),
            Upstream::Cluster(cluster) => cluster.place(self.wanted.shard_channel().as_deref().map(slot::of_key)),
        }
    }

    /// Returns a follower of the server's address, if Sentinels are asked for it.
    fn follower(&self, task_waker: TaskWaker) -> Option<Follower> {
        match &self.upstream {
            Upstream::Server(health) => health.follow(task_waker),
            Upstream::Cluster(_) => None,
        }
    }

    /// Returns whether a server's refusal means that another server is to be asked, or the same one later.
    fn is_elsewhere(&self, error: &Error) -> bool {
        matches!(self.upstream, Upstream::Cluster(_))
            && matches!(error.code(), Some("MOVED" | "ASK" | "CLUSTERDOWN" | "LOADING"))
    }

    /// Makes the cluster's task ask for the cluster's map again, because it may have changed.
    fn doubt(&self) {
        if let Upstream::Cluster(cluster) = &self.upstream {
            cluster.doubt();
        }
    }

    /// Ends the subscription: no event will arrive any more, and nothing is confirmed.
    fn end(&self, error: Error) {
        self.wanted.end(error.clone());
        self.inbox.end(error);
    }
}

/// The largest number of bytes that one receive takes.
const BUFFER_LEN: usize = 64 * 1024;

/// The interval at which the task checks whether the cluster can name a server.
const SLICE: Duration = Duration::from_millis(50);

const PING: &[u8] = b"*1\r\n$4\r\nPING\r\n";

/// Starts the task. If it panics, the readers get an error, instead of waiting for ever.
pub(crate) fn start(listener: Arc<Listener>) -> io::Result<()> {
    let (task_waker, told) = (listener.task_waker, Arc::clone(&listener));
    let task = async move |context| {
        live(&listener, &context).await;
        // There is no task any more that could confirm a change to a waiting caller.
        listener.wanted.end(Error::unsent(ErrorKind::Closed, "the subscription was dropped"));
    };
    reactor::start(task_waker, task, move |_| {
        told.end(Error::unsent(ErrorKind::Closed, "the subscription's task panicked"))
    })
}

/// The reason why a connection has ended.
enum Cause {
    /// There is no reader any more.
    Abandoned,
    /// The server refuses this subscription.
    Refused(Error),
    /// The server refuses the connection: its password, its database. That may change later.
    Turned(Error),
    /// The connection was lost, or could not be made.
    Lost(Error),
}

impl From<Refusal> for Cause {
    fn from(refusal: Refusal) -> Self {
        if refusal.permanent { Self::Turned(refusal.error) } else { Self::Lost(refusal.error) }
    }
}

impl From<io::Error> for Cause {
    fn from(error: io::Error) -> Self {
        Self::Lost(Error::unsent(ErrorKind::Connect, format!("the subscription's connection was lost: {error}")))
    }
}

async fn live(listener: &Listener, context: &TaskContext) {
    let (mut has_begun, mut pause, began) = (false, listener.config.retry.backoff_min, now());
    let follower = listener.follower(context.task_waker());
    loop {
        let since = now();
        let cause = serve(listener, context, follower.as_ref(), &mut has_begun).await;
        if matches!(cause, Cause::Lost(_)) {
            listener.doubt();
        }
        match cause {
            // The cluster's map may have been wrong; the cluster's task asks for it again.
            Cause::Lost(error)
                if !has_begun && listener.is_elsewhere(&error) && elapsed(began) < listener.config.connect_timeout => {}
            Cause::Abandoned => return,
            Cause::Refused(error) => return listener.end(error),
            // Before the first confirmation, the subscribing caller gets the error at once. Later the task tries for ever.
            Cause::Turned(error) | Cause::Lost(error) if !has_begun => return listener.end(error),
            Cause::Lost(_) if elapsed(since) > pause => pause = listener.config.retry.backoff_min,
            Cause::Turned(_) | Cause::Lost(_) => pause = pause.saturating_mul(2).min(listener.config.retry.backoff_max),
        }
        if !rest(listener, context, pause, follower.as_ref()).await {
            return;
        }
        // The service has moved to another server, where no attempt has failed yet.
        if follower.as_ref().is_some_and(Follower::has_moved) {
            pause = listener.config.retry.backoff_min;
        }
    }
}

/// Waits before the next attempt, even if the wanted names are changed in that time; no longer if the service has moved to
/// another server. Returns false if there is no reader any more.
async fn rest(listener: &Listener, context: &TaskContext, pause: Duration, follower: Option<&Follower>) -> bool {
    // A time beyond the range of the machine's clock never passes.
    let until = now().checked_add(pause);
    loop {
        if listener.inbox.is_abandoned() {
            return false;
        }
        if until.is_some_and(|until| until <= now()) || follower.is_some_and(Follower::has_moved) {
            // A pause of zero lets the other tasks have their turns.
            context.yield_now().await;
            return true;
        }
        context.wait(until).await;
    }
}

/// Runs one connection, from its beginning to its end.
async fn serve(listener: &Listener, context: &TaskContext, follower: Option<&Follower>, has_begun: &mut bool) -> Cause {
    let (config, health) = match listener.server() {
        Ok(server) => server,
        Err(error) => return Cause::Lost(error),
    };
    let (socket, pings) = match subscribe(listener, &config, context, follower).await {
        Ok(subscribed) => subscribed,
        Err(_) if listener.inbox.is_abandoned() => return Cause::Abandoned,
        Err(cause) => return cause,
    };
    let watch = match context.watch(&*socket) {
        Ok(watch) => watch,
        Err(error) => return error.into(),
    };
    let mut reader = Reader {
        listener,
        socket: &socket,
        watch,
        context,
        silence_watch: SilenceWatch::new(&config, &health, &Arc::default()),
        pings,
        asked: false,
        received_total: 0,
        unsent: Vec::new(),
        confirmed_at: now(),
        resumes: false,
    };
    let cause = reader.read(has_begun).await;
    socket.shut();
    cause.unwrap_or_else(|cause| cause)
}

/// Connects and sends the request for all names. Also returns whether the server may be sent PING.
async fn subscribe(
    listener: &Listener,
    config: &Config,
    context: &TaskContext,
    follower: Option<&Follower>,
) -> Result<(Arc<Socket>, bool), Cause> {
    let mut tick = || (!listener.inbox.is_abandoned()).then_some(Duration::MAX);
    let mut attempt = Attempt::new(listener.config.connect_timeout, &mut tick);
    let (socket, greeting) = reach(follower, config, context, &mut attempt).await?;
    let request = listener.wanted.restart().map_err(Cause::Refused)?;
    send_all(&context.watch(&*socket)?, &request, context, &mut attempt).await?;
    Ok((socket, greeting.pings))
}

/// The reader of one connection.
struct Reader<'a> {
    listener: &'a Listener,
    socket: &'a Socket,
    watch: WatchedStream<&'a Socket>,
    context: &'a TaskContext,
    silence_watch: SilenceWatch,
    pings: bool,
    /// True if the server was sent PING, and has sent nothing since.
    asked: bool,
    received_total: u64,
    /// The bytes that the socket has not taken yet.
    unsent: Vec<u8>,
    /// The time at which the server last confirmed a name, or was last sent a change.
    confirmed_at: Instant,
    /// True if readers have to be told that messages may be missing.
    resumes: bool,
}

impl Reader<'_> {
    /// Reads until the connection ends.
    async fn read(&mut self, has_begun: &mut bool) -> Result<Cause, Cause> {
        let listener = self.listener;
        let (mut scanner, mut received) = (Scanner::new(), Vec::new());
        let mut room = vec![0; BUFFER_LEN];
        self.resumes = *has_begun;
        if listener.wanted.has_begun() {
            self.resume();
        }
        loop {
            if listener.inbox.is_abandoned() {
                return Ok(Cause::Abandoned);
            }
            match self.socket.receive(&mut room) {
                Ok(0) => return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
                Ok(count) => {
                    received.extend_from_slice(room.get(..count).unwrap_or_default());
                    self.received_total += count as u64;
                    self.asked = false;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.wait().await?;
                    continue;
                }
                Err(error) => return Err(error.into()),
            }
            let mut start = 0;
            while let Some(length) = scanner.scan(received.get(start..).unwrap_or_default()).map_err(broken)? {
                while listener.inbox.is_full() {
                    self.context.wait(None).await;
                }
                let frame = received.get(start..start + length).unwrap_or_default();
                start += length;
                self.take(frame, has_begun)?;
            }
            received.drain(..start);
            check_length(&scanner, &mut received, listener.config.limits.reply_bytes_max)?;
            // If the server sends without a pause, the other tasks still get their turns, and waiting requests are sent.
            self.prepare()?;
            self.context.yield_now().await;
        }
    }

    /// Waits until an event arrives or the next check is due.
    async fn wait(&mut self) -> Result<(), Cause> {
        let timeout = self.prepare()?;
        self.watch.arm(!self.unsent.is_empty() || self.socket.has_residue())?;
        // A time beyond the range of the machine's clock never passes.
        self.context.wait(timeout.and_then(|timeout| now().checked_add(timeout))).await;
        Ok(())
    }

    /// Sends the waiting requests, and returns the time until the next check is due.
    fn prepare(&mut self) -> Result<Option<Duration>, Cause> {
        let listener = self.listener;
        let wait_max = match listener.wanted.has_begun() {
            true => None,
            false => Some(listener.config.connect_timeout.saturating_sub(elapsed(self.confirmed_at))),
        };
        if wait_max == Some(Duration::ZERO) {
            let error = io::Error::new(io::ErrorKind::TimedOut, "the server did not confirm it in time");
            return Err(error.into());
        }
        let watched = self.watch()?;
        self.send()?;
        self.socket.flush()?;
        Ok(wait_max.into_iter().chain(watched).min())
    }

    /// Tells the readers that messages may be missing, once for each connection.
    fn resume(&mut self) {
        if std::mem::take(&mut self.resumes) {
            self.listener.inbox.put(SubscriptionEvent::Resumed);
        }
    }

    /// Takes a received frame; an error ends the connection.
    fn take(&mut self, frame: &[u8], has_begun: &mut bool) -> Result<(), Cause> {
        let listener = self.listener;
        match event::read(frame) {
            PubSubFrame::Confirmed(verb) => {
                self.confirmed_at = now();
                let progress = listener.wanted.confirm(verb);
                if verb == SubscriptionVerb::SUnsubscribe
                    && progress == Progress::None
                    && listener.wanted.shard_channel().is_some()
                {
                    return Err(Cause::Lost(Error::unsent(
                        ErrorKind::Connect,
                        "the slot of the shard channels has moved",
                    )));
                }
                if progress != Progress::None {
                    self.resume();
                }
                if progress == Progress::Begun && !std::mem::replace(has_begun, true) {
                    listener.inbox.begin();
                }
            }
            PubSubFrame::Message(message) => {
                if !listener.inbox.put(SubscriptionEvent::Message(message)) {
                    return Err(Cause::Abandoned);
                }
            }
            // Another server is asked instead; the names stay wanted.
            PubSubFrame::Refused(error) if listener.is_elsewhere(&error) => return Err(Cause::Lost(error)),
            PubSubFrame::Refused(error) => {
                let beginning = !listener.wanted.has_begun();
                match listener.wanted.refuse(&error) {
                    Progress::Beginning => return Err(Cause::Refused(error)),
                    // The next connection begins without the refused names.
                    Progress::Change if beginning => return Err(Cause::Lost(error)),
                    _ => {}
                }
            }
            PubSubFrame::Other => {}
        }
        Ok(())
    }

    /// Sends the changes that were asked for, as far as the socket takes them.
    fn send(&mut self) -> Result<(), Cause> {
        self.unsent.extend(self.listener.wanted.take_unsent().map_err(Cause::Refused)?);
        while !self.unsent.is_empty() {
            match self.socket.send(&self.unsent) {
                Ok(count) => _ = self.unsent.drain(..count),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Checks whether the server is still there, and returns the time until the next check.
    fn watch(&mut self) -> Result<Option<Duration>, Cause> {
        let flight = if self.asked { InFlight::Commands } else { InFlight::Nothing };
        match self.silence_watch.look(self.received_total, flight, None) {
            Advice::Sleep(time) => Ok(time),
            Advice::GiveUp(why) => Err(io::Error::other(why).into()),
            Advice::Ask => {
                // If PING cannot be sent now, it is sent at a later check, or the connection is found to be lost.
                self.asked = self.pings && self.unsent.is_empty();
                if self.asked {
                    self.unsent.extend_from_slice(PING);
                }
                Ok(Some(SLICE))
            }
        }
    }
}

/// The length of the buffer that is kept although fewer bytes are needed.
const KEPT_LEN: usize = 1024 * 1024;

/// Fails if the message at the beginning of the buffer is longer than the bound. Gives back the memory of a long message that
/// was taken.
fn check_length(scanner: &Scanner, received: &mut Vec<u8>, bytes_max: usize) -> Result<(), Cause> {
    if received.len() < BUFFER_LEN {
        received.shrink_to(KEPT_LEN);
        return Ok(());
    }
    let length = scanner.length_min(received);
    if length > bytes_max as u64 { Err(Cause::Lost(too_long(length, bytes_max))) } else { Ok(()) }
}

fn broken(error: sleeve_wire::frame::FrameError) -> Cause {
    Cause::Lost(Error::protocol(error))
}
