//! The task of a subscription: connects, subscribes to the wanted names, reads, and begins again when the connection is lost.
//!
//! It has a connection of its own, because messages of a subscription on a shared one would go to every caller. It moves
//! frames into the inbox and decides nothing about them. It ends when there is no reader any more, or when the server refuses
//! for good.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sleeve_wire::frame::Scanner;

use super::event;
use super::event::{PubSubFrame, SubscriptionEvent};
use super::inbox::Inbox;
use super::names::SubscriptionVerb;
use super::wanted::{Progress, WantedNames};
use crate::config::Config;
use crate::connect::attempt::Attempt;
use crate::connect::conversation::send_all;
use crate::connect::refusal::Refusal;
use crate::connect::sentinel::search::reach;
use crate::connect::sentinel::service::Follower;
use crate::connect::socket::Socket;
use crate::connection::heartbeat::{Advice, InFlight, SilenceWatch};
use crate::connection::probe::ServerHealth;
use crate::error::{Error, ErrorKind};
use crate::pipe::reply_reader::too_long;
use crate::reactor;
use crate::reactor::TaskWaker;
use crate::reactor::task_context::{TaskContext, WatchedStream};
use crate::sys::fork::Process;
use crate::sys::{elapsed, now};
use crate::transport::cluster::Cluster;
use crate::transport::cluster::slots::slot_of;

/// The state that a reader of a connection shares with the subscription.
pub(crate) struct Listener {
    pub(crate) config: Config,
    pub(crate) upstream: Upstream,
    pub(crate) inbox: Inbox,
    pub(crate) task_waker: TaskWaker,
    /// The names that it is subscribed to, and the callers that wait until it is.
    pub(crate) wanted: WantedNames,
    /// The process in which it was made, and in which alone it may be read.
    pub(crate) process: Process,
}

/// The place where it listens.
pub(crate) enum Upstream {
    /// At this server, of which all of a client's connections know this.
    Server(Arc<ServerHealth>),
    /// At a node of a cluster: any, or the owner of the slot in which shard channels lie.
    Cluster(Arc<Cluster>),
}

impl Listener {
    /// Returns the server that is listened to now, and the known state of it.
    fn server(&self) -> Result<(Config, Arc<ServerHealth>), Error> {
        match &self.upstream {
            Upstream::Server(health) => Ok((self.config.clone(), Arc::clone(health))),
            Upstream::Cluster(cluster) => cluster.place(self.wanted.shard_channel().as_deref().map(slot_of)),
        }
    }

    /// Returns the follower of the server's address, if there is a service to follow.
    fn follower(&self, task_waker: TaskWaker) -> Option<Follower> {
        match &self.upstream {
            Upstream::Server(health) => health.follow(task_waker),
            Upstream::Cluster(_) => None,
        }
    }

    /// Returns whether a server's refusal says that another server is to be asked, or the same later.
    fn is_elsewhere(&self, error: &Error) -> bool {
        matches!(self.upstream, Upstream::Cluster(_))
            && matches!(error.code(), Some("MOVED" | "ASK" | "CLUSTERDOWN" | "LOADING"))
    }

