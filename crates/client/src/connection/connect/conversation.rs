//! Requests and replies on a socket that no caller uses yet, one after the other, in a task of the reactor.
//!
//! Greetings, and the requests to Sentinels, are short conversations in which each answer decides the next request, so they
//! are written straight down, without the pipe and its slots. The received bytes are foreign: their length is bounded, and so
//! is the time, by the attempt that the conversation belongs to. On the reactor's thread alone.

use std::io;
use std::time::Duration;

use sleeve_wire::attribute::behind_attributes;
use sleeve_wire::frame::{FrameError, Scanner, speaks_tls};

use super::attempt::Attempt;
use super::refusal::Refusal;
use super::socket::Socket;
use crate::reactor::task_context::{TaskContext, WatchedStream};
use crate::resp::request::Request;
use crate::sys::now;

/// The largest number of received bytes that are not a whole reply yet, or not taken.
const REPLY_LENGTH_MAX: usize = 1024 * 1024;

/// Requests and replies on a socket that no caller uses yet.
pub(crate) struct Conversation<'a, 'b> {
    watch: WatchedStream<&'a Socket>,
    context: &'a TaskContext,
    attempt: &'a mut Attempt<'b>,
    received: Vec<u8>,
    start: usize,
    scanner: Scanner,
    /// True if anything was received.
    has_heard: bool,
}

impl<'a, 'b> Conversation<'a, 'b> {
    /// Begins a conversation on a socket on which nothing has been sent yet.
    pub(crate) fn new(socket: &'a Socket, context: &'a TaskContext, attempt: &'a mut Attempt<'b>) -> io::Result<Self> {
        let watch = context.watch(socket)?;
        Ok(Self { watch, context, attempt, received: Vec::new(), start: 0, scanner: Scanner::new(), has_heard: false })
    }

    /// Sends a request and waits for its reply.
    pub(crate) async fn ask(&mut self, words: &[&str]) -> Result<Vec<u8>, Refusal> {
        self.send(words).await?;
        self.reply().await
    }

    /// Sends a request.
    pub(crate) async fn send(&mut self, words: &[&str]) -> Result<(), Refusal> {
        let write = |request: &mut Request| words.iter().for_each(|word| _ = request.word(word));
        let bytes = Request::bytes_of(write).map_err(|error| Refusal { error, permanent: true })?;
        send_all(&self.watch, &bytes, self.context, self.attempt).await?;
        Ok(())
    }

    /// Returns the next reply.
    pub(crate) async fn reply(&mut self) -> Result<Vec<u8>, Refusal> {
        loop {
            match self.cut()? {
                Some(reply) => return Ok(reply),
                None => self.receive(Duration::MAX).await?,
            }
        }
    }

    /// Returns the next reply, if one arrives within this time.
    pub(crate) async fn reply_within(&mut self, time: Duration) -> Result<Option<Vec<u8>>, Refusal> {
        let until = now() + time;
        loop {
            let left = until.saturating_duration_since(now());
            match self.cut()? {
                None if left.is_zero() => return Ok(None),
                None => self.receive(left).await?,
                reply => return Ok(reply),
            }
        }
    }

    /// Takes a whole reply from the received bytes. A message that answers no request is skipped.
    fn cut(&mut self) -> Result<Option<Vec<u8>>, Refusal> {
        loop {
            let rest = self.received.get(self.start..).unwrap_or_default();
            let Some(length) = self.scanner.scan(rest).map_err(no_reply)? else { return Ok(None) };
            let reply = behind_attributes(rest.get(..length).unwrap_or_default()).to_vec();
            self.start += length;
            if reply.first() != Some(&b'>') {
                return Ok(Some(reply));
            }
        }
    }

    /// Receives the bytes that have arrived, or waits for some for no longer than this.
    async fn receive(&mut self, time: Duration) -> Result<(), Refusal> {
        let mut room = [0; 4096];
        match self.watch.stream().receive(&mut room) {
            Ok(0) => Err(self.broken(io::ErrorKind::UnexpectedEof.into())),
            Ok(count) => {
                self.has_heard = true;
                self.received.drain(..std::mem::take(&mut self.start));
                self.received.extend_from_slice(room.get(..count).unwrap_or_default());
                if self.received.len() > REPLY_LENGTH_MAX {
                    return Err(no_server(&format!("its greeting is longer than {REPLY_LENGTH_MAX} bytes")));
                }
                // If the server sends without a pause, the other tasks still get their turns, and the attempt still times
                // out.
                self.attempt.yield_now(self.context).await?;
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.watch.stream().flush()?;
                self.watch.arm(self.watch.stream().has_residue())?;
                self.attempt.wait_for(self.context, time).await?;
                Ok(())
            }
            Err(error) => Err(self.broken(error)),
        }
    }

    /// Returns the error of a broken connection. Some servers close a port that speaks TLS without a word when the received
    /// bytes are not TLS.
    fn broken(&self, error: io::Error) -> Refusal {
        if self.has_heard || !self.watch.stream().is_plain_tcp() {
            return error.into();
        }
        Refusal::temporary(format!("cannot connect: the server closed it before it said anything ({error}); {USE_TLS}"))
    }
}

/// The advice for a server that speaks TLS when the client does not.
const USE_TLS: &str = "if this port speaks TLS, use rediss:// (or valkeys://, or Config::tls)";

fn no_reply(error: FrameError) -> Refusal {
    match error {
        FrameError::UnknownType(first) if speaks_tls(first) => {
            let message =
                "this port speaks TLS, and the client does not: use rediss:// (or valkeys://, or Config::tls)";
            Refusal::permanent(message.to_owned())
        }
        error => no_server(&error.to_string()),
    }
}

fn no_server(why: &str) -> Refusal {
    Refusal::permanent(format!("this is no Redis server: {why}"))
}

/// Sends all of the bytes, with as many waits as that takes.
pub(crate) async fn send_all(
    watch: &WatchedStream<&Socket>,
    mut rest: &[u8],
    context: &TaskContext,
    attempt: &mut Attempt<'_>,
) -> io::Result<()> {
    while !rest.is_empty() {
        match watch.stream().send(rest) {
            Ok(count) => rest = rest.get(count..).unwrap_or_default(),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                watch.arm(true)?;
                attempt.wait(context).await?;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
