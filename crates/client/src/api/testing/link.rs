//! The address of an engine for tests: connections of this machine, each a session, with the faults in between.
//!
//! A thread of each connection reads requests and hands them to the session one by one. A second thread passes on the
//! session's own output: messages, and replies that were waited for. Both do so under the session's lock, so that the bytes
//! leave in order. This link is not made to be fast: the server's own workers are, but they use the machine's clock.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::thread;

use sleeve_server::Local;
use sleeve_wire::frame::{Frame, Scanner, decode};

use super::faults::{Act, Faults};
use crate::sys::lock::{Condvar, Mutex};
use crate::transport::embedded::engines::EngineInstance;

/// A request that no engine knows: it has the same side effects as a command that is refused.
const UNKNOWN: &[u8] = b"*1\r\n$20\r\nSLEEVE-TESTING-FAULT\r\n";

/// The number of bytes that are read at once.
const READ_BYTES: usize = 16 * 1024;

/// The listener of the address; when it is dropped, no client is served any more.
pub(super) struct Link {
    address: SocketAddr,
    lines: Arc<Mutex<Vec<Weak<Line>>>>,
    is_over: Arc<AtomicBool>,
}

/// One connection.
struct Line {
    stream: TcpStream,
    instance: Arc<EngineInstance>,
    faults: Arc<Faults>,
    session: Mutex<LineSession>,
    wakeup: Arc<SessionWakeup>,
}

struct LineSession {
    local: Local,
    replies: Vec<u8>,
}

/// The wake-up that reports that the session may have output.
#[derive(Default)]
struct SessionWakeup {
    state: Mutex<Wakeup>,
    changed: Condvar,
}

#[derive(Default)]
struct Wakeup {
    is_woken: bool,
    is_over: bool,
}

impl Link {
    pub(super) fn open(address: SocketAddr, instance: Arc<EngineInstance>, faults: Arc<Faults>) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        let link = Self { address: listener.local_addr()?, lines: Arc::default(), is_over: Arc::default() };
        let (lines, is_over) = (Arc::clone(&link.lines), Arc::clone(&link.is_over));
        let accept = move || {
            for stream in listener.incoming() {
                if is_over.load(Ordering::Acquire) {
                    return;
                }
                let Ok(stream) = stream else { continue };
                if faults.is_down() {
                    continue;
                }
                // If the system cannot create its threads, the connection ends, which its client notices.
                let Ok(line) = Line::begin(stream, &instance, &faults) else { continue };
                let mut lines = lines.lock();
                lines.retain(|line| line.strong_count() > 0);
                lines.push(Arc::downgrade(&line));
                drop(lines);
                // A thread that has cut all connections in between did not know of this one.
                if is_over.load(Ordering::Acquire) || faults.is_down() {
                    line.cut();
                }
            }
        };
        thread::Builder::new().name("sleeve-testing".to_owned()).spawn(accept)?;
        Ok(link)
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Breaks all connections.
    pub(super) fn cut(&self) {
        let lines: Vec<_> = self.lines.lock().iter().filter_map(Weak::upgrade).collect();
        lines.iter().for_each(|line| line.cut());
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Release);
        // This connection wakes the thread that waits for connections, which then sees that the link has ended.
        let _ = TcpStream::connect(self.address);
        self.cut();
    }
}

impl Line {
    /// Serves a connection with two threads of its own.
    fn begin(stream: TcpStream, instance: &Arc<EngineInstance>, faults: &Arc<Faults>) -> io::Result<Arc<Self>> {
        stream.set_nodelay(true)?;
        let wakeup: Arc<SessionWakeup> = Arc::default();
        let caller = Arc::clone(&wakeup);
        let local = instance.clock.connect(&instance.engine, move || caller.wake());
        let watching = Arc::downgrade(&wakeup);
        instance.clock.watch(move || watching.upgrade().map(|wakeup| wakeup.wake()).is_some());
        let session = Mutex::new(LineSession { local, replies: Vec::new() });
        let line =
            Arc::new(Self { stream, instance: Arc::clone(instance), faults: Arc::clone(faults), session, wakeup });
        let (reads, hears) = (Arc::clone(&line), Arc::clone(&line));
        let named = |name: &str| thread::Builder::new().name(name.to_owned());
        named("sleeve-testing-hears").spawn(move || hears.hear())?;
        if let Err(error) = named("sleeve-testing-reads").spawn(move || reads.read()) {
            line.cut();
            return Err(error);
        }
        Ok(line)
    }

