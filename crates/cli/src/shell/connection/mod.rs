//! The shell's connection: one request, then its reply, over a blocking socket or to an engine in this process.
//!
//! The shell shows the bytes that the server sent, so replies stay frames and nothing is decoded into types. Messages that
//! the server pushes in between are handed to the caller as they come. One thread; no queue.

mod embedded;

use std::io::{self, Read, Write};
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::Timespec;
use sleeve_server::Engine;
use sleeve_wire::frame::{Frame, Scanner, decode};

use crate::endpoint::{Endpoint, Stream, encode, hung_up};
use crate::interrupt::Interrupt;
use crate::replies::cut;
use embedded::Embedded;

/// The number of bytes that one read asks for.
const READ_LENGTH: usize = 16 * 1024;

/// The destination of the shell's requests.
#[derive(Clone, Debug)]
pub enum Target {
    /// A server behind a socket.
    Server(Endpoint),
    /// An engine in this process, which lives as long as the shell.
    Embedded(Arc<Engine>),
}

impl Target {
    /// Returns a server at this address, reached in the same way.
    pub fn elsewhere(&self, host: String, port: u16) -> Self {
        Self::Server(match self {
            Self::Server(endpoint) => endpoint.elsewhere(host, port),
            Self::Embedded(_) => Endpoint::Tcp { host, port },
        })
    }

    /// Returns the name of the server's host; empty if it has none.
    pub fn host(&self) -> &str {
        match self {
            Self::Server(Endpoint::Tcp { host, .. } | Endpoint::Tls { host, .. }) => host,
            Self::Server(Endpoint::Unix(_)) | Self::Embedded(_) => "",
        }
    }
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Server(endpoint) => endpoint.fmt(f),
            Self::Embedded(_) => f.write_str("embedded"),
        }
    }
}

#[derive(Debug)]
enum Link {
    Socket(Stream),
    Embedded(Box<Embedded>),
}

/// An open connection and the bytes that have been read ahead.
#[derive(Debug)]
pub struct Connection {
    link: Link,
    scanner: Scanner,
    buffer: Vec<u8>,
    /// True if any bytes have arrived.
    has_heard: bool,
    /// Ends a wait for replies.
    interrupt: Option<Arc<Interrupt>>,
    /// The longest wait for the next byte, where a signal can end the wait.
    silence_max: Option<Duration>,
}

impl Connection {
    /// Connects, and sends nothing.
    pub fn open(target: &Target) -> io::Result<Self> {
        let link = match target {
            Target::Server(endpoint) => Link::Socket(endpoint.connect()?),
            Target::Embedded(engine) => Link::Embedded(Box::new(Embedded::connect(engine))),
        };
        Ok(Self {
            link,
            scanner: Scanner::new(),
            buffer: Vec::new(),
            has_heard: false,
            interrupt: None,
            silence_max: None,
        })
    }

    /// Lets Ctrl-C end every wait for a reply from now on, with an error. The connection is of no use after that.
    pub fn heed(&mut self, interrupt: Arc<Interrupt>) {
        self.interrupt = Some(interrupt);
    }

    /// Does as [`Connection::heed`], and ends a wait as well if the server sends nothing for so long.
    pub fn heed_within(&mut self, interrupt: Arc<Interrupt>, silence_max: Duration) {
        self.heed(interrupt);
        self.silence_max = Some(silence_max);
    }

    /// Returns the socket itself, if there is one, for a transfer that does its own reading and writing.
    pub fn socket(&self) -> Option<&Stream> {
        match &self.link {
            Link::Socket(stream) => Some(stream),
            Link::Embedded(_) => None,
        }
    }

