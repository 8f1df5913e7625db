//! The task of a subscription: connects, subscribes to what is wanted, reads, and begins again when the connection is lost.
//!
//! It has a connection of its own, because what is subscribed on a shared one would come to everybody. It moves frames into
//! the inbox and decides nothing about them; it ends when nobody reads any more, or when the server refuses for good.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sleeve_wire::frame::Scanner;

use super::inbox::Inbox;
use super::names::Verb;
use super::news;
use super::news::{News, Word};
use super::wanted::{Progress, Wanted};
use crate::config::Config;
use crate::connect::attempt::Attempt;
use crate::connect::refusal::Refusal;
use crate::connect::sentinel::search::reach;
use crate::connect::sentinel::service::Follower;
use crate::connect::socket::Socket;
use crate::connect::talk::send_all;
use crate::connection::probe::Vitals;
use crate::connection::silence::{Advice, Flight, Vigil};
use crate::error::{Error, ErrorKind};
use crate::process::fork::Process;
use crate::reactor;
use crate::reactor::Bell;
use crate::reactor::post::{Post, Watch};
use crate::route::cluster::Cluster;
use crate::route::cluster::slots::slot_of;

/// What a reader of a connection shares with the subscription.
pub(crate) struct Listener {
    pub(crate) config: Config,
    pub(crate) place: Place,
    pub(crate) inbox: Inbox,
    pub(crate) bell: Bell,
    /// What it is subscribed to, and who waits until it is.
    pub(crate) wanted: Wanted,
    /// Where it was made, and where alone it may be read.
    pub(crate) process: Process,
}

/// Where it listens.
pub(crate) enum Place {
    /// At this server, of which all of a client's connections know this.
    Server(Arc<Vitals>),
    /// At a node of a cluster: any, or the owner of the slot in which shard channels lie.
    Cluster(Arc<Cluster>),
}

impl Listener {
    /// Which server is listened to now, and what is known of it.
    fn server(&self) -> Result<(Config, Arc<Vitals>), Error> {
        match &self.place {
            Place::Server(vitals) => Ok((self.config.clone(), Arc::clone(vitals))),
            Place::Cluster(cluster) => cluster.place(self.wanted.shard_channel().as_deref().map(slot_of)),
        }
    }

    /// Whoever tells where the server is, if somebody does.
    fn follower(&self, bell: Bell) -> Option<Follower> {
        match &self.place {
            Place::Server(vitals) => vitals.follow(bell),
            Place::Cluster(_) => None,
        }
    }

    /// Whether a server's refusal says that somebody else is to be asked, or the same later.
    fn is_elsewhere(&self, error: &Error) -> bool {
        matches!(self.place, Place::Cluster(_))
            && matches!(error.code(), Some("MOVED" | "ASK" | "CLUSTERDOWN" | "LOADING"))
    }

    /// What was seen shows that the cluster has changed.
    fn doubt(&self) {
        if let Place::Cluster(cluster) = &self.place {
            cluster.doubt();
        }
    }

    /// Nothing will come any more, and nothing is confirmed.
    fn end(&self, error: Error) {
        self.wanted.end(error.clone());
        self.inbox.end(error);
    }
}

/// Bytes that one receive takes at most.
const BUFFER_LEN: usize = 64 * 1024;

/// Until what is to be asked is looked at again.
const SLICE: Duration = Duration::from_millis(50);

const PING: &[u8] = b"*1\r\n$4\r\nPING\r\n";

/// Starts the task. Should it panic, whoever reads is told so, instead of waiting for ever.
pub(crate) fn start(listener: Arc<Listener>) -> io::Result<()> {
    let (bell, told) = (listener.bell, Arc::clone(&listener));
    let task = async move |post| {
        live(&listener, &post).await;
        // Nobody is left to confirm anything to who waits for it.
        listener.wanted.end(Error::unsent(ErrorKind::Closed, "the subscription was dropped"));
    };
    reactor::start(bell, task, move |_| told.end(Error::unsent(ErrorKind::Closed, "the subscription's task panicked")))
}

