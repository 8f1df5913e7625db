//! A subscription to the embedded engine: a session that is read in the reader's own thread.
//!
//! It has no thread and no queue of its own: a waiting reader asks the session, and the engine wakes it when the session has
//! output. If a reader does not read for so long that the engine closes its session, it gets another session, and an event
//! that says so.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::Waker;
use std::time::{Duration, Instant};

use sleeve_server::{Closed, Engine, Local};
use sleeve_wire::frame::Scanner;

use super::event;
use super::event::{PubSubFrame, SubscriptionEvent};
use super::names::{Change, Names};
use crate::error::{Error, ErrorKind};
use crate::sys::lock::{Mutex, MutexGuard};
use crate::sys::wake::wake_all;
use crate::transport::embedded::clock::EngineClock;

/// The interval at which a waiting reader advances the engine's clock, so that keys expire in an engine that has no other
/// thread.
const WAIT_SLICE: Duration = Duration::from_millis(50);

/// A session of the embedded engine that only listens.
pub(crate) struct EmbeddedListener {
    engine: Arc<Engine>,
    clock: EngineClock,
    wakers: Arc<Mutex<Vec<Waker>>>,
    session: Mutex<ListenerSession>,
    /// The lock that the next caller of the session holds while it waits for the session.
    next: Mutex<()>,
}

struct ListenerSession {
    local: Local,
    clock: EngineClock,
    /// The names that it is subscribed to.
    names: Names,
    received: Vec<u8>,
    events: VecDeque<SubscriptionEvent>,
    /// The largest number of bytes of frames that are read ahead.
    bytes_max: usize,
}

impl EmbeddedListener {
    /// Opens a session that listens.
    pub(crate) fn open(
        (engine, clock): (&Arc<Engine>, &EngineClock),
        first: Change,
        bytes_max: usize,
    ) -> Result<Self, Error> {
        let wakers = Arc::new(Mutex::new(Vec::new()));
        let local = connect(engine, clock, &wakers);
        let (names, received, events) = (Names::default(), Vec::new(), VecDeque::new());
        let session = Mutex::new(ListenerSession { local, clock: clock.clone(), names, received, events, bytes_max });
        let (engine, clock) = (Arc::clone(engine), clock.clone());
        let listener = Self { engine, clock, wakers, session, next: Mutex::default() };
        listener.change(first)?;
        Ok(listener)
    }

    /// Changes the names that the session is subscribed to.
    pub(crate) fn change(&self, mut change: Change) -> Result<(), Error> {
        let mut session = self.session();
        let added = session.names.apply(&mut change);
        if change.names.is_empty() {
            return Ok(());
        }
        let changed = match session.tell(&change) {
            Err(ChangeError::Closed) => self.reopen(&mut session),
            Err(ChangeError::Refused(error)) => Err(error),
            Ok(()) => Ok(()),
        };
        if changed.is_err() {
            session.names.take_back(change.verb, &added);
        }
        let has_events = !session.events.is_empty();
        drop(session);
        if has_events {
            let wakers = std::mem::take(&mut *self.wakers.lock());
            wake_all(wakers.into_iter());
        }
        changed
    }

    /// Opens another session, with the same names, because the engine has closed the old one.
    fn reopen(&self, session: &mut ListenerSession) -> Result<(), Error> {
        session.local = connect(&self.engine, &self.clock, &self.wakers);
        session.received.clear();
        for change in session.names.all() {
            session.tell(&change).map_err(|told| match told {
                ChangeError::Closed => closed(),
                ChangeError::Refused(error) => error,
            })?;
        }
        session.events.push_back(SubscriptionEvent::Resumed);
        Ok(())
    }

