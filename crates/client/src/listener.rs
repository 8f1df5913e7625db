//! The thread of a subscription: connects, subscribes, reads, and begins again when the connection is lost.
//!
//! It has a connection of its own, because what is subscribed on a shared one would come to everybody. It moves frames into
//! the inbox and decides nothing about them; it ends when nobody reads any more, or when the server refuses for good.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use sleeve_wire::frame::Scanner;

use crate::attempt::Attempt;
use crate::config::Config;
use crate::dial::dial;
use crate::error::{Error, ErrorKind};
use crate::fork::Process;
use crate::handshake::{Refusal, greet};
use crate::inbox::Inbox;
use crate::news::{self, News, Word};
use crate::probe::Vitals;
use crate::socket::{Bell, Socket};
use crate::vigil::{Advice, Flight, Vigil};

/// What a reader of a connection shares with the subscription.
pub(crate) struct Listener {
    pub(crate) config: Config,
    pub(crate) inbox: Inbox,
    pub(crate) bell: Bell,
    /// The request that subscribes, and how many names it has.
    pub(crate) request: Vec<u8>,
    pub(crate) names: usize,
    /// Where it was made, and where alone it may be read.
    pub(crate) process: Process,
    /// What is known of the server by all of a client's connections.
    pub(crate) vitals: Arc<Vitals>,
}

/// Bytes that one receive takes at most.
const BUFFER_LEN: usize = 64 * 1024;

/// The pauses that grow are no longer than this while nobody wants a subscription any more.
const SLICE: Duration = Duration::from_millis(50);

const PING: &[u8] = b"*1\r\n$4\r\nPING\r\n";