    /// Notes a sign that the cluster has changed.
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

/// Bytes that one receive takes at most.
const BUFFER_LEN: usize = 64 * 1024;

/// The time until the task checks again whether there is something to ask.
const SLICE: Duration = Duration::from_millis(50);

const PING: &[u8] = b"*1\r\n$4\r\nPING\r\n";

/// Starts the task. If it panics, the readers are told so, instead of waiting for ever.
pub(crate) fn start(listener: Arc<Listener>) -> io::Result<()> {
    let (task_waker, told) = (listener.task_waker, Arc::clone(&listener));
    let task = async move |context| {
        live(&listener, &context).await;
        // No task is left to confirm anything to a waiting caller.
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
    /// The server does not want this subscription.
    Refused(Error),
    /// The server does not want the connection: its password, its database. That may change, as it does for a client.
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
            // The map may have been wrong: the owner of the slot is about to be known.
            Cause::Lost(error)
                if !has_begun && listener.is_elsewhere(&error) && elapsed(began) < listener.config.connect_timeout => {}
            Cause::Abandoned => return,
            Cause::Refused(error) => return listener.end(error),
            // A caller that subscribes is told at once when that does not work; later on it is tried for ever.
            Cause::Turned(error) | Cause::Lost(error) if !has_begun => return listener.end(error),
            Cause::Lost(_) if elapsed(since) > pause => pause = listener.config.retry.backoff_min,
            Cause::Turned(_) | Cause::Lost(_) => pause = pause.saturating_mul(2).min(listener.config.retry.backoff_max),
        }
        if !rest(listener, context, pause, follower.as_ref()).await {
            return;
        }
        // Elsewhere nothing has failed yet.
        if follower.as_ref().is_some_and(Follower::has_moved) {
            pause = listener.config.retry.backoff_min;
        }
    }
}

/// Waits before the next attempt, however often the wanted names are changed; no longer if the server turns out to be
/// elsewhere. Returns false when there is no reader any more.
async fn rest(listener: &Listener, context: &TaskContext, pause: Duration, follower: Option<&Follower>) -> bool {
    // A time beyond the range of the machine's clock never passes.
    let until = now().checked_add(pause);
    loop {
        if listener.inbox.is_abandoned() {
            return false;
        }
        if until.is_some_and(|until| until <= now()) || follower.is_some_and(Follower::has_moved) {
            // A pause of nothing at all leaves the others their turns.
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
        silence_watch: SilenceWatch::new(&config, &health),
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

/// Connects and sends the request. Also says whether the server may be asked whether it is still there.
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

/// Reads a connection.
struct Reader<'a> {
    listener: &'a Listener,
    socket: &'a Socket,
    watch: WatchedStream<&'a Socket>,
    context: &'a TaskContext,
    silence_watch: SilenceWatch,
    pings: bool,
    /// True if the server was asked whether it is still there, and has not said anything since.
    asked: bool,
    received_total: u64,
    /// The bytes that the socket has not taken yet.
    unsent: Vec<u8>,
    /// The time at which the server last confirmed something, or was sent something to confirm.
    confirmed_at: Instant,
    /// True if readers are to be told that messages may be missing.
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
            // A sender without a pause leaves the others their turns, and lets waiting requests be sent.
            self.prepare()?;
            self.context.yield_now().await;
        }
    }

    /// Waits until there is something to do.
    async fn wait(&mut self) -> Result<(), Cause> {
        let timeout = self.prepare()?;
        self.watch.arm(!self.unsent.is_empty() || self.socket.has_residue())?;
        // A time beyond the range of the machine's clock never passes.
        self.context.wait(timeout.and_then(|timeout| now().checked_add(timeout))).await;
        Ok(())
    }

    /// Sends the waiting requests, and returns the time for which there is nothing else to do.
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

    /// Readers are told that messages may be missing, once a connection.
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
            // The server that it is for is asked instead; all wanted names stay so.
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

    /// Looks whether the server is still there, and says when to look again.
    fn watch(&mut self) -> Result<Option<Duration>, Cause> {
        let flight = if self.asked { InFlight::Commands } else { InFlight::Nothing };
        match self.silence_watch.look(self.received_total, flight, None) {
            Advice::Sleep(time) => Ok(time),
            Advice::GiveUp(why) => Err(io::Error::other(why).into()),
            Advice::Ask => {
                // A question that cannot be sent now is asked another time, or the connection is found to be lost.
                self.asked = self.pings && self.unsent.is_empty();
                if self.asked {
                    self.unsent.extend_from_slice(PING);
                }
                Ok(Some(SLICE))
            }
        }
    }
}

/// Bytes of room that are kept however few are needed.
const KEPT_LEN: usize = 1024 * 1024;

/// Fails if the message that begins in the buffer is longer than may be kept. Returns the memory of a long one that has
/// ended.
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