    /// Returns whether the peer has hung up since the last request.
    pub fn is_stale(&self) -> bool {
        let stream = match &self.link {
            Link::Socket(stream) => stream,
            Link::Embedded(embedded) => return embedded.is_closed(),
        };
        let mut descriptors = [PollFd::new(stream, PollFlags::IN)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        if !poll(&mut descriptors, Some(&now)).is_ok_and(|ready| ready > 0) {
            return false;
        }
        let mut byte = [0];
        let peeked =
            rustix::net::recv(stream, &mut byte, rustix::net::RecvFlags::PEEK | rustix::net::RecvFlags::DONTWAIT);
        match peeked {
            Ok((length, _)) => length == 0,
            Err(error) => error != rustix::io::Errno::AGAIN && error != rustix::io::Errno::INTR,
        }
    }

    /// Sends one request.
    pub fn send<T: AsRef<[u8]>>(&mut self, words: &[T]) -> io::Result<()> {
        let mut request = Vec::new();
        encode(words, &mut request);
        self.send_bytes(&request)
    }

    fn send_bytes(&mut self, requests: &[u8]) -> io::Result<()> {
        match &mut self.link {
            Link::Socket(stream) => (&*stream).write_all(requests),
            Link::Embedded(embedded) => {
                embedded.send(requests);
                Ok(())
            }
        }
    }

    /// Sends one request and returns the bytes of its reply, which may be an error; pushed messages are passed over.
    pub fn ask<T: AsRef<[u8]>>(&mut self, words: &[T]) -> io::Result<Vec<u8>> {
        self.send(words)?;
        self.receive_reply(|_| {})
    }

    /// Sends several requests at once, and returns their replies.
    pub fn ask_all<R: AsRef<[T]>, T: AsRef<[u8]>>(&mut self, requests: &[R]) -> io::Result<Vec<Vec<u8>>> {
        let mut bytes = Vec::new();
        for words in requests {
            encode(words.as_ref(), &mut bytes);
        }
        self.send_bytes(&bytes)?;
        requests.iter().map(|_| self.receive_reply(|_| {})).collect()
    }

    /// Sends a request, and returns the reply if it is a number. An error reply is an error of kind `Other`.
    pub fn ask_number<T: AsRef<[u8]>>(&mut self, words: &[T]) -> io::Result<Option<u64>> {
        let reply = self.ask(words)?;
        match error_of(&reply) {
            Some(text) => Err(io::Error::other(text)),
            None => Ok(number_of(&reply)),
        }
    }

    /// Sends one request as a line of words without spaces in them.
    pub fn send_line(&mut self, line: &str) -> io::Result<()> {
        self.send_bytes(format!("{line}\r\n").as_bytes())
    }

    /// Returns the next line without its end. A line of more than `length_max` bytes is an error of kind `InvalidData`.
    pub fn receive_line(&mut self, length_max: usize) -> io::Result<Vec<u8>> {
        loop {
            if let Some(place) = memchr::memchr(b'\n', &self.buffer) {
                let rest = self.buffer.split_off(place + 1);
                let mut line = std::mem::replace(&mut self.buffer, rest);
                line.pop();
                line.pop_if(|last| *last == b'\r');
                return Ok(line);
            }
            if self.buffer.len() > length_max {
                let message = format!("Server sends more than {length_max} bytes where a line is due");
                return Err(io::Error::new(io::ErrorKind::InvalidData, message));
            }
            self.fill()?;
        }
    }

    /// Returns the bytes that have arrived, at least one, and waits for them if necessary.
    pub fn receive_some(&mut self) -> io::Result<Vec<u8>> {
        while self.buffer.is_empty() {
            self.fill()?;
        }
        Ok(std::mem::take(&mut self.buffer))
    }

    /// Puts bytes back that belong to what comes next. Nothing else may have been received since they were.
    pub fn put_back(&mut self, bytes: Vec<u8>) {
        self.buffer.splice(..0, bytes);
    }

    /// Returns the bytes of the next frame, which may be a pushed message.
    pub fn receive(&mut self) -> io::Result<Vec<u8>> {
        loop {
            if let Some(length) = cut(&mut self.scanner, &self.buffer)? {
                let rest = self.buffer.split_off(length);
                return Ok(std::mem::replace(&mut self.buffer, rest));
            }
            self.fill()?;
        }
    }

    /// Returns the bytes of the next frame that answers a request; pushed messages before it go to `pushed`.
    pub fn receive_reply(&mut self, mut pushed: impl FnMut(&[u8])) -> io::Result<Vec<u8>> {
        loop {
            let frame = self.receive()?;
            if frame.first() != Some(&b'>') {
                return Ok(frame);
            }
            pushed(&frame);
        }
    }

    fn fill(&mut self) -> io::Result<()> {
        let interrupt = self.interrupt.as_deref();
        let stream = match &mut self.link {
            Link::Socket(stream) => stream,
            Link::Embedded(embedded) => {
                return embedded.receive(&mut self.buffer, || interrupt.is_some_and(Interrupt::is_heard));
            }
        };
        let start = self.buffer.len();
        self.buffer.resize(start + READ_LENGTH, 0);
        let room = self.buffer.get_mut(start..).unwrap_or_default();
        let result = match interrupt {
            Some(interrupt) => read_unless(stream, room, interrupt, self.silence_max),
            None => (&*stream).read(room),
        };
        self.buffer.truncate(start + result.as_ref().map_or(0, |length| *length));
        match result {
            Ok(0) => Err(hung_up(stream, self.has_heard, io::ErrorKind::UnexpectedEof)),
            Ok(_) => {
                self.has_heard = true;
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset && !self.has_heard => {
                Err(hung_up(stream, false, error.kind()))
            }
            Err(error) => Err(error),
        }
    }
}

/// Reads, and waits for bytes until Ctrl-C, or for `silence_max`.
///
/// It tries before it waits: bytes that TLS has decrypted already are in no socket that could report them.
fn read_unless(
    stream: &Stream,
    room: &mut [u8],
    interrupt: &Interrupt,
    silence_max: Option<Duration>,
) -> io::Result<usize> {
    loop {
        stream.set_nonblocking(true)?;
        let result = (&mut &*stream).read(room);
        stream.set_nonblocking(false)?;
        match result {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            result => return result,
        }
        let waited = interrupt.wait_readable(stream, silence_max).map_err(|error| match (error.kind(), silence_max) {
            (io::ErrorKind::TimedOut, Some(limit)) => {
                io::Error::new(error.kind(), format!("Server has sent nothing for {} seconds", limit.as_secs()))
            }
            _ => error,
        });
        if !waited? {
            return Err(io::Error::other("Interrupted"));
        }
    }
}

/// Returns the text of a reply that is an error.
pub fn error_of(reply: &[u8]) -> Option<String> {
    match decode(reply) {
        Ok((Frame::Error(text), _)) => Some(String::from_utf8_lossy(text).into_owned()),
        _ => None,
    }
}

/// Returns the number that a reply is.
pub fn number_of(reply: &[u8]) -> Option<u64> {
    match decode(reply) {
        Ok((Frame::Integer(number), _)) => u64::try_from(number).ok(),
        _ => None,
    }
}
