//! A session in the caller's own thread: the embedded engine's door.
//!
//! Bytes of requests go in, bytes of replies come out of the same call; no socket, no thread and no queue between. Any
//! number of [`Local`]s may work on one engine from different threads at the same time, beside its workers.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use crate::context::tracking_delivery;
use crate::context::tracking_delivery::Delivery;
use crate::context::worker_handoff::NoWorker;
use crate::engine::Engine;
use crate::engine::clients::client_info::ClientSocket;
use crate::execute::active_expiry::Expiry;
use crate::execute::scratch::Scratch;
use crate::host::clock;
use crate::host::clock::{Clock, Instant};
use crate::host::panics;
use crate::messaging::mail::{Letter, Mailbox};
use crate::messaging::message::Message;
use crate::request::error::Error;
use crate::request::output::Output;
use crate::session::Session;

/// A session of an embedded engine. `Send`: it may move between threads, one at a time.
#[derive(Debug)]
pub struct Local {
    session: Session,
    scratch: Scratch,
    mailbox: Arc<Mailbox>,
    expiry: Expiry,
    next_tick_ms: u64,
    closed: bool,
}

fn embedded_client() -> ClientSocket {
    ClientSocket { address: "embedded:0".into(), local_address: "embedded:0".into(), descriptor: -1, is_tls: false }
}

/// The error after the end of a session: it ended by QUIT, CLIENT KILL or a protocol error; or the whole engine has failed,
/// and [`Engine::failure`] returns the reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Closed;

impl Local {
    /// Opens a session in the caller's thread. `wake` is called, from any thread, when [`Local::exchange`] should be called
    /// although there is nothing to send: replies may have become due, or the session may have been closed. For work that
    /// becomes due by the mere passing of time ask [`Local::due_in_ms`].
    pub fn open(engine: &Arc<Engine>, wake: impl Fn() + Send + Sync + 'static) -> Self {
        Self::open_at(engine, Instant::now(), wake)
    }

    /// Opens a session as [`Local::open`] does, at a time that the caller names; for callers that go on with
    /// [`Local::exchange_at`].
    pub fn open_at(engine: &Arc<Engine>, now: Instant, wake: impl Fn() + Send + Sync + 'static) -> Self {
        Self::open_with_flag(engine, now, Arc::default(), wake)
    }

    /// Opens a session as [`Local::open_at`] does, with a flag that is set as long as output or work waits for
    /// [`Local::exchange`]. `wake` is called once for all that waits, perhaps a moment later and by another thread. If a
    /// command has a message for this session, the flag is set before the command returns. So a thread that has executed a
    /// command and then reads the flag finds it set, or the message already taken. An exchange clears the flag (with release)
    /// before it passes on the messages that it took.
    pub fn open_with_flag(
        engine: &Arc<Engine>,
        now: Instant,
        has_mail: Arc<AtomicBool>,
        wake: impl Fn() + Send + Sync + 'static,
    ) -> Self {
        let mailbox = Arc::new(Mailbox::bounded(has_mail, wake));
        engine.clients.enter_mailbox(&mailbox);
        if engine.failure().is_some() {
            mailbox.post(Letter::Stop);
        }
        let scratch = Scratch::new(engine, now);
        scratch.counters.connections.add(1);
        let client = engine.clients.list.enter(embedded_client(), Arc::clone(&mailbox), scratch.now.wall_ms());
        Self::new(Session::new(engine, client), scratch, mailbox)
    }

    /// Opens a session for an observer of the engine: CLIENT LIST does not show it, and its requests are in no statistic, no
    /// log, no sample of keys and no output of MONITOR. Its changes count as those of other sessions do.
    pub fn open_unobserved(engine: &Arc<Engine>) -> Self {
        let mailbox = Arc::new(Mailbox::bounded(Arc::default(), || {}));
        engine.clients.enter_mailbox(&mailbox);
        if engine.failure().is_some() {
            mailbox.post(Letter::Stop);
        }
        let scratch = Scratch::unobserved(engine, Instant::now());
        let client = engine.clients.list.describe(embedded_client(), Arc::clone(&mailbox), scratch.now.wall_ms());
        let mut session = Session::new(engine, client);
        session.state.origin.is_unobserved = true;
        Self::new(session, scratch, mailbox)
    }

    fn new(session: Session, scratch: Scratch, mailbox: Arc<Mailbox>) -> Self {
        Self { session, scratch, mailbox, expiry: Expiry::new(0, 1), next_tick_ms: 0, closed: false }
    }

