//! A reply that waits until its command's effect is on the server's disk, or has reached replicas.
//!
//! First comes the reply itself, then the confirmation of the connection or engine that executed it; one after the other, so
//! that no confirmation is requested for a failed command. All waiting is done as for a reply.

use std::future::Future;
use std::marker::PhantomData;
use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use sleeve_wire::frame::Frame;

use crate::error::{Effect, Error, ErrorKind};
use crate::pipe::slot::{Driver, Handle, Payload};
use crate::reply::turn::Turn;
use crate::reply::{Guard, Parts, Reply, already_taken, block, poll_here, read, taken};
use crate::resp::decode::FromReply;
use crate::resp::request::level::Level;
use crate::resp::request::name::Name;
use crate::sys::now;

/// The answer to a command, once its effect is as durable as requested: see [`Reply::synced`], [`Reply::replicated`] and
/// [`Reply::synced_on`].
///
/// `.await` it in any async runtime, or [`wait`](Synced::wait) for it on a thread. Dropping it takes nothing back.
#[must_use = "await it or wait for it: only then is it known"]
pub struct Synced<T> {
    stage: Stage,
    level: Level,
    turn: Turn,
    result: PhantomData<fn() -> T>,
}

enum Stage {
    /// The command is not answered yet.
    Answering(Handle, Option<Box<dyn Guard>>),
    /// The command was answered; the handle will have the confirmation.
    Syncing {
        answer: Payload,
        word: Handle,
        /// The resource that the reply kept until it was answered.
        guard: Option<Box<dyn Guard>>,
    },
    /// The outcome is known.
    Settled(Result<Payload, Error>),
    Taken,
}

impl<T: FromReply> Reply<T> {
    /// Waits for the same answer, but returns it only once the command's effect is synced to the server's disk: from then on
    /// not even a loss of power takes it back.
    ///
    /// With `appendfsync everysec` that takes up to a second, during which no other caller waits; with `always` the answer
    /// itself arrives only after the fsync. The confirmation covers all effects that the reply shows: for a command that
    /// reads, also the writes of others that it saw.
    ///
    /// ```
    /// # #[cfg(feature = "embedded")] {
    /// use sleeve::{Client, prelude::*};
    ///
    /// # let folder = std::env::temp_dir().join(format!("sleeve-synced-{}", std::process::id()));
    /// # let url = format!("embedded://{}", folder.display());
    /// let client = Client::connect(&url)?; // embedded:///var/lib/app, or a server with an AOF
    /// client.set("order:7", "paid").synced().wait()?; // or .await
    /// # drop(client);
    /// # std::fs::remove_dir_all(folder).expect("it was there");
    /// # }
    /// # Ok::<(), sleeve::Error>(())
    /// ```
    ///
    /// # Where it is known
    ///
    /// - From a Sleeve server, on the connection that all callers share: the first of these calls asks the server for
    ///   notifications. And from an engine in this process that has a folder.
    /// - From Redis 7.2 and later and from Valkey on a connection of one's own, by WAITAOF: `client.lease()?.set("order:7",
    ///   "paid").synced()`. The lease's next commands wait in that time. On a shared connection these servers do not tell,
    ///   and this fails at once.
    ///
    /// # Errors
    /// The command's own, as soon as it is there. [`Effect::Answered`](crate::Effect::Answered) if the command was executed,
    /// but the server cannot tell: it is older, it keeps no AOF (`appendonly no`), or it never syncs it (`appendfsync no`).
    /// [`Effect::Unknown`](crate::Effect::Unknown) if no confirmation arrived: the connection was lost
    /// ([`ErrorKind::Disconnected`](crate::ErrorKind::Disconnected)), or the client's command timeout, which begins anew with
    /// the answer, was over ([`ErrorKind::Timeout`](crate::ErrorKind::Timeout)).
    pub fn synced(self) -> Synced<T> {
        self.safe(Level::Synced)
    }