    /// Returns the next event, or none at the deadline.
    pub(crate) fn wait(&self, deadline: Option<Instant>) -> Result<Option<SubscriptionEvent>, Error> {
        let mut session = self.session();
        loop {
            if let Some(event) = session.events.pop_front() {
                return Ok(Some(event));
            }
            let left = deadline.map_or(WAIT_SLICE, |deadline| deadline.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                return Ok(None);
            }
            self.look(&mut session, left.min(WAIT_SLICE))?;
            // Callers that want to change names get the session in between.
            drop(session);
            session = self.session();
        }
    }

    /// Returns the next event, if there is one; otherwise this waker is woken when there may be one.
    pub(crate) fn poll(&self, waker: &Waker) -> Option<Result<SubscriptionEvent, Error>> {
        let mut session = self.session();
        let mut wakers = self.wakers.lock();
        if !wakers.iter().any(|known| known.will_wake(waker)) {
            wakers.push(waker.clone());
        }
        drop(wakers);
        if session.events.is_empty()
            && let Err(error) = self.look(&mut session, Duration::ZERO)
        {
            return Some(Err(error));
        }
        session.events.pop_front().map(Ok)
    }

    /// Returns the session. A caller that waits for it has precedence over later callers, and over a caller that has just
    /// given it back.
    fn session(&self) -> MutexGuard<'_, ListenerSession> {
        let _next = self.next.lock();
        self.session.lock()
    }

    /// Takes the output that arrives within this time.
    fn look(&self, session: &mut ListenerSession, timeout: Duration) -> Result<(), Error> {
        let mut received = std::mem::take(&mut session.received);
        session.local.wait_for_mail(timeout);
        let looked = session.clock.exchange(&mut session.local, &[], &mut received);
        session.received = received;
        session.cut()?;
        if looked == Err(Closed) { self.reopen(session) } else { Ok(()) }
    }
}

/// The reason why the engine did not carry out a change.
enum ChangeError {
    Closed,
    Refused(Error),
}

impl ListenerSession {
    /// Sends a change of the names to the engine.
    fn tell(&mut self, change: &Change) -> Result<(), ChangeError> {
        let request = change.verb.request(&change.names).map_err(ChangeError::Refused)?;
        let mut received = std::mem::take(&mut self.received);
        let told = self.clock.exchange(&mut self.local, &request, &mut received);
        self.received = received;
        let (confirmed, refused) = self.cut().map_err(ChangeError::Refused)?;
        match (told, refused) {
            (_, Some(error)) => Err(ChangeError::Refused(error)),
            (Err(Closed), None) => Err(ChangeError::Closed),
            (Ok(_), None) if confirmed < change.names.len() => {
                Err(ChangeError::Refused(Error::unsent(ErrorKind::Connect, "the engine did not confirm it")))
            }
            (Ok(_), None) => Ok(()),
        }
    }

    /// Splits the received bytes into events. Returns the number of confirmed names, and the refusal if there was one.
    fn cut(&mut self) -> Result<(usize, Option<Error>), Error> {
        let (mut scanner, mut start, mut confirmed, mut refused) = (Scanner::new(), 0, 0, None);
        while let Some(length) =
            scanner.scan(self.received.get(start..).unwrap_or_default()).map_err(Error::protocol)?
        {
            match event::read(self.received.get(start..start + length).unwrap_or_default()) {
                PubSubFrame::Confirmed(_) => confirmed += 1,
                PubSubFrame::Message(message) => self.events.push_back(SubscriptionEvent::Message(message)),
                PubSubFrame::Refused(error) => refused = Some(error),
                PubSubFrame::Other => {}
            }
            start += length;
        }
        self.received.drain(..start);
        self.received.shrink_to(self.bytes_max);
        Ok((confirmed, refused))
    }
}

fn connect(engine: &Arc<Engine>, clock: &EngineClock, wakers: &Arc<Mutex<Vec<Waker>>>) -> Local {
    let wakers = Arc::clone(wakers);
    clock.connect(engine, move || {
        let woken = std::mem::take(&mut *wakers.lock());
        wake_all(woken.into_iter());
    })
}

fn closed() -> Error {
    Error::unsent(ErrorKind::Closed, "the engine has closed the subscription")
}