    /// Gives the session all permissions until the next change of the users, however the default user is restricted: for
    /// requests of the program itself, never for those that came from outside.
    pub fn trust(&mut self) {
        self.session.state.login.unrestricted_at = self.scratch.engine.acl.epoch();
    }

    /// Executes the requests that these bytes complete and appends their replies to `replies`. An incomplete request is kept
    /// and goes on with the next call. If a request waits for a key, the caller's thread waits with it.
    ///
    /// # Errors
    /// [`Closed`] once the session has ended; replies that were due before are in `replies`.
    pub fn exchange(&mut self, requests: &[u8], replies: &mut Vec<u8>) -> Result<(), Closed> {
        self.exchange_now(requests, replies)?;
        while self.session.waiter().is_some() {
            let left_ms = self.session.deadline_ms().map(|at_ms| at_ms.saturating_sub(clock::monotonic_ms()));
            // A deadline beyond the range of the machine's clock never passes.
            let deadline =
                left_ms.and_then(|left_ms| std::time::Instant::now().checked_add(Duration::from_millis(left_ms)));
            self.mailbox.wait(deadline);
            self.exchange_now(&[], replies)?;
        }
        Ok(())
    }

    /// Executes requests as [`Local::exchange`] does, but without waiting: a later call returns the reply of a request that
    /// waits for a key.
    ///
    /// # Errors
    /// As [`Local::exchange`].
    pub fn exchange_now(&mut self, requests: &[u8], replies: &mut Vec<u8>) -> Result<(), Closed> {
        self.exchange_by((Clock::Machine, Instant::now()), requests, replies)
    }

    /// Executes requests as [`Local::exchange_now`] does, at a time that the caller names, and at which the clock stays until
    /// the call returns.
    ///
    /// # Errors
    /// As [`Local::exchange`].
    pub fn exchange_at(&mut self, now: Instant, requests: &[u8], replies: &mut Vec<u8>) -> Result<(), Closed> {
        self.exchange_by((Clock::Stopped, now), requests, replies)
    }

    fn exchange_by(
        &mut self,
        (clock, now): (Clock, Instant),
        requests: &[u8],
        replies: &mut Vec<u8>,
    ) -> Result<(), Closed> {
        if self.closed {
            return Err(Closed);
        }
        (self.scratch.clock, self.scratch.now) = (clock, now);
        let ran = catch_unwind(AssertUnwindSafe(|| {
            self.read_mail();
            if !self.closed {
                self.run(requests);
            }
        }));
        if let Err(panic) = ran {
            self.scratch.engine.fail(&format!("a command panicked: {}", panics::message(&*panic)));
            self.scratch.output = Output::default();
            self.end();
        }
        if self.scratch.output.shown != 0
            && !self.scratch.engine.persistence.wait_to_pass(&self.scratch.engine, self.scratch.output.shown)
        {
            if self.failure().is_some() {
                // The request panicked: its effects may be complete, partial or missing.
                self.scratch.output = Output::default();
                self.end();
                return Err(Closed);
            }
            let error = self.scratch.engine.lifecycle.readiness.check_disk().err();
            self.scratch.output.refuse_writes(error.as_ref().map_or(b"MISCONF", Error::text));
        }
        self.scratch.output.copy_to(replies);
        if self.closed { Err(Closed) } else { Ok(()) }
    }

    /// Waits for output that answers no request, such as a published message, or until the timeout. The output is appended to
    /// `replies`.
    ///
    /// # Errors
    /// As [`Local::exchange`].
    pub fn wait(&mut self, timeout: Duration, replies: &mut Vec<u8>) -> Result<(), Closed> {
        self.wait_for_mail(timeout);
        self.exchange_now(&[], replies)
    }

    /// Waits as [`Local::wait`] does, but takes no output: for callers that go on with [`Local::exchange_at`].
    pub fn wait_for_mail(&self, timeout: Duration) {
        self.mailbox.wait(std::time::Instant::now().checked_add(timeout));
    }

    /// Returns the milliseconds after which [`Local::exchange_at`] has to be called although there is nothing to send: at the
    /// end of a pause that holds requests of this session, or at the timeout of a request that waits for a key. None if there
    /// is neither. `wake` is not called for that, because an engine without workers has no thread that could do so.
    pub fn due_in_ms(&self) -> Option<u64> {
        let left_ms = |until_ms: u64| until_ms.saturating_sub(clock::monotonic_ms());
        if self.session.waiter().is_some() {
            return self.session.deadline_ms().map(left_ms);
        }
        self.session.is_paused().then(|| left_ms(self.scratch.engine.clients.pause.until_ms()))
    }