    /// Ends the connection, from any thread.
    fn cut(&self) {
        // If the connection has ended already, the call fails, which is the wanted state.
        let _ = self.stream.shutdown(Shutdown::Both);
        self.wakeup.end();
    }

    /// Takes in requests until the connection ends.
    fn read(&self) {
        let (mut received, mut buffer) = (Vec::new(), vec![0; READ_BYTES]);
        loop {
            let count = match (&self.stream).read(&mut buffer) {
                Ok(count @ 1..) => count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Ok(0) | Err(_) => break,
            };
            received.extend_from_slice(buffer.get(..count).unwrap_or_default());
            let mut start = 0;
            while let Some(length) = request_length(received.get(start..).unwrap_or_default()) {
                let request = received.get(start..start + length).unwrap_or_default();
                if !self.take(request) {
                    return self.cut();
                }
                start += length;
            }
            received.drain(..start);
        }
        self.cut();
    }

    /// Executes one request, with the fault that happens to it. Returns false when the connection has ended.
    fn take(&self, request: &[u8]) -> bool {
        let act = match decode(request) {
            Ok((Frame::Array(items), _)) => {
                let words: Vec<&[u8]> = items.map_while(|item| bulk(item.ok()?)).collect();
                self.faults.judge(&words)
            }
            _ => None,
        };
        let mut session = self.session.lock();
        let executed = match &act {
            Some(Act::CutBefore) => return false,
            Some(Act::Error(text)) => {
                let goes_on = session.exchange(&self.instance, UNKNOWN);
                refuse(&mut session.replies, text);
                goes_on
            }
            _ => session.exchange(&self.instance, request),
        };
        match act {
            Some(Act::CutAfter) => return false,
            Some(Act::CutAmid) => {
                let half = session.replies.len().div_ceil(2);
                session.replies.truncate(half);
                self.send(&mut session);
                return false;
            }
            Some(Act::Delay(time)) => thread::sleep(time),
            _ => {}
        }
        self.send(&mut session) && executed
    }

    /// Passes on the session's own output.
    fn hear(&self) {
        while self.wakeup.wait() {
            let mut session = self.session.lock();
            let goes_on = session.exchange(&self.instance, &[]);
            if !(self.send(&mut session) && goes_on) {
                return self.cut();
            }
        }
    }

    /// Sends the session's output. Returns false if the client does not take it.
    fn send(&self, session: &mut LineSession) -> bool {
        let sent = (&self.stream).write_all(&session.replies).is_ok();
        session.replies.clear();
        sent
    }
}

impl LineSession {
    /// Exchanges requests and output with the engine. Returns false when the session has ended.
    fn exchange(&mut self, instance: &EngineInstance, requests: &[u8]) -> bool {
        instance.clock.exchange(&mut self.local, requests, &mut self.replies).is_ok()
    }
}

impl SessionWakeup {
    fn wake(&self) {
        self.state.lock().is_woken = true;
        self.changed.notify_all();
    }

    fn end(&self) {
        self.state.lock().is_over = true;
        self.changed.notify_all();
    }

    /// Waits until the session is woken. Returns false if it cannot be woken any more.
    fn wait(&self) -> bool {
        let mut state = self.state.lock();
        while !state.is_woken && !state.is_over {
            self.changed.wait(&mut state);
        }
        state.is_woken = false;
        !state.is_over
    }
}

fn bulk(frame: Frame<'_>) -> Option<&[u8]> {
    match frame {
        Frame::Bulk(word) => Some(word),
        _ => None,
    }
}

/// Returns the length of the request at the beginning of these bytes, if it is whole. Bytes that are no request are left to
/// the engine itself.
fn request_length(bytes: &[u8]) -> Option<usize> {
    match bytes.first()? {
        b'*' => match Scanner::new().scan(bytes) {
            Ok(length) => length,
            Err(_) => Some(bytes.len()),
        },
        // The request is an inline command: a line, as people type it.
        _ => bytes.iter().position(|byte| *byte == b'\n').map(|end| end + 1),
    }
}

/// Replaces the answer by this error; messages that arrived before it stay.
fn refuse(replies: &mut Vec<u8>, text: &str) {
    let (mut scanner, mut start) = (Scanner::new(), 0);
    while let Ok(Some(length)) = scanner.scan(replies.get(start..).unwrap_or_default()) {
        if replies.get(start) != Some(&b'>') {
            let error = format!("-{text}\r\n");
            replies.splice(start..start + length, error.into_bytes());
            return;
        }
        start += length;
    }
}
