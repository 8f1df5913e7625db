//! A proxy on the loopback interface that adds a round trip: a LAN or a WAN between a client and a server at hand.
//!
//! One thread moves bytes both ways. Each piece that arrives is stamped and written half a round trip later, so pieces that
//! are in flight together stay together, as on a line. Where the line has a width, a piece leaves when those before it have,
//! and takes as long as its bits need. The kernel's wake-ups come late by some microseconds and moving bytes takes time too.
//! [`Proxy::start`] measures that with PINGs, with and without the proxy, and takes it off the delay, so that the added delay
//! is the requested one.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::num::NonZeroU64;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::Timespec;

use crate::endpoint::{Endpoint, Login, Stream, encode, exchange};

/// The number of bytes read at once.
const CHUNK_LENGTH: usize = 64 * 1024;
/// The number of bytes that one direction holds before it stops reading.
const HELD_MAX: usize = 64 * 1024 * 1024;
/// The most bytes of one direction that may wait, if the line has a limited bandwidth.
const NARROW_HELD_MAX: usize = 64 * 1024;
/// The longest sleep of the thread, so that it notices its end.
const NAP: Duration = Duration::from_millis(50);
/// The number of PINGs of one measurement.
const PINGS: usize = 200;
/// The number of corrections of the delay.
const CORRECTIONS: usize = 4;

/// The line between the client and the server.
#[derive(Clone, Copy, Debug)]
pub struct Line {
    /// The time that is added to a round trip.
    pub round_trip: Duration,
    /// The bandwidth of each direction; `None` for no limit.
    pub bits_per_second: Option<u64>,
}

/// A running proxy; it ends when it is dropped.
#[derive(Debug)]
pub struct Proxy {
    endpoint: Endpoint,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    added: Duration,
}

impl Proxy {
    /// Starts a proxy in front of `target` that puts this line between, and calibrates it.
    pub fn start(target: &Endpoint, login: &Login, line: Line) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        let endpoint = Endpoint::Tcp { host: Ipv4Addr::LOCALHOST.to_string(), port: listener.local_addr()?.port() };
        let stop = Arc::new(AtomicBool::new(false));
        let delay_ns = Arc::new(AtomicU64::new(0));
        let relay = Relay {
            listener,
            target: target.clone(),
            stop: Arc::clone(&stop),
            delay_ns: Arc::clone(&delay_ns),
            bits_per_second: line.bits_per_second,
            pairs: Vec::new(),
            chunk: vec![0; line.bits_per_second.map_or(CHUNK_LENGTH, piece_length)],
        };
        let thread = std::thread::Builder::new().name("sleeve-proxy".into()).spawn(move || relay.run())?;
        let mut proxy = Self { endpoint, stop, thread: Some(thread), added: Duration::ZERO };
        proxy.calibrate(target, login, line.round_trip, &delay_ns)?;
        Ok(proxy)
    }

    /// Returns the address to which clients connect.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Returns the added round trip, as measured.
    pub fn added(&self) -> Duration {
        self.added
    }

    /// Corrects the delay until the added round trip is the wanted one.
    fn calibrate(
        &mut self,
        target: &Endpoint,
        login: &Login,
        wanted: Duration,
        delay_ns: &AtomicU64,
    ) -> io::Result<()> {
        let (direct, through) = (login.connect(target)?, login.connect(&self.endpoint)?);
        let pings = (PINGS as u128).min(1 + Duration::from_secs(1).as_nanos() / wanted.as_nanos().max(1)) as usize;
        delay_ns.store(wanted.as_nanos() as u64 / 2, Ordering::Relaxed);
        for _ in 0..CORRECTIONS {
            let base = ping(&direct, pings)?;
            self.added = ping(&through, pings)?.saturating_sub(base);
            let error_ns = self.added.as_nanos() as i64 - wanted.as_nanos() as i64;
            if error_ns.unsigned_abs() < 10_000 {
                break;
            }
            let delay = delay_ns.load(Ordering::Relaxed);
            delay_ns.store(delay.saturating_add_signed(-error_ns / 2), Ordering::Relaxed);
        }
        let base = ping(&direct, pings)?;
        self.added = ping(&through, pings)?.saturating_sub(base);
        Ok(())
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A panic of the proxy has been printed already, and there is nothing to undo.
            let _ = thread.join();
        }
    }
}

/// Returns the median time of a PING.
fn ping(stream: &Stream, count: usize) -> io::Result<Duration> {
    let mut request = Vec::new();
    encode(&["PING"], &mut request);
    let mut times = Vec::with_capacity(count);
    for _ in 0..count {
        let start = Instant::now();
        exchange(stream, &request, 1)?;
        times.push(start.elapsed());
    }
    times.sort_unstable();
    times.get(count / 2).copied().ok_or_else(|| io::Error::other("no PING was sent"))
}