    /// Returns the reason for the end of the whole engine, if it has failed: see [`Engine::fail`].
    pub fn failure(&self) -> Option<&str> {
        self.scratch.engine.failure()
    }

    fn run(&mut self, requests: &[u8]) {
        if self.session.is_paused() && self.scratch.engine.clients.pause.held(self.scratch.now.monotonic_ms()).is_none()
        {
            self.session.resume(&mut self.scratch, &mut NoWorker);
        }
        self.session.time_out(&mut self.scratch, &mut NoWorker);
        self.session.receive(requests, &mut self.scratch, &mut NoWorker);
        self.tick();
        if self.session.state.closing {
            self.end();
        }
    }

    /// Ends the session for good.
    fn end(&mut self) {
        self.closed = true;
        self.session.close();
        self.scratch.engine.clients.leave_mailbox(&self.mailbox);
    }

    fn read_mail(&mut self) {
        for letter in self.mailbox.collect() {
            match letter {
                Letter::Close(_) | Letter::Stop => return self.end(),
                Letter::Unblock { ticket, mut reply, is_refused, .. } => {
                    self.session.note_refused(ticket, is_refused, &self.scratch);
                    self.session.unblock(ticket, &mut reply, &mut self.scratch, &mut NoWorker);
                }
                Letter::Users if !self.session.may_listen() => return self.end(),
                Letter::Resume => self.session.resume(&mut self.scratch, &mut NoWorker),
                Letter::Message(message) => self.hear(&message),
                Letter::Push { bytes, .. } => self.scratch.output.push_shared(&bytes),
                Letter::ShardChannelsLeft(channels) => {
                    for channel in &*channels {
                        let bytes = self.session.state.end_shard_channel(&self.scratch.engine, channel);
                        self.scratch.output.bytes.extend(bytes.unwrap_or_default());
                    }
                }
                Letter::Invalidate { keys, .. } => self.invalidate(keys),
                Letter::Redirected { keys, .. } => {
                    let bytes = tracking_delivery::forwarded(&self.session.state, &keys);
                    self.scratch.output.bytes.extend(bytes.unwrap_or_default());
                }
                // Letters that only workers handle: this session runs on its caller's thread alone, follows no journal and
                // feeds no replicas.
                Letter::Adopt(_)
                | Letter::Returned
                | Letter::Listen
                | Letter::Users
                | Letter::Durable
                | Letter::FollowJournal(_)
                | Letter::ShareMemory { .. }
                | Letter::Stream
                | Letter::Feed(_)
                | Letter::SignOfLife(_)
                | Letter::Synced
                | Letter::Sleep
                | Letter::Answer(_) => {}
            }
        }
    }

    /// Notifies the client that keys which it has read have changed.
    fn invalidate(&mut self, keys: Option<Arc<Vec<u8>>>) {
        match tracking_delivery::deliver(&self.scratch.engine, &mut self.session.state, keys) {
            Delivery::Nothing => {}
            Delivery::Push(bytes) => self.scratch.output.bytes.extend_from_slice(&bytes),
            Delivery::Forward(client, keys) => client.mailbox.post(Letter::Redirected { id: client.id, keys }),
        }
    }

    /// Appends a message of a subscription to the client's output.
    fn hear(&mut self, message: &Message) {
        let state = &self.session.state;
        if message.except != Some(state.client.id)
            && let Some(subscriptions) = &state.subscriptions
        {
            let forms = subscriptions.forms(message);
            forms.for_each(|form| self.scratch.output.push_shared(form.bytes(message, state.protocol)));
        }
    }

    /// Does a slice of the background work if one is due: an engine without workers has no other thread that could do it.
    fn tick(&mut self) {
        let now_ms = self.scratch.now.monotonic_ms();
        if now_ms >= self.next_tick_ms {
            self.scratch.engine.sample(self.scratch.now);
            self.scratch.engine.persistence.snapshots.follow_file_rules(&self.scratch.engine, self.scratch.now);
            let next_in_ms = self.expiry.step(self.scratch.thread_context());
            self.next_tick_ms = now_ms + next_in_ms;
        }
    }
}

impl Drop for Local {
    fn drop(&mut self) {
        self.end();
    }
}
