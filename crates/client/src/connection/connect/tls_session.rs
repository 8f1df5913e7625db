//! TLS around a stream: sent bytes are encrypted on the way out, received bytes decrypted on the way in.
//!
//! A [`TlsSession`] stands beside a connected stream, which is passed to each of its calls. It never blocks, whether the
//! stream does or not. Once bytes are encrypted they have to leave, so those that the kernel does not take stay here as
//! residue. The next call sends it first, and while there is some, a task that waits for the stream also waits for room. Any
//! thread; one call at a time proceeds.

use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::{RecvFlags, SendFlags};
use rustls::{ClientConfig, ClientConnection};

use super::questions::{Answer, Questions};
use super::refusal::HANDSHAKE_UNANSWERED;
use crate::config::tls::Tls;
use crate::reactor::TaskWaker;
use crate::sys::PerProcess;
use crate::sys::lock::Mutex;
use crate::sys::{SEND_FLAGS, now, timespec};

/// The TLS state of one stream.
#[derive(Debug)]
pub struct TlsSession {
    state: Mutex<TlsBuffers>,
    /// True while encrypted bytes wait for room.
    residue: AtomicBool,
    /// True while decrypted bytes wait to be taken.
    plain: AtomicBool,
}

#[derive(Debug)]
struct TlsBuffers {
    connection: ClientConnection,
    /// Encrypted bytes; `sent` of them have left.
    sealed: Vec<u8>,
    sent: usize,
    /// The bytes of the last receive: `filled` bytes, of which `fed` were passed to the TLS library.
    arrived: Box<[u8]>,
    filled: usize,
    fed: usize,
    /// True if any of the received bytes were TLS.
    has_heard: bool,
}

/// The number of plain bytes that are encrypted at a time.
const CHUNK_BYTES: usize = 64 * 1024;
/// The largest number of bytes that one receive takes: a record with its header.
const ARRIVED_BYTES: usize = 17 * 1024;

impl TlsSession {
    /// Agrees on keys with the server at the other end of `stream`. It waits, up to the deadline, whether or not the stream
    /// blocks.
    ///
    /// # Errors
    /// A file that cannot be used, a server that is not believed or does not believe us, or the error of the stream.
    pub fn handshake(stream: impl AsFd, tls: &Tls, host: &str, deadline: Instant) -> io::Result<Self> {
        let mut handshake = Handshake::new(tls, read_files_until(tls, deadline)?, host)?;
        while let Some(flags) = handshake.proceed(&stream)? {
            wait(&stream, flags, deadline)?;
        }
        handshake.finish(stream)
    }

