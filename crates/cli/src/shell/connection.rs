//! The shell's connection: one request, then its reply, over a blocking socket or to an engine in this process.
//!
//! The shell shows what the server sent, so replies stay frames and nothing is decoded into types. Messages that the
//! server pushes in between are handed to the caller as they come. One thread; no queue.

use std::io::{self, Read, Write};
use std::sync::Arc;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::Timespec;
use sleeve_server::Engine;
use sleeve_wire::frame::Scanner;

use super::embedded::Embedded;
use crate::endpoint::{Endpoint, Stream, encode};

/// Bytes asked for by one read.
const READ_LENGTH: usize = 16 * 1024;

/// Where the shell sends its requests.
#[derive(Clone, Debug)]
pub enum Target {
    /// A server behind a socket.
    Server(Endpoint),
    /// An engine in this process, which lives as long as the shell.
    Embedded(Arc<Engine>),
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
}

impl Connection {
    /// Connects; nothing is sent.
    pub fn open(target: &Target) -> io::Result<Self> {
        let link = match target {
            Target::Server(endpoint) => Link::Socket(endpoint.connect()?),
            Target::Embedded(engine) => Link::Embedded(Box::new(Embedded::connect(engine))),
        };
        Ok(Self { link, scanner: Scanner::new(), buffer: Vec::new() })
    }

    /// The socket itself, where there is one, for a transfer that does its own reading and writing.
    pub fn socket(&self) -> Option<&Stream> {
        match &self.link {
            Link::Socket(stream) => Some(stream),
            Link::Embedded(_) => None,
        }
    }

    /// Whether the peer has hung up while nobody was asking.
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
        match &mut self.link {
            Link::Socket(stream) => (&*stream).write_all(&request),
            Link::Embedded(embedded) => {
                embedded.send(&request);
                Ok(())
            }
        }
    }

    /// The bytes of the next frame, which may be a pushed message.
    pub fn receive(&mut self) -> io::Result<Vec<u8>> {
        loop {
            let scanned = self.scanner.scan(&self.buffer);
            if let Some(length) = scanned.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))? {
                let rest = self.buffer.split_off(length);
                return Ok(std::mem::replace(&mut self.buffer, rest));
            }
            self.fill()?;
        }
    }

    /// The bytes of the next frame that answers a request; pushed messages before it go to `pushed`.
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
        let stream = match &mut self.link {
            Link::Socket(stream) => stream,
            Link::Embedded(embedded) => return embedded.receive(&mut self.buffer),
        };
        let start = self.buffer.len();
        self.buffer.resize(start + READ_LENGTH, 0);
        let room = self.buffer.get_mut(start..).unwrap_or_default();
        let result = (&*stream).read(room);
        self.buffer.truncate(start + result.as_ref().map_or(0, |length| *length));
        match result {
            Ok(0) => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "Server closed the connection")),
            Ok(_) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
            Err(error) => Err(error),
        }
    }
}