    /// Waits for the same answer, but returns it only once this many replicas have applied the command's effect: from then on
    /// it survives the loss of the primary, as long as one of them takes its place, or a replica that has received as much.
    ///
    /// It costs about a round trip between the primary and its replicas, during which no other caller waits. Fewer replicas
    /// than that, or slow ones, end in a timeout. It does not concern disks: [`synced_on`](Reply::synced_on) does.
    ///
    /// ```no_run
    /// use sleeve::{Client, prelude::*};
    ///
    /// let client = Client::connect("redis://db.example.net")?; // Sleeve, with a replica
    /// client.set("order:7", "paid").replicated(1).wait()?; // or .await
    /// # Ok::<(), sleeve::Error>(())
    /// ```
    ///
    /// From a Sleeve server it is known on the connection that all callers share, and from an engine in this process that
    /// serves replicas. From Redis and Valkey it is known on a connection of one's own, by WAIT:
    /// `client.lease()?.set("order:7", "paid").replicated(1)`.
    ///
    /// # Errors
    /// As for [`synced`](Reply::synced). If the connection is lost, or another server has become the primary, it is not known
    /// whether replicas have the write, nor whether it is lost ([`Effect::Unknown`](crate::Effect::Unknown)).
    pub fn replicated(self, replicas: usize) -> Synced<T> {
        self.safe(Level::Replicated(replicas))
    }

    /// Waits for the same answer, but returns it only once the command's effect is on the disks of this many replicas: from
    /// then on not even a loss of power at all servers takes it back, as long as one of them takes the primary's place.
    ///
    /// The primary's own disk does not count: see [`synced`](Reply::synced). A replica without an AOF (`appendonly no`) never
    /// reports that it has anything on its disk.
    ///
    /// # Errors
    /// As for [`replicated`](Reply::replicated). Other servers than Sleeve need WAITAOF, so Redis 7.2 or Valkey.
    pub fn synced_on(self, replicas: usize) -> Synced<T> {
        self.safe(Level::SyncedOn(replicas))
    }

    fn safe(self, level: Level) -> Synced<T> {
        let stage = match self.into_parts() {
            Parts::Slot(handle, guard) => Stage::Answering(handle, guard),
            Parts::Answered(answer, number) => {
                SentBy { name: Name::UNKNOWN, sent_on: 0, driver: number.driver() }.ask(level, answer, None)
            }
        };
        Synced { stage, level, turn: Turn::default(), result: PhantomData }
    }
}

/// The connection or engine that sent the command, and can say whether its effect is synced.
struct SentBy {
    name: Name,
    sent_on: u32,
    driver: Option<Arc<dyn Driver>>,
}

impl SentBy {
    fn of(handle: &Handle) -> Self {
        Self { name: handle.name(), sent_on: handle.sent_on(), driver: handle.driver() }
    }

    /// Asks whether the effect is as durable as requested. An answer that is an error needs no such request.
    fn ask(self, level: Level, answer: Payload, guard: Option<Box<dyn Guard>>) -> Stage {
        if answer.frame().is_err() {
            return Stage::Settled(Ok(answer));
        }
        let asked = match self.driver {
            Some(driver) => driver.safe(level, self.name, self.sent_on),
            None => Err(Error::unsynced("the client was closed")),
        };
        match asked {
            Ok(word) => Stage::Syncing { answer, word, guard },
            Err(error) => Stage::Settled(Err(error)),
        }
    }
}

impl<T: FromReply> Synced<T> {
    /// Blocks this thread until the effect is as durable as requested. The client's command timeout bounds the wait.
    ///
    /// # Errors
    /// The errors of [`Reply::synced`].
    pub fn wait(self) -> Result<T, Error> {
        self.wait_until(None)
    }

    /// Blocks this thread until the effect is as durable as requested, but for no longer than this.
    ///
    /// # Errors
    /// As for [`wait`](Synced::wait), and [`ErrorKind::Timeout`](crate::ErrorKind::Timeout) if the time is up.
    pub fn wait_for(self, timeout: Duration) -> Result<T, Error> {
        self.wait_until(now().checked_add(timeout))
    }

    /// Returns whether the outcome is known, so that waiting for it would not block. Only waiting requests the confirmation,
    /// so this may stay false until then.
    pub fn is_ready(&self) -> bool {
        match &self.stage {
            Stage::Answering(..) => false,
            Stage::Syncing { word, .. } => word.is_done(),
            Stage::Settled(_) | Stage::Taken => true,
        }
    }