    /// Encrypts and sends; returns the number of bytes that are on their way.
    ///
    /// # Errors
    /// `WouldBlock` while earlier bytes wait for room, or the error of the stream.
    pub fn send(&self, stream: impl AsFd, bytes: &[u8]) -> io::Result<usize> {
        let state = &mut *self.state.lock();
        if self.push(state, &stream)? == Flushed::Full {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let count = bytes.len().min(CHUNK_BYTES);
        state.connection.writer().write_all(bytes.get(..count).unwrap_or_default())?;
        state.collect()?;
        // Some of the bytes may have left before the stream failed, so all of them count as sent: the next send, or receive,
        // gets the error.
        _ = self.push(state, &stream);
        Ok(count)
    }

    /// Sends the encrypted bytes that wait for room, as far as there is room now.
    ///
    /// # Errors
    /// The errors of the stream.
    pub fn flush(&self, stream: impl AsFd) -> io::Result<()> {
        if self.has_residue() {
            self.push(&mut self.state.lock(), &stream)?;
        }
        Ok(())
    }

    /// Sends and waits until all bytes have left; for streams with an owner that waits for nothing else.
    ///
    /// # Errors
    /// The errors of the stream.
    pub fn send_all(&self, stream: impl AsFd, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() || self.has_residue() {
            if self.has_residue() {
                wait_for(&stream, PollFlags::OUT, None)?;
                self.flush(&stream)?;
            } else {
                let count = self.send(&stream, bytes)?;
                bytes = bytes.get(count..).unwrap_or_default();
            }
        }
        Ok(())
    }

    /// Decrypts the bytes that have arrived; returns 0 if the peer has closed the stream. If the room is not filled, no
    /// decrypted bytes are left.
    ///
    /// # Errors
    /// `WouldBlock` if no bytes have arrived, or the error of the stream, or the fault in the received bytes.
    pub fn receive(&self, stream: impl AsFd, room: &mut [u8]) -> io::Result<usize> {
        let state = &mut *self.state.lock();
        let mut count = 0;
        loop {
            let rest = room.get_mut(count..).unwrap_or_default();
            let taken = match state.connection.reader().read(rest) {
                Ok(0) => return Ok(count),
                Ok(taken) => taken,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(count),
                Err(error) => return Err(error),
            };
            count += taken;
            self.plain.store(count == room.len(), Ordering::Relaxed);
            if count == room.len() {
                return Ok(count);
            }
            if taken != 0 {
                continue;
            }
            match state.arrive(&stream) {
                Ok(Arrived::Bytes) => {}
                Ok(Arrived::End) => return Ok(count),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock && count != 0 => return Ok(count),
                Err(error) => return Err(error),
            }
            if state.connection.wants_write() {
                state.collect()?;
                self.push(state, &stream)?;
            }
        }
    }

    /// Returns whether encrypted bytes wait for room.
    pub fn has_residue(&self) -> bool {
        self.residue.load(Ordering::Relaxed)
    }

    /// Returns whether decrypted bytes may wait to be taken: they are in this session, not in the stream.
    pub fn has_plain(&self) -> bool {
        self.plain.load(Ordering::Relaxed)
    }

    fn push(&self, state: &mut TlsBuffers, stream: impl AsFd) -> io::Result<Flushed> {
        let flushed = state.flush(stream)?;
        self.residue.store(flushed == Flushed::Full, Ordering::Relaxed);
        Ok(flushed)
    }
}

/// The largest number of connections with files that are read at the same time, each with other files. A file may be on a
/// disk that does not answer.
const THREADS_MAX: usize = 16;

/// Begins to read the files that a handshake needs, for callers that must not block. All callers that ask while they are read
/// get the same answer.
pub(crate) fn read_files(tls: &Tls, task_waker: TaskWaker) -> io::Result<Answer<Arc<ClientConfig>>> {
    static QUESTIONS: PerProcess<Questions<Tls, Arc<ClientConfig>>> =
        PerProcess::new(|| Questions::new("sleeve-files", THREADS_MAX, Tls::client_config));
    // A second attempt to read files that hang would hang as well, so there is no timeout.
    QUESTIONS.get().ask(tls, task_waker, Duration::MAX)
}

/// Reads the files that a handshake needs on a thread of its own, for a caller that blocks: a FIFO without a writer, or a
/// disk that does not answer, must not hold it up beyond the deadline.
fn read_files_until(tls: &Tls, deadline: Instant) -> io::Result<Arc<ClientConfig>> {
    let (sender, receiver) = mpsc::sync_channel(1);
    let tls = tls.clone();
    thread::Builder::new().name("sleeve-files".to_owned()).spawn(move || _ = sender.send(tls.client_config()))?;
    receiver.recv_timeout(deadline.saturating_duration_since(now())).unwrap_or_else(|_| {
        Err(io::Error::new(io::ErrorKind::TimedOut, "the files with certificates and keys did not answer in time"))
    })
}

/// A stream on which the two ends have not agreed on keys yet.
pub(crate) struct Handshake {
    state: TlsBuffers,
}

impl Handshake {
    /// Begins a handshake with the content of the files; nothing is sent yet.
    pub(crate) fn new(tls: &Tls, files: Arc<ClientConfig>, host: &str) -> io::Result<Self> {
        let connection = ClientConnection::new(files, tls.name_of(host)?).map_err(io::Error::other)?;
        let arrived = vec![0; ARRIVED_BYTES].into_boxed_slice();
        let mut state =
            TlsBuffers { connection, sealed: Vec::new(), sent: 0, arrived, filled: 0, fed: 0, has_heard: false };
        state.connection.set_buffer_limit(None);
        Ok(Self { state })
    }

