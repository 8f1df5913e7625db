//! A thread of the load generator: its own epoll, its share of the connections, one batch in flight on each.
//!
//! A connection sends a batch of prebuilt requests, waits for all replies, and sends the next. Reading and writing cost one
//! system call each and there is no other bookkeeping in the kernel: a connection is registered for reading once, and for
//! writing only while a batch does not fit into its socket. The time of a request runs from the write of its batch to the
//! read that brought its reply.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::fs::Timespec;

use super::halt::{Halt, Order};
use super::pace::Pace;
use super::template::{Numbers, Template};
use crate::endpoint::{Endpoint, Login, Stream, hung_up};
use crate::replies::Replies;

/// The most bytes of one read.
const READ_LENGTH_MAX: usize = 64 * 1024;
/// The most connections that one wake-up serves.
const EVENTS_MAX: usize = 256;
/// The longest wait for the time to send, in milliseconds; after it the time is computed again.
const LONGEST_MS: u128 = 60_000;
/// The number that stands for the halt among the numbers of connections.
const HALT: u64 = u64::MAX;
/// The longest latency that the histogram tells apart, in microseconds.
const LATENCY_US_MAX: u64 = 60_000_000;

/// The work of one thread.
#[derive(Clone, Debug)]
pub struct Share {
    /// The address of the server.
    pub endpoint: Endpoint,
    /// The login that each connection sends first.
    pub login: Login,
    /// Connections.
    pub clients: usize,
    /// The requests of all connections together. A test with a fixed duration has a number that it never reaches.
    pub requests: u64,
    /// The time after which no more requests are sent, counted from the beginning.
    pub duration: Option<Duration>,
    /// The most requests a second.
    pub rate: Option<f64>,
    /// Requests of one batch.
    pub pipeline: usize,
    /// True if a connection serves more than one batch.
    pub keep_alive: bool,
    /// The encoded request.
    pub request: Vec<u8>,
    /// The numbers that replace its placeholders.
    pub numbers: Numbers,
}

/// The measurements of one thread.
#[derive(Debug)]
pub struct Measured {
    /// The time at which the last reply arrived.
    pub finished: Instant,
    /// Latencies in microseconds, one per request.
    pub latencies: Histogram<u64>,
}

/// Returns a histogram that fits every latency, to three digits.
pub fn histogram() -> Histogram<u64> {
    let mut histogram = Histogram::new_with_bounds(1, LATENCY_US_MAX, 3).expect("the bounds are constants in order");
    histogram.auto(false);
    histogram
}

#[derive(Debug)]
struct Peer {
    stream: Stream,
    replies: Replies,
    /// Replies of the current batch that are missing.
    waiting: usize,
    /// Bytes that did not fit into the socket.
    unsent: Vec<u8>,
    started: Instant,
}

/// The thread's connections and counters.
#[derive(Debug)]
pub struct Lane<'a> {
    share: Share,
    halt: &'a Halt,
    epoll: std::os::fd::OwnedFd,
    peers: Vec<Peer>,
    template: Template,
    /// Requests that have not been sent.
    unissued: u64,
    /// Requests that were sent and have not been answered.
    in_flight: u64,
    latencies: Histogram<u64>,
    pace: Option<Pace>,
    /// The connections that wait for their time to send.
    held: VecDeque<usize>,
}

impl<'a> Lane<'a> {
    /// Connects all clients of the share.
    pub fn connect(share: Share, halt: &'a Halt) -> io::Result<Self> {
        let mut lane = Self {
            epoll: epoll::create(CreateFlags::CLOEXEC)?,
            peers: Vec::with_capacity(share.clients),
            template: Template::new(&share.request, share.pipeline),
            unissued: share.requests,
            in_flight: 0,
            latencies: histogram(),
            pace: None,
            held: VecDeque::new(),
            halt,
            share,
        };
        // Edge-triggered: a wait does not report the same order again.
        epoll::add(&lane.epoll, halt, EventData::new_u64(HALT), EventFlags::IN | EventFlags::ET)?;
        for index in 0..lane.share.clients {
            let stream = lane.open(index)?;
            let now = Instant::now();
            let replies = Replies::default();
            lane.peers.push(Peer { stream, replies, waiting: 0, unsent: Vec::new(), started: now });
        }
        Ok(lane)
    }

    fn open(&self, index: usize) -> io::Result<Stream> {
        let stream = self.share.login.connect(&self.share.endpoint)?;
        stream.set_nonblocking(true)?;
        epoll::add(&self.epoll, &stream, EventData::new_u64(index as u64), EventFlags::IN)?;
        Ok(stream)
    }

    /// Sends and receives until every request of the share has been answered or the test ends; adds finished requests to
    /// `progress`.
    pub fn run(mut self, progress: &AtomicU64) -> io::Result<Measured> {
        let mut buffer = vec![0; READ_LENGTH_MAX];
        let mut events = Vec::with_capacity(EVENTS_MAX);
        let start = Instant::now();
        self.pace = self.share.rate.map(|rate| Pace::new(rate, start));
        for index in 0..self.peers.len() {
            self.send(index, start)?;
        }
        while self.in_flight > 0 || self.unissued > 0 {
            let before = self.latencies.len();
            self.wait(&mut events)?;
            for event in &events {
                // The kernel's struct is packed: fields are copied out before they are looked at.
                let (index, flags) = (event.data.u64(), event.flags);
                if index == HALT {
                    if self.halt.order() == Order::Now {
                        return Ok(self.measured());
                    }
                    self.unissued = 0;
                    continue;
                }
                let index = index as usize;
                if flags.contains(EventFlags::OUT) {
                    self.send_rest(index)?;
                }
                if flags.intersects(EventFlags::IN | EventFlags::HUP | EventFlags::ERR) {
                    // Bytes that TLS has decrypted and that did not fit into the buffer are in no socket, so no event reports
                    // them.
                    while self.receive(index, &mut buffer)? == buffer.len() {}
                }
            }
            self.send_held()?;
            progress.fetch_add(self.latencies.len() - before, Ordering::Relaxed);
        }
        Ok(self.measured())
    }

