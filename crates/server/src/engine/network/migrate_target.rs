//! Another server to which keys are sent: MIGRATE's connection.
//!
//! A [`Target`] is a blocking connection. No step takes longer than its timeout; a step is connecting as a whole, 64 KiB of
//! writing, or the reading of one line. Only short status and error lines are accepted as replies. A longer line, or another
//! kind of reply, counts as a broken connection, so that no more than a few kilobytes of received bytes are ever held. This
//! module knows how requests are written, and only two commands, AUTH and SELECT, both of which must succeed before a key is
//! sent. Names are looked up by the system, which has a timeout of its own.
//!
//! [`Targets`] keeps connections for a few seconds, because keys are often moved one by one. Any thread; the lock is never
//! held during a wait.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use sleeve_wire::number;

/// The milliseconds for which an unused connection is kept.
const KEPT_MS: u64 = 10_000;

/// The number of unused connections that are kept.
const KEPT_MAX: usize = 64;

/// The most bytes of one write.
const CHUNK_BYTES: usize = 64 * 1024;

/// The greatest length of a line in a reply.
const LINE_BYTES_MAX: usize = 1_024;

/// The address of a server, and the credentials for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    /// The server's name or address.
    pub host: Vec<u8>,
    /// The port, as the request gives it.
    pub port: Vec<u8>,
    /// The arguments of AUTH: none, a password, or a name and a password.
    pub credentials: Vec<Vec<u8>>,
}

/// The step in which a connection has failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// The connection was being opened.
    Connecting,
    /// A request was being sent.
    Writing,
    /// A reply was awaited.
    Reading,
}

/// The failure of a connection, which cannot be used any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BrokenTarget {
    /// The step in which it failed.
    pub phase: Phase,
    /// The timeout was reached; the other server may still be running.
    pub is_late: bool,
}

/// A target's reply to one request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// The request was done.
    Done,
    /// The request was refused, with the target's error text, code word first.
    Refused(String),
}

/// A connection to another server, which may be kept for the next MIGRATE.
#[derive(Debug)]
pub struct Target {
    address: Address,
    stream: TcpStream,
    /// The timeout of one step.
    timeout: Duration,
    /// The database that is selected on it, if that is known.
    database: Option<i64>,
    /// The connection was kept from an earlier MIGRATE.
    is_kept: bool,
    written: Vec<u8>,
    read: Vec<u8>,
}

impl Target {
    /// Connects to a server.
    ///
    /// # Errors
    /// The name has no address, or no server answers there in time.
    pub fn connect(address: Address, timeout: Duration) -> Result<Self, BrokenTarget> {
        let failed = |kind: ErrorKind| match kind {
            // Redis notices a closed port only when it writes.
            ErrorKind::ConnectionRefused => BrokenTarget { phase: Phase::Writing, is_late: false },
            kind => BrokenTarget { phase: Phase::Connecting, is_late: is_late(kind) },
        };
        let begun = Instant::now();
        let mut last = ErrorKind::NotFound;
        for socket_address in addresses(&address).map_err(failed)? {
            let left = timeout.saturating_sub(begun.elapsed()).max(LEAST);
            match TcpStream::connect_timeout(&socket_address, left) {
                Ok(stream) => {
                    _ = stream.set_nodelay(true);
                    let (written, read) = (Vec::new(), Vec::new());
                    let database = Some(0);
                    return Ok(Self { address, stream, timeout, database, is_kept: false, written, read });
                }
                Err(error) => last = error.kind(),
            }
        }
        Err(failed(last))
    }

    /// Returns whether this connection was kept from an earlier MIGRATE, so that the other side may have closed it since.
    pub fn is_kept(&self) -> bool {
        self.is_kept
    }

    /// Authenticates, each time anew because a password may have changed, and selects a database.
    ///
    /// # Errors
    /// The connection has failed.
    pub fn enter(&mut self, database: i64) -> Result<Answer, BrokenTarget> {
        if !self.address.credentials.is_empty() {
            let credentials = self.address.credentials.clone();
            let words: Vec<&[u8]> = credentials.iter().map(Vec::as_slice).collect();
            self.send(&[[b"AUTH".as_slice()].as_slice(), &words].concat())?;
            if let Answer::Refused(reason) = self.answer()? {
                return Ok(Answer::Refused(reason));
            }
        }
        if self.database != Some(database) {
            self.database = None;
            self.send(&[b"SELECT", number::Digits::new(database).as_bytes()])?;
            if let Answer::Refused(reason) = self.answer()? {
                return Ok(Answer::Refused(reason));
            }
            self.database = Some(database);
        }
        Ok(Answer::Done)
    }