    /// Proceeds as far as possible without waiting for the stream. Returns the readiness to wait for; none if the handshake
    /// has ended.
    pub(crate) fn proceed(&mut self, stream: impl AsFd) -> io::Result<Option<PollFlags>> {
        let state = &mut self.state;
        while state.connection.is_handshaking() {
            state.collect()?;
            if state.flush(&stream)? == Flushed::Full {
                return Ok(Some(PollFlags::OUT));
            }
            if state.connection.is_handshaking() {
                match state.arrive(&stream) {
                    Ok(Arrived::Bytes) => {}
                    Ok(Arrived::End) => return Err(state.hung_up(None)),
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(Some(PollFlags::IN)),
                    Err(error) if error.kind() == io::ErrorKind::ConnectionReset => {
                        return Err(state.hung_up(Some(error)));
                    }
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(None)
    }

    /// Returns the stream's TLS session, after the handshake.
    pub(crate) fn finish(mut self, stream: impl AsFd) -> io::Result<TlsSession> {
        self.state.collect()?;
        let (residue, plain) = (AtomicBool::new(true), AtomicBool::new(true));
        let tls_session = TlsSession { state: Mutex::new(self.state), residue, plain };
        tls_session.flush(stream)?;
        Ok(tls_session)
    }
}

#[derive(PartialEq, Eq)]
enum Flushed {
    All,
    /// The kernel takes no more bytes now.
    Full,
}

#[derive(PartialEq, Eq)]
enum Arrived {
    Bytes,
    /// The peer has closed the stream.
    End,
}

impl TlsBuffers {
    /// Takes the encrypted bytes that the TLS library has to send.
    fn collect(&mut self) -> io::Result<()> {
        while self.connection.wants_write() {
            self.connection.write_tls(&mut self.sealed)?;
        }
        Ok(())
    }

    fn flush(&mut self, stream: impl AsFd) -> io::Result<Flushed> {
        while let Some(rest) = self.sealed.get(self.sent..).filter(|rest| !rest.is_empty()) {
            match rustix::net::send(&stream, rest, SEND_FLAGS | SendFlags::DONTWAIT) {
                Ok(count) => self.sent += count,
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::AGAIN) => return Ok(Flushed::Full),
                Err(error) => return Err(error.into()),
            }
        }
        self.sealed.clear();
        self.sealed.shrink_to(2 * CHUNK_BYTES);
        self.sent = 0;
        Ok(Flushed::All)
    }

    /// Passes some of the received bytes to the TLS library, and receives more first if it has all of them. The caller takes
    /// the decrypted bytes before the next call: the library keeps little more than one record.
    fn arrive(&mut self, stream: impl AsFd) -> io::Result<Arrived> {
        if self.fed == self.filled {
            let flags = RecvFlags::DONTWAIT;
            let (count, _) = rustix::io::retry_on_intr(|| rustix::net::recv(&stream, &mut *self.arrived, flags))?;
            (self.fed, self.filled) = (0, count);
            if count == 0 {
                return Ok(Arrived::End);
            }
        }
        let mut arrived = self.arrived.get(self.fed..self.filled).unwrap_or_default();
        self.fed += self.connection.read_tls(&mut arrived)?;
        let first = self.arrived.first().copied().filter(|_| !self.has_heard);
        if let Err(error) = self.connection.process_new_packets() {
            if let Some(first) = first.filter(|first| !TLS_RECORDS.contains(first)) {
                return Err(io::Error::new(io::ErrorKind::InvalidData, no_tls(first, self.arrived.get(..self.filled))));
            }
            // The alert tells the server the reason, if it still reads; the error to report is our own.
            _ = self.collect();
            _ = self.flush(&stream);
            return Err(io::Error::new(io::ErrorKind::InvalidData, error));
        }
        self.has_heard = true;
        Ok(Arrived::Bytes)
    }

    /// Returns the error for a server that has closed the stream during the handshake. A server that does not speak TLS may
    /// do so without a word.
    fn hung_up(&self, error: Option<io::Error>) -> io::Error {
        let mut message = "the server closed it during the handshake".to_owned();
        message.extend(error.iter().map(|error| format!(" ({error})")));
        if !self.has_heard {
            message.push_str("; if this port does not speak TLS, use redis:// (or valkey://)");
        }
        io::Error::new(io::ErrorKind::UnexpectedEof, message)
    }
}

/// The possible first bytes of a TLS record (RFC 8446, section 5.1).
const TLS_RECORDS: std::ops::RangeInclusive<u8> = 0x14..=0x17;

/// The largest number of bytes of a foreign answer that an error shows.
const SHOWN_MAX: usize = 80;

/// Returns the error text for a server that answers a handshake with something other than TLS.
fn no_tls(first: u8, answer: Option<&[u8]>) -> String {
    const USE_PLAIN: &str = "use redis:// (or valkey://) for a port without TLS";
    if !first.is_ascii_graphic() {
        return format!("this port does not speak TLS: {USE_PLAIN}");
    }
    let line = answer.unwrap_or_default().split(|byte| *byte == b'\r' || *byte == b'\n').next().unwrap_or_default();
    let shown = line.get(..SHOWN_MAX).unwrap_or(line).escape_ascii();
    format!("this port does not speak TLS, it answers \"{shown}\": {USE_PLAIN}")
}

fn wait(stream: impl AsFd, flags: PollFlags, deadline: Instant) -> io::Result<()> {
    let left = deadline.saturating_duration_since(now());
    if left.is_zero() {
        return Err(io::Error::new(io::ErrorKind::TimedOut, HANDSHAKE_UNANSWERED));
    }
    wait_for(stream, flags, Some(left))
}

fn wait_for(stream: impl AsFd, flags: PollFlags, timeout: Option<Duration>) -> io::Result<()> {
    let timeout = timeout.map(timespec);
    match poll(&mut [PollFd::new(&stream, flags)], timeout.as_ref()) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
