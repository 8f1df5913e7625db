//! The shell's connection: one request, then its reply, over a blocking socket.
//!
//! The shell shows what the server sent, so replies stay frames and nothing is decoded into types. Messages that the
//! server pushes in between are handed to the caller as they come. One thread; no queue.

use std::io::{self, Read, Write};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::Timespec;
use sleeve_wire::frame::Scanner;

use crate::endpoint::{Endpoint, Stream, encode};

/// Bytes asked for by one read.
const READ_LENGTH: usize = 16 * 1024;

/// An open connection and the bytes that have been read ahead.
#[derive(Debug)]
pub struct Connection {
    stream: Stream,
    scanner: Scanner,
    buffer: Vec<u8>,
}

impl Connection {
    /// Connects; nothing is sent.
    pub fn open(endpoint: &Endpoint) -> io::Result<Self> {
        Ok(Self { stream: endpoint.connect()?, scanner: Scanner::new(), buffer: Vec::new() })
    }

    /// The socket itself, for a transfer that does its own reading and writing.
    pub fn socket(&self) -> &Stream {
        &self.stream
    }

    /// Whether the peer has hung up while nobody was asking.
    pub fn is_stale(&self) -> bool {
        let mut descriptors = [PollFd::new(&self.stream, PollFlags::IN)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        if !poll(&mut descriptors, Some(&now)).is_ok_and(|ready| ready > 0) {
            return false;
        }
        let mut byte = [0];
        let peeked =
            rustix::net::recv(&self.stream, &mut byte, rustix::net::RecvFlags::PEEK | rustix::net::RecvFlags::DONTWAIT);
        match peeked {
            Ok((length, _)) => length == 0,
            Err(error) => error != rustix::io::Errno::AGAIN && error != rustix::io::Errno::INTR,
        }
    }

    /// Sends one request.
    pub fn send<T: AsRef<[u8]>>(&mut self, words: &[T]) -> io::Result<()> {
        let mut request = Vec::new();
        encode(words, &mut request);
        (&self.stream).write_all(&request)
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
        let start = self.buffer.len();
        self.buffer.resize(start + READ_LENGTH, 0);
        let room = self.buffer.get_mut(start..).unwrap_or_default();
        let result = (&self.stream).read(room);
        self.buffer.truncate(start + result.as_ref().map_or(0, |length| *length));
        match result {
            Ok(0) => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "Server closed the connection")),
            Ok(_) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
            Err(error) => Err(error),
        }
    }
}