/// The thread's state.
struct Relay {
    listener: TcpListener,
    target: Endpoint,
    stop: Arc<AtomicBool>,
    /// The delay of one direction.
    delay_ns: Arc<AtomicU64>,
    /// The bandwidth of one direction.
    bits_per_second: Option<u64>,
    pairs: Vec<Pair>,
    chunk: Vec<u8>,
}

/// Returns the number of bytes that a line of this bandwidth takes at once: those that it carries in a millisecond.
fn piece_length(bits_per_second: u64) -> usize {
    ((bits_per_second / 8_000) as usize).clamp(1_400, CHUNK_LENGTH)
}

/// A client's connection and the connection to the server that belongs to it.
struct Pair {
    ends: [Stream; 2],
    /// The bytes that were read from the end with the same index and are due at the other end.
    held: [Held; 2],
    /// The most bytes of one direction that may wait.
    held_max: usize,
}

/// The way in which bytes that are read now get to the other side.
struct Passage {
    now: Instant,
    delay: Duration,
    bits_per_second: Option<u64>,
}

impl Passage {
    /// Returns the time at which a piece that is read now has arrived whole. The line is free from `free_at` on.
    fn due(&self, length: usize, free_at: &mut Option<Instant>) -> Instant {
        let Some(bits_per_second) = self.bits_per_second else { return self.now + self.delay };
        let begun = free_at.map_or(self.now, |free_at| free_at.max(self.now));
        let left = begun + Duration::from_secs_f64(length as f64 * 8.0 / bits_per_second as f64);
        *free_at = Some(left);
        left + self.delay
    }
}

#[derive(Default)]
struct Held {
    pieces: VecDeque<Piece>,
    bytes: usize,
    /// The time at which the last bit of the bytes taken in has left, if the line has a limited bandwidth.
    free_at: Option<Instant>,
    /// True if the other end's socket was full; the kernel reports when it has room.
    blocked: bool,
    /// The reads have ended.
    ended: bool,
    /// True if the other end cannot be written to.
    broken: bool,
}

struct Piece {
    due: Instant,
    bytes: Vec<u8>,
    /// The number of its bytes that are written.
    written: usize,
}

impl Relay {
    fn run(mut self) {
        // Without this slack, a sleep may end up to 50 microseconds late. If the system does not allow the change,
        // calibration still helps.
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        while !self.stop.load(Ordering::Relaxed) {
            let ready = self.wait();
            let now = Instant::now();
            if ready.first() == Some(&true) {
                self.accept();
            }
            let passage = Passage {
                now,
                delay: Duration::from_nanos(self.delay_ns.load(Ordering::Relaxed)),
                bits_per_second: self.bits_per_second,
            };
            for (index, pair) in self.pairs.iter_mut().enumerate() {
                for end in 0..2 {
                    if ready.get(1 + index * 2 + end) == Some(&true) {
                        pair.read(end, &passage, &mut self.chunk);
                    }
                }
            }
            let now = Instant::now();
            for pair in &mut self.pairs {
                pair.write(0, now);
                pair.write(1, now);
            }
            self.pairs.retain(|pair| !pair.held.iter().any(Held::is_over));
        }
    }

    /// Sleeps until bytes arrive or are due; returns which descriptors are readable: the listener, then two of each pair.
    fn wait(&self) -> Vec<bool> {
        let mut descriptors = vec![PollFd::from_borrowed_fd(self.listener.as_fd(), PollFlags::IN)];
        for pair in &self.pairs {
            for end in 0..2 {
                descriptors.push(PollFd::from_borrowed_fd(pair.ends[end].as_fd(), pair.wanted(end)));
            }
        }
        let now = Instant::now();
        let due = self.pairs.iter().flat_map(|pair| &pair.held).filter_map(Held::next_due).min();
        let nap = due.map_or(NAP, |due| due.saturating_duration_since(now).min(NAP));
        let nap = Timespec { tv_sec: nap.as_secs() as i64, tv_nsec: nap.subsec_nanos().into() };
        // An interrupted sleep is only shorter.
        let _ = poll(&mut descriptors, Some(&nap));
        let readable = PollFlags::IN | PollFlags::HUP | PollFlags::ERR;
        descriptors.iter().map(|descriptor| descriptor.revents().intersects(readable)).collect()
    }

    fn accept(&mut self) {
        // A client that cannot be served sees its connection closed.
        while let Ok((client, _)) = self.listener.accept() {
            let _ = client.set_nodelay(true);
            let ends = self.target.connect().map(|server| [Stream::Tcp(client), server]);
            if let Ok(ends) = ends
                && ends.iter().all(|end| end.set_nonblocking(true).is_ok())
            {
                // A narrow line takes in little more than it carries: the sender's own socket holds the rest.
                let held_max = if self.bits_per_second.is_some() { NARROW_HELD_MAX } else { HELD_MAX };
                self.pairs.push(Pair { ends, held: Default::default(), held_max });
            }
        }
    }
}

