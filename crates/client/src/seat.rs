//! A subscription to the embedded engine: a session that is read in the reader's own thread.
//!
//! No thread and no queue of its own: whoever waits asks the session, and the engine wakes it when there is something. A
//! reader that does not look for so long that the engine closes its session gets another one, and is told.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::Waker;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use sleeve_server::{Closed, Engine, Local};
use sleeve_wire::frame::Scanner;

use crate::error::{Error, ErrorKind};
use crate::news::{self, News, Word};
use crate::slot::wake_all;

/// Between two looks at the clock of a reader that waits long, so that keys expire in an engine that has no other thread.
const WAIT_SLICE: Duration = Duration::from_millis(50);

/// See the file's head.
pub(crate) struct Seat {
    engine: Arc<Engine>,
    request: Vec<u8>,
    names: usize,
    wakers: Arc<Mutex<Vec<Waker>>>,
    session: Mutex<Session>,
}

struct Session {
    local: Local,
    received: Vec<u8>,
    news: VecDeque<News>,
    /// Bytes of frames that are read ahead at most.
    bytes_max: usize,
}

impl Seat {
    /// Opens a session that listens.
    pub(crate) fn open(engine: &Arc<Engine>, request: Vec<u8>, names: usize, bytes_max: usize) -> Result<Self, Error> {
        let wakers = Arc::new(Mutex::new(Vec::new()));
        let local = connect(engine, &wakers);
        let session = Session { local, received: Vec::new(), news: VecDeque::new(), bytes_max };
        let seat = Self { engine: Arc::clone(engine), request, names, wakers, session: Mutex::new(session) };
        seat.subscribe(&mut seat.session.lock())?;
        Ok(seat)
    }

    fn subscribe(&self, session: &mut Session) -> Result<(), Error> {
        let mut received = Vec::new();
        session.local.exchange(&self.request, &mut received).map_err(|Closed| closed())?;
        session.received = received;
        let confirmed = session.cut()?;
        if confirmed < self.names {
            return Err(Error::unsent(ErrorKind::Connect, "the engine did not confirm the subscription"));
        }
        Ok(())
    }

    /// The next, or none when the time is up.
    pub(crate) fn wait(&self, deadline: Option<Instant>) -> Result<Option<News>, Error> {
        let mut session = self.session.lock();
        loop {
            if let Some(news) = session.news.pop_front() {
                return Ok(Some(news));
            }
            let left = deadline.map_or(WAIT_SLICE, |deadline| deadline.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                return Ok(None);
            }
            self.look(&mut session, left.min(WAIT_SLICE))?;
        }
    }

    /// The next, if it is there; else this waker is woken when it may be.
    pub(crate) fn poll(&self, waker: &Waker) -> Option<Result<News, Error>> {
        let mut session = self.session.lock();
        let mut wakers = self.wakers.lock();
        if !wakers.iter().any(|known| known.will_wake(waker)) {
            wakers.push(waker.clone());
        }
        drop(wakers);
        if session.news.is_empty()
            && let Err(error) = self.look(&mut session, Duration::ZERO)
        {
            return Some(Err(error));
        }
        session.news.pop_front().map(Ok)
    }

    /// Takes what has come within this time.
    fn look(&self, session: &mut Session, timeout: Duration) -> Result<(), Error> {
        let mut received = std::mem::take(&mut session.received);
        let looked = session.local.wait(timeout, &mut received);
        session.received = received;
        session.cut()?;
        if looked == Err(Closed) {
            session.local = connect(&self.engine, &self.wakers);
            self.subscribe(session)?;
            session.news.push_back(News::Resumed);
        }
        Ok(())
    }
}

impl Session {
    /// Cuts what was received into news; how many names were confirmed.
    fn cut(&mut self) -> Result<usize, Error> {
        let (mut scanner, mut start, mut confirmed) = (Scanner::new(), 0, 0);
        while let Some(length) =
            scanner.scan(self.received.get(start..).unwrap_or_default()).map_err(Error::protocol)?
        {
            match news::read(self.received.get(start..start + length).unwrap_or_default()) {
                Word::Confirmed => confirmed += 1,
                Word::Message(message) => self.news.push_back(News::Message(message)),
                Word::Refused(error) => return Err(error),
                Word::Other => {}
            }
            start += length;
        }
        self.received.drain(..start);
        self.received.shrink_to(self.bytes_max);
        Ok(confirmed)
    }
}

fn connect(engine: &Arc<Engine>, wakers: &Arc<Mutex<Vec<Waker>>>) -> Local {
    let wakers = Arc::clone(wakers);
    engine.connect(move || {
        let woken = std::mem::take(&mut *wakers.lock());
        wake_all(woken.into_iter());
    })
}

fn closed() -> Error {
    Error::unsent(ErrorKind::Closed, "the engine has closed the subscription")
}