/// Why a connection is over.
enum Cause {
    /// Nobody reads any more.
    Abandoned,
    /// The server does not want this subscription.
    Refused(Error),
    /// The server does not want the connection: its password, its database. That may change, as it does for a client.
    Turned(Error),
    /// It was lost, or could not be made.
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

async fn live(listener: &Listener, post: &Post) {
    let (mut has_begun, mut pause, began) = (false, listener.config.backoff_min, Instant::now());
    let follower = listener.follower(post.bell());
    loop {
        let since = Instant::now();
        let cause = serve(listener, post, follower.as_ref(), &mut has_begun).await;
        if matches!(cause, Cause::Lost(_)) {
            listener.doubt();
        }
        match cause {
            // The map may have been wrong: whoever owns the slot is about to be known.
            Cause::Lost(error)
                if !has_begun && listener.is_elsewhere(&error) && began.elapsed() < listener.config.connect_timeout => {
            }
            Cause::Abandoned => return,
            Cause::Refused(error) => return listener.end(error),
            // Who subscribes is told at once when that does not work; later on it is tried for ever.
            Cause::Turned(error) | Cause::Lost(error) if !has_begun => return listener.end(error),
            Cause::Lost(_) if since.elapsed() > pause => pause = listener.config.backoff_min,
            Cause::Turned(_) | Cause::Lost(_) => pause = pause.saturating_mul(2).min(listener.config.backoff_max),
        }
        if !rest(listener, post, pause, follower.as_ref()).await {
            return;
        }
        // Elsewhere nothing has failed yet.
        if follower.as_ref().is_some_and(Follower::was_told) {
            pause = listener.config.backoff_min;
        }
    }
}

/// Waits before the next attempt, however often somebody changes what is wanted; no longer where the server turns out to be
/// elsewhere. False when nobody reads any more.
async fn rest(listener: &Listener, post: &Post, pause: Duration, follower: Option<&Follower>) -> bool {
    // A time beyond what the machine can count is never over.
    let until = Instant::now().checked_add(pause);
    loop {
        if listener.inbox.is_abandoned() {
            return false;
        }
        if until.is_some_and(|until| until <= Instant::now()) || follower.is_some_and(Follower::was_told) {
            // A pause of nothing at all leaves the others their turns.
            post.pass().await;
            return true;
        }
        post.wait(until).await;
    }
}

/// One connection, from its beginning to its end.
async fn serve(listener: &Listener, post: &Post, follower: Option<&Follower>, has_begun: &mut bool) -> Cause {
    let (config, vitals) = match listener.server() {
        Ok(server) => server,
        Err(error) => return Cause::Lost(error),
    };
    let (socket, pings) = match subscribe(listener, &config, post, follower).await {
        Ok(subscribed) => subscribed,
        Err(_) if listener.inbox.is_abandoned() => return Cause::Abandoned,
        Err(cause) => return cause,
    };
    let watch = match post.watch(&*socket) {
        Ok(watch) => watch,
        Err(error) => return error.into(),
    };
    let mut reader = Reader {
        listener,
        socket: &socket,
        watch,
        post,
        vigil: Vigil::new(&config, &vitals),
        pings,
        asked: false,
        received_total: 0,
        unsent: Vec::new(),
        confirmed_at: Instant::now(),
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
    post: &Post,
    follower: Option<&Follower>,
) -> Result<(Arc<Socket>, bool), Cause> {
    let mut tick = || (!listener.inbox.is_abandoned()).then_some(Duration::MAX);
    let mut attempt = Attempt::new(listener.config.connect_timeout, &mut tick);
    let (socket, greeting) = reach(follower, config, post, &mut attempt).await?;
    let request = listener.wanted.restart().map_err(Cause::Refused)?;
    send_all(&post.watch(&*socket)?, &request, post, &mut attempt).await?;
    Ok((socket, greeting.pings))
}

/// Reads a connection.
struct Reader<'a> {
    listener: &'a Listener,
    socket: &'a Socket,
    watch: Watch<&'a Socket>,
    post: &'a Post,
    vigil: Vigil,
    pings: bool,
    /// Whether the server was asked whether it is still there, and has not said anything since.
    asked: bool,
    received_total: u64,
    /// What the socket has not taken yet.
    unsent: Vec<u8>,
    /// When the server has last confirmed something, or was told what to confirm.
    confirmed_at: Instant,
    /// Whether readers are to be told that messages may be missing.
    resumes: bool,
}

impl Reader<'_> {
    /// Reads until the connection is over.
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
                    self.post.wait(None).await;
                }
                let frame = received.get(start..start + length).unwrap_or_default();
                start += length;
                self.take(frame, has_begun)?;
            }
            received.drain(..start);
            // What comes without a pause leaves the others their turns, and lets what is to be sent be sent.
            self.prepare()?;
            self.post.pass().await;
        }
    }

    /// Waits until there is something to do.
    async fn wait(&mut self) -> Result<(), Cause> {
        let timeout = self.prepare()?;
        self.watch.arm(!self.unsent.is_empty() || self.socket.has_residue())?;
        // A time beyond what the machine can count is never over.
        self.post.wait(timeout.and_then(|timeout| Instant::now().checked_add(timeout))).await;
        Ok(())
    }

    /// Sends what is to be sent, and says how long nothing else is to be done.
    fn prepare(&mut self) -> Result<Option<Duration>, Cause> {
        let listener = self.listener;
        let patience = match listener.wanted.has_begun() {
            true => None,
            false => Some(listener.config.connect_timeout.saturating_sub(self.confirmed_at.elapsed())),
        };
        if patience == Some(Duration::ZERO) {
            let error = io::Error::new(io::ErrorKind::TimedOut, "the server did not confirm it in time");
            return Err(error.into());
        }
        let watched = self.watch()?;
        self.send()?;
        self.socket.flush()?;
        Ok(patience.into_iter().chain(watched).min())
    }

    /// Readers are told that messages may be missing, once a connection.
    fn resume(&mut self) {
        if std::mem::take(&mut self.resumes) {
            self.listener.inbox.put(News::Resumed);
        }
    }

    /// Takes what has come; an error ends the connection.
    fn take(&mut self, frame: &[u8], has_begun: &mut bool) -> Result<(), Cause> {
        let listener = self.listener;
        match news::read(frame) {
            Word::Confirmed(verb) => {
                self.confirmed_at = Instant::now();
                let progress = listener.wanted.confirm(verb);
                if verb == Verb::SUnsubscribe && progress == Progress::None && listener.wanted.shard_channel().is_some()
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
            Word::Message(message) => {
                if !listener.inbox.put(News::Message(message)) {
                    return Err(Cause::Abandoned);
                }
            }
            // Whoever it is for is asked instead; all that is wanted stays so.
            Word::Refused(error) if listener.is_elsewhere(&error) => return Err(Cause::Lost(error)),
            Word::Refused(error) => {
                let beginning = !listener.wanted.has_begun();
                match listener.wanted.refuse(&error) {
                    Progress::Beginning => return Err(Cause::Refused(error)),
                    // The next connection begins without what was refused.
                    Progress::Change if beginning => return Err(Cause::Lost(error)),
                    _ => {}
                }
            }
            Word::Other => {}
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
        let flight = if self.asked { Flight::Commands } else { Flight::Nothing };
        match self.vigil.look(self.received_total, flight, None) {
            Advice::Sleep(time) => Ok(time),
            Advice::GiveUp(why) => Err(io::Error::other(why).into()),
            Advice::Ask => {
                // What cannot be sent now is asked another time, or found to be lost.
                self.asked = self.pings && self.unsent.is_empty();
                if self.asked {
                    self.unsent.extend_from_slice(PING);
                }
                Ok(Some(SLICE))
            }
        }
    }
}

fn broken(error: sleeve_wire::frame::FrameError) -> Cause {
    Cause::Lost(Error::protocol(error))
}