impl Held {
    /// Returns the time at which the next piece is due; none if the socket is full, because the kernel reports its room.
    fn next_due(&self) -> Option<Instant> {
        self.pieces.front().filter(|_| !self.blocked).map(|piece| piece.due)
    }

    /// Returns whether nothing will be written any more. The last bytes of an end that has closed are still delivered.
    fn is_over(&self) -> bool {
        self.broken || (self.ended && self.pieces.is_empty())
    }
}

impl Pair {
    fn wanted(&self, end: usize) -> PollFlags {
        let mut wanted = PollFlags::empty();
        if self.held[end].bytes < self.held_max && !self.held[end].ended {
            wanted |= PollFlags::IN;
        }
        if self.held[1 - end].blocked {
            wanted |= PollFlags::OUT;
        }
        wanted
    }

    fn read(&mut self, end: usize, passage: &Passage, chunk: &mut [u8]) {
        let held = &mut self.held[end];
        match (&self.ends[end]).read(chunk) {
            Ok(0) => held.ended = true,
            Ok(length) => {
                let bytes = chunk.get(..length).unwrap_or_default().to_vec();
                held.bytes += length;
                let due = passage.due(length, &mut held.free_at);
                held.pieces.push_back(Piece { due, bytes, written: 0 });
            }
            Err(error) if is_temporary(&error) => {}
            Err(_) => held.ended = true,
        }
    }

    /// Writes the bytes that came from `end` and are due to the other end.
    fn write(&mut self, end: usize, now: Instant) {
        let (held, mut to) = (&mut self.held[end], &self.ends[1 - end]);
        held.blocked = false;
        while let Some(piece) = held.pieces.front_mut().filter(|piece| piece.due <= now) {
            match to.write(piece.bytes.get(piece.written..).unwrap_or_default()) {
                Ok(length) => piece.written += length,
                Err(error) if is_temporary(&error) => {
                    held.blocked = true;
                    return;
                }
                Err(_) => {
                    held.broken = true;
                    return;
                }
            }
            if piece.written == piece.bytes.len() {
                held.bytes -= piece.bytes.len();
                held.pieces.pop_front();
            }
        }
    }
}

fn is_temporary(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader};

    /// Starts a server that answers each line `PING` with a pong, and `BYE` with a long farewell and the connection's end.
    fn start_server(farewell: Vec<u8>) -> Endpoint {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let farewell = farewell.clone();
                std::thread::spawn(move || {
                    let mut writer = stream.try_clone().unwrap();
                    for line in BufReader::new(stream).lines().map_while(Result::ok) {
                        match line.as_str() {
                            "PING" => writer.write_all(b"+PONG\r\n").unwrap(),
                            "BYE" => return writer.write_all(&farewell).unwrap(),
                            _ => {}
                        }
                    }
                });
            }
        });
        Endpoint::Tcp { host: Ipv4Addr::LOCALHOST.to_string(), port }
    }

    #[test]
    fn bytes_pass_unchanged_and_the_last_ones_arrive_before_the_end() {
        let farewell: Vec<u8> = (0..3_000_000u32).map(|number| (number % 251) as u8).collect();
        let target = start_server(farewell.clone());
        let line = Line { round_trip: Duration::from_millis(2), bits_per_second: None };
        let proxy = Proxy::start(&target, &Login::default(), line).unwrap();
        let stream = proxy.endpoint().connect().unwrap();
        (&stream).write_all(b"BYE\n").unwrap();
        let mut received = Vec::new();
        (&stream).read_to_end(&mut received).unwrap();
        assert!(received == farewell, "{} of {} bytes", received.len(), farewell.len());
    }

    #[test]
    fn a_narrow_line_takes_as_long_as_its_bits_need() {
        let now = Instant::now();
        let passage = Passage { now, delay: Duration::from_millis(24), bits_per_second: Some(8_000) };
        let mut free_at = None;
        assert_eq!(passage.due(100, &mut free_at), now + Duration::from_millis(124));
        assert_eq!(passage.due(50, &mut free_at), now + Duration::from_millis(174));
        let later = Passage { now: now + Duration::from_secs(1), ..passage };
        assert_eq!(later.due(100, &mut free_at), now + Duration::from_millis(1124));
        let farewell = vec![7; 100_000];
        let target = start_server(farewell.clone());
        let line = Line { round_trip: Duration::from_millis(1), bits_per_second: Some(8_000_000) };
        let proxy = Proxy::start(&target, &Login::default(), line).unwrap();
        let (stream, begun) = (proxy.endpoint().connect().unwrap(), Instant::now());
        (&stream).write_all(b"BYE\n").unwrap();
        let mut received = Vec::new();
        (&stream).read_to_end(&mut received).unwrap();
        // It cannot be faster; how much slower is the machine's affair.
        assert!(received == farewell && begun.elapsed() >= Duration::from_millis(99), "{:?}", begun.elapsed());
    }
}
