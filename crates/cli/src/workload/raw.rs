//! The yardstick: a program that does nothing but move prebuilt requests through a socket and count replies.
//!
//! The cost of a client library is given as a multiple of this, measured in the same run.

use std::io::{self, Read, Write};

use rustix::event::{PollFd, PollFlags, poll};

use super::sample::{SAMPLE_TIME_MAX, StepTimes, Stopwatch};
use crate::endpoint::{Endpoint, Login, Stream, encode};
use crate::replies::Replies;
use crate::shell::pipe;

/// The number of bytes read at once.
const CHUNK_LENGTH: usize = 64 * 1024;

/// Requests as bytes, with their lengths and the number of replies of each.
#[derive(Clone, Debug, Default)]
pub struct Requests {
    bytes: Vec<u8>,
    parts: Vec<Part>,
}

#[derive(Clone, Copy, Debug)]
struct Part {
    length: usize,
    replies: usize,
}

impl Requests {
    /// Adds one operation, which may be several requests on the wire.
    pub fn push(&mut self, bytes: &[u8], replies: usize) {
        self.bytes.extend_from_slice(bytes);
        self.parts.push(Part { length: bytes.len(), replies });
    }
}

/// A socket that is logged in.
#[derive(Debug)]
pub struct Raw {
    stream: Stream,
    /// The database of the login.
    database: u32,
    chunk: Vec<u8>,
}

impl Raw {
    /// Connects.
    pub fn connect(endpoint: &Endpoint, login: &Login) -> io::Result<Self> {
        Ok(Self { stream: login.connect(endpoint)?, database: login.database, chunk: vec![0; CHUNK_LENGTH] })
    }

    /// Goes back to the database of the login, which the steps of a workload may have left.
    pub fn reselect(&mut self) -> io::Result<()> {
        let (mut requests, mut bytes) = (Requests::default(), Vec::new());
        encode(&["SELECT", &self.database.to_string()], &mut bytes);
        requests.push(&bytes, 1);
        self.one_by_one(&requests).map(drop)
    }

    /// Sends operations one after the other, each when the one before has been answered, for as long as a sample takes.
    pub fn one_by_one(&mut self, requests: &Requests) -> io::Result<StepTimes> {
        self.stream.set_nonblocking(false)?;
        let mut replies = Replies::default();
        let (mut start, mut done) = (0, 0);
        let watch = Stopwatch::start();
        for part in &requests.parts {
            let bytes = requests.bytes.get(start..start + part.length).unwrap_or_default();
            start += part.length;
            (&self.stream).write_all(bytes)?;
            let mut seen = 0;
            while seen < part.replies {
                let length = (&self.stream).read(&mut self.chunk)?;
                seen += self.count(&mut replies, length)?;
            }
            done += 1;
            if watch.elapsed() > SAMPLE_TIME_MAX {
                break;
            }
        }
        Ok(watch.stop(done))
    }

    /// Sends all requests as fast as the socket takes them, and reads replies as they arrive.
    pub fn together(&mut self, requests: &Requests) -> io::Result<StepTimes> {
        self.stream.set_nonblocking(true)?;
        let mut replies = Replies::default();
        let expected: usize = requests.parts.iter().map(|part| part.replies).sum();
        let (mut sent, mut seen) = (0, 0);
        let watch = Stopwatch::start();
        while seen < expected {
            let rest = requests.bytes.get(sent..).unwrap_or_default();
            let wrote = if rest.is_empty() { 0 } else { tried((&self.stream).write(rest))?.unwrap_or(0) };
            sent += wrote;
            match tried((&self.stream).read(&mut self.chunk))? {
                Some(length) => seen += self.count(&mut replies, length)?,
                None if wrote == 0 => self.await_readiness(!rest.is_empty())?,
                None => {}
            }
        }
        Ok(watch.stop(requests.parts.len() as u64))
    }

    /// Sends all requests as `cli --pipe` does.
    pub fn piped(&mut self, requests: &Requests) -> io::Result<StepTimes> {
        self.stream.set_nonblocking(false)?;
        let watch = Stopwatch::start();
        let replies = pipe::insert(&self.stream, &mut requests.bytes.as_slice());
        self.stream.set_read_timeout(None)?;
        Ok(watch.stop(replies?))
    }

    fn await_readiness(&self, unsent: bool) -> io::Result<()> {
        let wanted = if unsent { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
        match poll(&mut [PollFd::new(&self.stream, wanted)], None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn count(&self, replies: &mut Replies, length: usize) -> io::Result<usize> {
        if length == 0 {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "Server closed the connection"));
        }
        let count = replies.count(self.chunk.get(..length).unwrap_or_default())?;
        match replies.first_error() {
            Some(text) => Err(io::Error::other(text.to_owned())),
            None => Ok(count),
        }
    }
}

/// Returns the result of a nonblocking call; none if it had nothing to do yet.
fn tried(result: io::Result<usize>) -> io::Result<Option<usize>> {
    match result {
        Ok(length) => Ok(Some(length)),
        Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => Ok(None),
        Err(error) => Err(error),
    }
}