    fn measured(self) -> Measured {
        Measured { finished: Instant::now(), latencies: self.latencies }
    }

    fn wait(&self, events: &mut Vec<Event>) -> io::Result<()> {
        events.clear();
        let wait = self.pace.filter(|_| !self.held.is_empty()).map(|pace| pace.wait(Instant::now()));
        // The kernel waits in whole milliseconds, so the wait is rounded up.
        let wait = wait.map(|wait| Duration::from_millis(wait.as_nanos().div_ceil(1_000_000).min(LONGEST_MS) as u64));
        let wait = wait.and_then(|wait| Timespec::try_from(wait).ok());
        match epoll::wait(&self.epoll, spare_capacity(events), wait.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Sends the next batch of a connection, if requests are left, or holds it until its time.
    fn send(&mut self, index: usize, now: Instant) -> io::Result<()> {
        let count = self.unissued.min(self.share.pipeline as u64) as usize;
        let Some(peer) = self.peers.get_mut(index) else { return Ok(()) };
        if count == 0 {
            return Ok(());
        }
        if let Some(pace) = &mut self.pace {
            if !pace.wait(now).is_zero() {
                self.held.push_back(index);
                return Ok(());
            }
            pace.spend(count, now);
        }
        self.unissued -= count as u64;
        self.in_flight += count as u64;
        peer.waiting = count;
        peer.started = now;
        let bytes = self.template.next(count, &mut self.share.numbers);
        let sent = write_some(&peer.stream, bytes)?;
        if sent < bytes.len() {
            peer.unsent.extend_from_slice(bytes.get(sent..).unwrap_or_default());
            let both = EventFlags::IN | EventFlags::OUT;
            epoll::modify(&self.epoll, &peer.stream, EventData::new_u64(index as u64), both)?;
        }
        Ok(())
    }

    /// Sends the held requests that may leave now, the longest held first.
    fn send_held(&mut self) -> io::Result<()> {
        let Some(now) = (!self.held.is_empty()).then(Instant::now) else { return Ok(()) };
        while self.pace.is_some_and(|pace| pace.wait(now).is_zero()) {
            let Some(index) = self.held.pop_front() else { break };
            self.send(index, now)?;
        }
        Ok(())
    }

    /// Goes on with a batch that did not fit into the socket.
    fn send_rest(&mut self, index: usize) -> io::Result<()> {
        let Some(peer) = self.peers.get_mut(index) else { return Ok(()) };
        let sent = write_some(&peer.stream, &peer.unsent)?;
        peer.unsent.drain(..sent);
        if peer.unsent.is_empty() {
            epoll::modify(&self.epoll, &peer.stream, EventData::new_u64(index as u64), EventFlags::IN)?;
        }
        Ok(())
    }

    /// Reads the bytes that have arrived, records them, and sends the next batch when this one is complete.
    ///
    /// Reads once; returns the number of bytes.
    fn receive(&mut self, index: usize, buffer: &mut [u8]) -> io::Result<usize> {
        let Some(peer) = self.peers.get_mut(index) else { return Ok(0) };
        let length = match (&peer.stream).read(buffer) {
            Ok(0) => return Err(hung_up(&peer.stream, !self.latencies.is_empty(), io::ErrorKind::UnexpectedEof)),
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset && self.latencies.is_empty() => {
                return Err(hung_up(&peer.stream, false, error.kind()));
            }
            Ok(length) => length,
            Err(error) if is_temporary(&error) => return Ok(0),
            Err(error) => return Err(error),
        };
        let now = Instant::now();
        let count = peer.replies.count(buffer.get(..length).unwrap_or_default())?;
        if let Some(text) = peer.replies.first_error() {
            return Err(io::Error::other(format!("Error from server: {text}")));
        }
        if count > peer.waiting {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "Server sent a reply that nobody asked for"));
        }
        peer.waiting -= count;
        let microseconds = now.duration_since(peer.started).as_micros().min(LATENCY_US_MAX.into()) as u64;
        self.latencies.saturating_record_n(microseconds.max(1), count as u64);
        self.in_flight -= count as u64;
        if count == 0 || peer.waiting > 0 {
            return Ok(length);
        }
        if self.share.keep_alive {
            self.send(index, now)?;
        } else {
            self.reopen(index)?;
        }
        Ok(length)
    }

    fn reopen(&mut self, index: usize) -> io::Result<()> {
        if self.unissued == 0 {
            return Ok(());
        }
        let stream = self.open(index)?;
        if let Some(peer) = self.peers.get_mut(index) {
            peer.stream = stream;
        }
        self.send(index, Instant::now())
    }
}

fn write_some(mut stream: &Stream, bytes: &[u8]) -> io::Result<usize> {
    match stream.write(bytes) {
        Err(error) if is_temporary(&error) => Ok(0),
        result => result,
    }
}

fn is_temporary(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}