    /// Queues a request and sends full chunks; the last bytes are sent when a reply is awaited.
    ///
    /// # Errors
    /// The connection has failed.
    pub fn send(&mut self, words: &[&[u8]]) -> Result<(), BrokenTarget> {
        let number = |out: &mut Vec<u8>, sign: u8, number: usize| {
            out.push(sign);
            out.extend_from_slice(number::Digits::new(number as i64).as_bytes());
            out.extend_from_slice(b"\r\n");
        };
        number(&mut self.written, b'*', words.len());
        for word in words {
            number(&mut self.written, b'$', word.len());
            self.written.extend_from_slice(word);
            self.written.extend_from_slice(b"\r\n");
        }
        if self.written.len() >= CHUNK_BYTES { self.flush() } else { Ok(()) }
    }

    /// Waits for the reply to the earliest unanswered request.
    ///
    /// # Errors
    /// The connection has failed, or the other end is no server of this kind.
    pub fn answer(&mut self) -> Result<Answer, BrokenTarget> {
        self.flush()?;
        let line = self.line().map_err(|kind| BrokenTarget { phase: Phase::Reading, is_late: is_late(kind) })?;
        match line.split_first() {
            Some((b'+', _)) => Ok(Answer::Done),
            Some((b'-', reason)) => Ok(Answer::Refused(String::from_utf8_lossy(reason).into_owned())),
            _ => Err(BrokenTarget { phase: Phase::Reading, is_late: false }),
        }
    }

    fn flush(&mut self) -> Result<(), BrokenTarget> {
        let written = std::mem::take(&mut self.written);
        let all = written.chunks(CHUNK_BYTES).try_for_each(|chunk| self.write(chunk));
        all.map_err(|kind| BrokenTarget { phase: Phase::Writing, is_late: is_late(kind) })
    }

    fn write(&mut self, mut chunk: &[u8]) -> Result<(), ErrorKind> {
        let begun = Instant::now();
        while !chunk.is_empty() {
            self.stream.set_write_timeout(Some(self.left(begun)?)).map_err(|error| error.kind())?;
            match self.stream.write(chunk) {
                Ok(0) => return Err(ErrorKind::WriteZero),
                Ok(count) => chunk = chunk.get(count..).unwrap_or_default(),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error.kind()),
            }
        }
        Ok(())
    }

    /// Reads the next line, without its end.
    fn line(&mut self) -> Result<Vec<u8>, ErrorKind> {
        let begun = Instant::now();
        loop {
            if let Some(end) = self.read.iter().position(|&byte| byte == b'\n') {
                let mut line: Vec<u8> = self.read.drain(..=end).collect();
                line.truncate(line.trim_ascii_end().len());
                return Ok(line);
            }
            if self.read.len() > LINE_BYTES_MAX {
                return Err(ErrorKind::InvalidData);
            }
            self.stream.set_read_timeout(Some(self.left(begun)?)).map_err(|error| error.kind())?;
            let mut chunk = [0; 4_096];
            match self.stream.read(&mut chunk) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof),
                Ok(count) => self.read.extend_from_slice(chunk.get(..count).unwrap_or_default()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error.kind()),
            }
        }
    }

    /// Returns the remaining time of a step.
    fn left(&self, begun: Instant) -> Result<Duration, ErrorKind> {
        let left = self.timeout.saturating_sub(begun.elapsed());
        if left.is_zero() { Err(ErrorKind::TimedOut) } else { Ok(left.max(LEAST)) }
    }
}

/// The least timeout of a socket, because zero would mean none.
const LEAST: Duration = Duration::from_millis(1);

/// Returns whether the error of a socket means that its timeout was reached: such a socket reports that it would block.
fn is_late(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::TimedOut | ErrorKind::WouldBlock)
}