/// Starts the thread. Should it panic, whoever reads is told so, instead of waiting for ever.
pub(crate) fn start(listener: Arc<Listener>) -> io::Result<()> {
    let live = move || {
        if let Err(payload) = catch_unwind(AssertUnwindSafe(|| live(&listener))) {
            // What was thrown may throw again when it is dropped; the panic hook has already said what happened.
            std::mem::forget(payload);
            listener.inbox.end(Error::unsent(ErrorKind::Closed, "the subscription's thread panicked"));
        }
    };
    thread::Builder::new().name("sleeve-subscription".to_owned()).spawn(live).map(|_| ())
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

fn live(listener: &Listener) {
    let (mut has_begun, mut pause) = (false, listener.config.backoff_min);
    loop {
        let since = Instant::now();
        match serve(listener, &mut has_begun) {
            Cause::Abandoned => return,
            Cause::Refused(error) => return listener.inbox.end(error),
            // Who subscribes is told at once when that does not work; later on it is tried for ever.
            Cause::Turned(error) | Cause::Lost(error) if !has_begun => return listener.inbox.end(error),
            Cause::Lost(_) if since.elapsed() > pause => pause = listener.config.backoff_min,
            Cause::Turned(_) | Cause::Lost(_) => pause = pause.saturating_mul(2).min(listener.config.backoff_max),
        }
        // It fails only when the bell is broken, and then the next wait fails too.
        let _ = listener.bell.wait(Some(pause));
        if listener.inbox.is_abandoned() {
            return;
        }
    }
}

/// One connection, from its beginning to its end.
fn serve(listener: &Listener, has_begun: &mut bool) -> Cause {
    match subscribe(listener) {
        Ok((socket, pings)) => {
            let vigil = Vigil::new(&listener.config, &listener.vitals);
            let mut reader = Reader { listener, socket: &socket, vigil, pings, asked: false, received_total: 0 };
            let cause = reader.read(has_begun);
            socket.shut();
            cause.unwrap_or_else(|cause| cause)
        }
        Err(_) if listener.inbox.is_abandoned() => Cause::Abandoned,
        Err(cause) => cause,
    }
}

/// Connects and sends the request. Also says whether the server may be asked whether it is still there.
fn subscribe(listener: &Listener) -> Result<(Socket, bool), Cause> {
    let mut tick = || (!listener.inbox.is_abandoned()).then_some(SLICE);
    let mut attempt = Attempt::new(listener.config.connect_timeout, &mut tick);
    let socket = dial(&listener.config, &listener.bell, &mut attempt)?;
    let greeting = greet(&socket, &listener.config, &mut attempt)?;
    send(&socket, &listener.request, &mut attempt)?;
    Ok((socket, greeting.pings))
}

fn send(socket: &Socket, mut rest: &[u8], attempt: &mut Attempt<'_>) -> io::Result<()> {
    while !rest.is_empty() {
        match socket.send(rest) {
            Ok(count) => rest = rest.get(count..).unwrap_or_default(),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                socket.wait(None, true, Some(attempt.slice()?))?;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Reads a connection.
struct Reader<'a> {
    listener: &'a Listener,
    socket: &'a Socket,
    vigil: Vigil,
    pings: bool,
    /// Whether the server was asked whether it is still there, and has not said anything since.
    asked: bool,
    received_total: u64,
}

impl Reader<'_> {
    /// Reads until the connection is over.
    fn read(&mut self, has_begun: &mut bool) -> Result<Cause, Cause> {
        let listener = self.listener;
        let (mut scanner, mut received, mut unconfirmed) = (Scanner::new(), Vec::new(), listener.names);
        let mut room = vec![0; BUFFER_LEN];
        let mut confirmed_at = Instant::now();
        loop {
            let patience = match unconfirmed {
                0 => None,
                _ => Some(listener.config.connect_timeout.saturating_sub(confirmed_at.elapsed())),
            };
            if patience == Some(Duration::ZERO) {
                let error = io::Error::new(io::ErrorKind::TimedOut, "the server did not confirm it in time");
                return Err(error.into());
            }
            let watched = self.watch()?;
            let ready = self.socket.wait(Some(&listener.bell), false, patience.into_iter().chain(watched).min())?;
            if ready.rung {
                listener.bell.hear();
                if listener.inbox.is_abandoned() {
                    return Ok(Cause::Abandoned);
                }
                self.socket.flush()?;
            }
            match self.socket.receive(&mut room) {
                Ok(0) => return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
                Ok(count) => {
                    received.extend_from_slice(room.get(..count).unwrap_or_default());
                    self.received_total += count as u64;
                    self.asked = false;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
                Err(error) => return Err(error.into()),
            }
            let mut start = 0;
            while let Some(length) = scanner.scan(received.get(start..).unwrap_or_default()).map_err(broken)? {
                let frame = received.get(start..start + length).unwrap_or_default();
                start += length;
                match news::read(frame) {
                    Word::Confirmed => {
                        confirmed_at = Instant::now();
                        if *has_begun && unconfirmed == listener.names {
                            listener.inbox.put(News::Resumed);
                        }
                        unconfirmed = unconfirmed.saturating_sub(1);
                        if unconfirmed == 0 && !std::mem::replace(has_begun, true) {
                            listener.inbox.begin();
                        }
                    }
                    Word::Message(message) => {
                        if !listener.inbox.put(News::Message(message)) {
                            return Ok(Cause::Abandoned);
                        }
                    }
                    Word::Refused(error) if unconfirmed > 0 => return Ok(Cause::Refused(error)),
                    Word::Refused(_) | Word::Other => {}
                }
            }
            received.drain(..start);
        }
    }

    /// Looks whether the server is still there, and says when to look again.
    fn watch(&mut self) -> Result<Option<Duration>, Cause> {
        let flight = if self.asked { Flight::Commands } else { Flight::Nothing };
        match self.vigil.look(self.received_total, flight) {
            Advice::Sleep(time) => Ok(time),
            Advice::GiveUp(why) => Err(io::Error::other(why).into()),
            Advice::Ask => {
                // What cannot be sent now is asked another time, or found to be lost.
                self.asked = self.pings && self.socket.send(PING).is_ok_and(|count| count == PING.len());
                Ok(Some(SLICE))
            }
        }
    }
}

fn broken(error: sleeve_wire::frame::FrameError) -> Cause {
    Cause::Lost(Error::protocol(error))
}