    fn wait_until(self, deadline: Option<Instant>) -> Result<T, Error> {
        let (mut stage, level) = (self.stage, self.level);
        loop {
            stage = match stage {
                Stage::Answering(handle, guard) => {
                    let sent_by = SentBy::of(&handle);
                    sent_by.ask(level, block(handle, deadline).map_err(|handle| handle.given_up())?, guard)
                }
                Stage::Syncing { answer, word, guard } => {
                    let word = block(word, deadline).map_err(|word| given_up(level, word.name()));
                    drop(guard);
                    Stage::Settled(word.and_then(|word| understand(level, &word)).map(|()| answer))
                }
                Stage::Settled(result) => return result.and_then(|answer| read(answer)),
                Stage::Taken => return Err(already_taken()),
            };
        }
    }
}

impl<T: FromReply> Future for Synced<T> {
    type Output = Result<T, Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        loop {
            self.stage = match mem::replace(&mut self.stage, Stage::Taken) {
                Stage::Answering(mut handle, guard) => match poll_here(&mut handle, &mut self.turn, context) {
                    Poll::Pending => {
                        self.stage = Stage::Answering(handle, guard);
                        return Poll::Pending;
                    }
                    Poll::Ready(()) => {
                        let sent_by = SentBy::of(&handle);
                        sent_by.ask(self.level, taken(handle), guard)
                    }
                },
                Stage::Syncing { answer, mut word, guard } => match poll_here(&mut word, &mut self.turn, context) {
                    Poll::Pending => {
                        self.stage = Stage::Syncing { answer, word, guard };
                        return Poll::Pending;
                    }
                    Poll::Ready(()) => Stage::Settled(understand(self.level, &taken(word)).map(|()| answer)),
                },
                Stage::Settled(result) => return Poll::Ready(result.and_then(|answer| read(answer))),
                Stage::Taken => return Poll::Ready(Err(already_taken())),
            };
        }
    }
}

impl<T> std::fmt::Debug for Synced<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Synced").finish_non_exhaustive()
    }
}

/// Interprets the answer of WAIT or WAITAOF, or another confirmation.
fn understand(level: Level, word: &Payload) -> Result<(), Error> {
    let cannot_tell = |why: &str| Error::new(ErrorKind::Server, Effect::Answered, format!("it is done, but {why}"));
    if let Payload::Failed(error) = word {
        return Err(error.clone());
    }
    let reached = |count: i64, wanted: usize| match usize::try_from(count) {
        Ok(count) if count >= wanted => Ok(()),
        _ => Err(given_up(level, Name::UNKNOWN)),
    };
    let frame = word.frame();
    match (frame, level) {
        // This confirmation was given only after the level was checked.
        (Ok(Frame::Simple(b"OK")), _) => Ok(()),
        (Ok(Frame::Integer(count)), Level::Replicated(wanted)) => reached(count, wanted),
        (Ok(Frame::Array(mut items)), Level::Synced | Level::SyncedOn(_)) => {
            let disks = (items.next(), items.next());
            match (disks, level) {
                ((Some(Ok(Frame::Integer(1..))), _), Level::Synced) => Ok(()),
                ((_, Some(Ok(Frame::Integer(count)))), Level::SyncedOn(wanted)) => reached(count, wanted),
                _ => Err(given_up(level, Name::UNKNOWN)),
            }
        }
        (Ok(_), _) => Err(Error::protocol("WAIT or WAITAOF was answered with another type")),
        // The server has become a replica, and the effects that it had as a primary may be lost.
        (Err(error), _) if error.code() == Some("UNBLOCKED") || error.message().contains("with replica instances") => {
            Err(Error::unsynced("another server is the primary now"))
        }
        (Err(error), _) if error.message().starts_with("ERR unknown command") => {
            Err(cannot_tell("the server cannot tell when it is synced: it is older than Redis 7.2, and has no WAITAOF"))
        }
        (Err(error), _) => {
            Err(cannot_tell(&format!("the server does not tell when it is {level}: {}", error.message())))
        }
    }
}

fn given_up(level: Level, name: Name) -> Error {
    let name = if name.is_known() { name.to_string() } else { "it".to_owned() };
    let message = format!("{name} was answered, but not {level} in time; whether it will be is unknown");
    Error::new(ErrorKind::Timeout, Effect::Unknown, message)
}