fn addresses(address: &Address) -> Result<std::vec::IntoIter<std::net::SocketAddr>, ErrorKind> {
    let host = std::str::from_utf8(&address.host).map_err(|_| ErrorKind::InvalidInput)?;
    // A text that is no number is taken as port 0, on which no server listens.
    let port = u16::try_from(number::parse_i64(&address.port).unwrap_or(0)).map_err(|_| ErrorKind::InvalidInput)?;
    (host, port).to_socket_addrs().map_err(|error| error.kind())
}

/// The connections that are kept for the next MIGRATE.
#[derive(Debug, Default)]
pub struct Targets {
    /// The connections, each with the time of its last use in monotonic milliseconds; the one that was unused for the longest
    /// time is first.
    kept: Mutex<VecDeque<(u64, Target)>>,
}

impl Targets {
    /// Returns a kept connection to this address, or a new one.
    ///
    /// # Errors
    /// As [`Target::connect`].
    pub fn open(&self, address: &Address, timeout: Duration) -> Result<Target, BrokenTarget> {
        let kept = {
            let mut kept = self.kept.lock();
            let at = kept.iter().rposition(|(_, target)| target.address == *address);
            at.and_then(|at| kept.remove(at))
        };
        match kept {
            Some((_, target)) => Ok(Target { timeout, is_kept: true, ..target }),
            None => Target::connect(address.clone(), timeout),
        }
    }

    /// Keeps a connection on which every request is answered.
    pub fn keep(&self, target: Target, now_ms: u64) {
        if !target.read.is_empty() || !target.written.is_empty() {
            return;
        }
        let mut kept = self.kept.lock();
        kept.push_back((now_ms, target));
        let surplus = if kept.len() > KEPT_MAX { kept.pop_front() } else { None };
        drop((kept, surplus));
    }

    /// Closes connections that have not been used for long.
    pub fn sweep(&self, now_ms: u64) {
        let mut kept = self.kept.lock();
        while kept.front().is_some_and(|(used_ms, _)| now_ms.saturating_sub(*used_ms) > KEPT_MS) {
            kept.pop_front();
        }
    }

    /// Returns the number of kept connections.
    pub fn len(&self) -> usize {
        self.kept.lock().len()
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    /// Sends a request to a peer that replies `answer` to it.
    fn against(answer: &'static [u8]) -> (Result<Answer, BrokenTarget>, Targets) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let other = thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a connection");
            _ = stream.read(&mut [0; 4_096]);
            _ = stream.write_all(answer);
        });
        let targets = Targets::default();
        let address =
            Address { host: b"127.0.0.1".to_vec(), port: port.to_string().into_bytes(), credentials: Vec::new() };
        let mut target = targets.open(&address, Duration::from_millis(200)).expect("a connection");
        let said = target.send(&[b"RESTORE", b"k"]).and_then(|()| target.answer());
        drop(other.join());
        if said.is_ok() {
            targets.keep(target, 5);
        }
        (said, targets)
    }

    #[test]
    fn only_lines_of_status_and_errors_are_answers() {
        let broken = |is_late| Err(BrokenTarget { phase: Phase::Reading, is_late });
        assert_eq!(against(b"+OK\r\n").0, Ok(Answer::Done));
        assert_eq!(against(b"-BUSYKEY no\r\n").0, Ok(Answer::Refused("BUSYKEY no".into())));
        for strange in [b"$1000000000\r\n".as_slice(), b"HTTP/1.1 400\r\n", b"\n", &[b'+'; 1_100], b"", b"+O"] {
            assert_eq!(against(strange).0, broken(false), "{strange:?}");
        }
    }

    #[test]
    fn who_says_nothing_is_not_waited_for() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port().to_string().into_bytes();
        let address = Address { host: b"127.0.0.1".to_vec(), port, credentials: vec![b"word".to_vec()] };
        let mut target = Target::connect(address, Duration::from_millis(5)).expect("a connection");
        assert_eq!(target.enter(0), Err(BrokenTarget { phase: Phase::Reading, is_late: true }));
    }

    #[test]
    fn connections_are_kept_for_a_while_unless_something_was_left_over() {
        let (_, targets) = against(b"+OK\r\n");
        assert_eq!(targets.len(), 1);
        targets.sweep(10_005);
        assert_eq!(targets.len(), 1);
        targets.sweep(10_006);
        assert_eq!(targets.len(), 0);
        assert_eq!(against(b"+OK\r\n+OK\r\n").1.len(), 0);
    }
}
