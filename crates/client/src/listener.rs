//! The thread of a subscription: connects, subscribes, reads, and begins again when the connection is lost.
//!
//! It has a connection of its own, because what is subscribed on a shared one would come to everybody. It moves frames into
//! the inbox and decides nothing about them; it ends when nobody reads any more, or when the server refuses for good.

use std::io;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use sleeve_wire::frame::Scanner;

use crate::config::Config;
use crate::error::{Error, ErrorKind};
use crate::handshake::{Refusal, greet};
use crate::inbox::Inbox;
use crate::news::{self, News, Word};
use crate::socket::{Bell, Socket, connect};

/// What a reader of a connection shares with the subscription.
pub(crate) struct Listener {
    pub(crate) config: Config,
    pub(crate) inbox: Inbox,
    pub(crate) bell: Bell,
    /// The request that subscribes, and how many names it has.
    pub(crate) request: Vec<u8>,
    pub(crate) names: usize,
}

/// Bytes that one receive takes at most.
const BUFFER_LEN: usize = 64 * 1024;

/// Starts the thread.
pub(crate) fn start(listener: Arc<Listener>) -> io::Result<()> {
    thread::Builder::new().name("sleeve-subscription".to_owned()).spawn(move || live(&listener)).map(|_| ())
}

/// Why a connection is over.
enum Cause {
    /// Nobody reads any more.
    Abandoned,
    /// Trying again is pointless.
    Refused(Error),
    /// It was lost, or could not be made.
    Lost(Error),
}

impl From<Refusal> for Cause {
    fn from(refusal: Refusal) -> Self {
        if refusal.permanent { Self::Refused(refusal.error) } else { Self::Lost(refusal.error) }
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
        let error = match serve(listener, &mut has_begun) {
            Cause::Abandoned => return,
            Cause::Refused(error) => return listener.inbox.end(error),
            // Who subscribes is told at once when that does not work; later on it is tried for ever.
            Cause::Lost(error) if !has_begun => return listener.inbox.end(error),
            Cause::Lost(_) if since.elapsed() > pause => listener.config.backoff_min,
            Cause::Lost(_) => pause.saturating_mul(2).min(listener.config.backoff_max),
        };
        pause = error;
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
        Ok(socket) => {
            let cause = read(listener, &socket, has_begun);
            socket.shut();
            cause.unwrap_or_else(|cause| cause)
        }
        Err(cause) => cause,
    }
}

fn subscribe(listener: &Listener) -> Result<Socket, Cause> {
    let timeout = listener.config.connect_timeout;
    let deadline = Instant::now() + timeout;
    let socket = connect(&listener.config, &listener.bell)?;
    greet(&socket, &listener.config, deadline)?;
    let mut rest = listener.request.as_slice();
    while !rest.is_empty() {
        match socket.send(rest) {
            Ok(count) => rest = rest.get(count..).unwrap_or_default(),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                socket.wait(None, true, Some(Duration::from_millis(100)))?;
            }
            Err(error) => return Err(error.into()),
        }
        if Instant::now() > deadline {
            return Err(io::Error::from(io::ErrorKind::TimedOut).into());
        }
    }
    Ok(socket)
}

/// Reads until the connection is over.
fn read(listener: &Listener, socket: &Socket, has_begun: &mut bool) -> Result<Cause, Cause> {
    let (mut scanner, mut received, mut unconfirmed) = (Scanner::new(), Vec::new(), listener.names);
    let mut room = vec![0; BUFFER_LEN];
    loop {
        let ready = socket.wait(Some(&listener.bell), false, None)?;
        if ready.rung {
            listener.bell.hear();
            if listener.inbox.is_abandoned() {
                return Ok(Cause::Abandoned);
            }
            socket.flush()?;
        }
        match socket.receive(&mut room) {
            Ok(0) => return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
            Ok(count) => received.extend_from_slice(room.get(..count).unwrap_or_default()),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
            Err(error) => return Err(error.into()),
        }
        let mut start = 0;
        while let Some(length) = scanner.scan(received.get(start..).unwrap_or_default()).map_err(broken)? {
            let frame = received.get(start..start + length).unwrap_or_default();
            start += length;
            match news::read(frame) {
                Word::Confirmed => {
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
                Word::Refused(error) => return Ok(Cause::Refused(error)),
                Word::Other => {}
            }
        }
        received.drain(..start);
    }
}

fn broken(error: sleeve_wire::frame::FrameError) -> Cause {
    Cause::Lost(Error::protocol(error))
}
