//! One worker: a thread with its own driver and its own sessions, equal to every other.
//!
//! A worker waits, serves everything that the wait brought, and reads its mail; between times it takes its share of the
//! background work in short slices. It executes where the bytes arrive: no request is ever handed to another thread.
//! A new connection goes to the worker that has the fewest.

mod held_replies;
mod holding;
mod journal_followers;
mod journal_pushes;
mod letters;
mod limits;
mod reentry;
mod send_queue;
mod tls;
mod tls_channels;

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;

use crate::config::Opt;
use crate::driver::{Driver, Event, Listener, Sending, Token};
use crate::engine::Engine;
use crate::engine::clients::client_info::Arrival;
use crate::execute::active_expiry::Expiry;
use crate::execute::scratch::Desk;
use crate::host::clock::Instant;
use crate::host::crash;
use crate::host::log;
use crate::messaging::mail::{Accepted, Letter, Mailbox};
use crate::request::output::Output;
use crate::session::Session;
use held_replies::HeldReplies;
use send_queue::Departures;
use tls_channels::Channels;

/// All workers of one engine, as they see each other.
#[derive(Debug)]
pub struct Team {
    /// Each worker's mailbox and how many clients it has.
    members: Vec<(Arc<Mailbox>, AtomicUsize)>,
}

impl Team {
    /// A team whose members read these mailboxes, in the order of their numbers.
    pub fn new(mailboxes: Vec<Arc<Mailbox>>) -> Arc<Self> {
        Arc::new(Self { members: mailboxes.into_iter().map(|mailbox| (mailbox, AtomicUsize::new(0))).collect() })
    }

    fn least_busy(&self) -> usize {
        let clients = |&member: &usize| self.members[member].1.load(Ordering::Relaxed);
        (0..self.members.len()).min_by_key(clients).unwrap_or(0)
    }
}

/// One thread with its driver and the sessions of its connections. Made by one thread, then moved to the thread that
/// [`Worker::spawn`] starts.
#[derive(Debug)]
pub struct Worker {
    number: usize,
    team: Arc<Team>,
    driver: Driver,
    sessions: Vec<Option<Box<Session>>>,
    channels: Channels,
    /// Where the session of a client is, by the client's id.
    tokens: HashMap<u64, Token>,
    /// When clients stop waiting for keys, monotonic milliseconds, each with its id.
    deadlines: BTreeSet<(u64, u64)>,
    desk: Box<Desk>,
    /// The desk that is used while the other one is in use further down the stack.
    spare: Option<Box<Desk>>,
    output: Output,
    departures: Departures,
    held: HeldReplies,
    /// Whose sessions are running something, and are not in their places: where, and the client's id.
    running: Vec<(Token, u64)>,
    /// Those of them that are to be closed when they are done.
    doomed: Vec<Token>,
    /// Other clients were served while a session ran.
    has_attended: bool,
    /// Mail that has not been read yet.
    letters: VecDeque<Letter>,
    /// Letters to clients whose sessions were running something, by id; 0 where it is about all of them.
    put_off: Vec<(u64, Letter)>,
    expiry: Expiry,
    next_tick_ms: u64,
    next_idle_check_ms: u64,
    /// Something large was sent, whose memory the allocator may keep.
    owes_purge: bool,
    /// Accepting has failed, and the log says so.
    is_refusing: bool,
    stopping: bool,
}

impl Worker {
    /// Worker `number` of its team.
    pub fn new(engine: &Arc<Engine>, team: Arc<Team>, number: usize, driver: Driver) -> Self {
        let workers = team.members.len();
        engine.enter_mailbox(&team.members[number].0);
        Self {
            number,
            team,
            driver,
            sessions: Vec::new(),
            channels: Channels::default(),
            tokens: HashMap::new(),
            deadlines: BTreeSet::new(),
            desk: Box::new(Desk::new(engine, Instant::now())),
            spare: None,
            output: Output::default(),
            departures: Departures::default(),
            held: HeldReplies::default(),
            running: Vec::new(),
            doomed: Vec::new(),
            has_attended: false,
            letters: VecDeque::new(),
            put_off: Vec::new(),
            expiry: Expiry::new(number, workers),
            next_tick_ms: 0,
            next_idle_check_ms: 0,
            owes_purge: false,
            is_refusing: false,
            stopping: false,
        }
    }

    /// Accepts from this listener too.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn listen(&mut self, listener: Arc<Listener>) -> io::Result<()> {
        self.driver.listen(listener)
    }

    /// Starts the thread that serves until a letter says stop. When it ends for another reason, so does the engine: a team
    /// that lacks a worker would give every new connection to the one that never looks.
    ///
    /// # Errors
    /// What the kernel says: too many threads.
    pub fn spawn(self) -> io::Result<JoinHandle<()>> {
        let (name, engine) = (format!("worker-{}", self.number), Arc::clone(&self.desk.engine));
        let serve = move || self.run().map_err(|error| format!("cannot wait for its clients: {error}"));
        engine.start_thread(&name, serve)
    }

    fn run(mut self) -> io::Result<()> {
        crash::prepare_thread();
        let mut has_mail = false;
        while !self.stopping {
            let first_deadline_ms = self.deadlines.first().map_or(u64::MAX, |(deadline_ms, _)| *deadline_ms);
            let wakes_ms = self.next_tick_ms.min(first_deadline_ms);
            let timeout_ms = if has_mail { 0 } else { wakes_ms.saturating_sub(self.desk.now.monotonic_ms()) };
            let count = self.driver.wait(timeout_ms)?;
            self.desk.now = Instant::now();
            for index in 0..count {
                if index != 0 {
                    // What ran since the wake-up may have taken long, and a relative deadline counts from now.
                    self.desk.now = Instant::now();
                }
                let event = self.driver.event(index);
                self.handle(event);
            }
            self.depart();
            if self.desk.now.monotonic_ms() >= first_deadline_ms {
                self.time_out();
            }
            if self.desk.now.monotonic_ms() >= self.next_tick_ms {
                self.tick();
            }
            // What this thread has posted to itself has woken nobody. What comes while it reads waits until it has looked
            // after its connections: others may post without end.
            has_mail = self.has_mail();
            if has_mail {
                self.read_mail();
                has_mail = self.has_mail();
            }
        }
        self.driver.stop_listening();
        for token in 0..self.sessions.len() {
            self.close(token);
        }
        Ok(())
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Received(token, count) if self.channels.has(token) => self.receive_sealed(token, count),
            Event::Received(token, count) => {
                let received = self.with_session(token, |session, bytes, desk, output| {
                    desk.counters.reads.add(1);
                    session.receive(&bytes[..count], desk, output);
                });
                if received.is_some() {
                    self.send_later(token);
                }
            }
            Event::Sent(token, waiting) => {
                if let Some(session) = &self.sessions[token] {
                    session.state.peer.active_ms.store(self.desk.now.wall_ms(), Ordering::Relaxed);
                }
                self.after_sending(token, waiting);
            }
            Event::Closed(token) => self.close(token),
            Event::Accepted(accepted) => {
                self.is_refusing = false;
                accepted.into_iter().for_each(|accepted| self.place(accepted));
            }
            Event::AcceptFailed(error) => {
                if !std::mem::replace(&mut self.is_refusing, true) {
                    log::warning(&format!("Accepting client connection: {error}"));
                }
            }
            Event::Woken => {
                self.depart();
                self.read_mail();
            }
            Event::Nothing => {}
        }
    }

    /// Has what the session of this connection has just written leave with the others.
    #[inline]
    fn send_later(&mut self, token: Token) {
        if !self.departures.add(token, &mut self.output) {
            self.send(token);
        } else if self.departures.is_full() {
            self.depart();
        }
    }

    /// Sends what waits to leave.
    fn depart(&mut self) {
        let mut waiting = self.departures.take();
        if self.departures.take_shown() != 0 || !self.held.is_unused() {
            self.hold_departures(&mut waiting);
        }
        self.send_together(&mut waiting);
        self.departures.give_back(waiting);
    }

    /// Sends what may leave, of several connections with one system call, and leaves the list empty.
    fn send_together(&mut self, waiting: &mut Vec<(Token, Output)>) {
        if waiting.len() > 1 {
            let (sends, bytes) = self.driver.send_together(waiting);
            self.desk.counters.writes.add(sends as u64);
            self.desk.counters.output_bytes.add(bytes as u64);
        }
        for (token, output) in waiting.drain(..) {
            let unused = std::mem::replace(&mut self.output, output);
            self.send_now(token);
            self.departures.keep(std::mem::replace(&mut self.output, unused));
        }
    }

    /// Sends what the session of this connection has just written, or holds it back.
    fn send(&mut self, token: Token) {
        if self.output.shown == 0 && self.held.is_unused() {
            self.send_now(token)
        } else {
            self.send_unless_held(token)
        }
    }

    /// Sends what the session of this connection has written.
    fn send_now(&mut self, token: Token) {
        if let Some(session) = &mut self.sessions[token]
            && let Some(subscriptions) = &mut session.state.subscriptions
        {
            self.desk.audience.update(token, session.state.peer.id, subscriptions);
        }
        if self.channels.has(token) {
            self.seal(token);
        }
        let sending = if self.output.is_empty() {
            // Nothing new, but what was written before may still wait.
            self.output.shown = 0;
            Sending::Waiting(self.driver.waiting(token))
        } else {
            self.desk.counters.writes.add(1);
            let len = self.output.len();
            self.desk.counters.output_bytes.add(len as u64);
            self.note_large(len);
            self.driver.send(token, &mut self.output)
        };
        debug_assert!(self.output.is_empty(), "the replies of one client would reach another");
        match sending {
            Sending::Done => self.after_sending(token, 0),
            Sending::Waiting(count) => self.after_sending(token, count),
            Sending::Broken => self.close(token),
        }
    }

    fn after_sending(&mut self, token: Token, waiting: usize) {
        let waiting = waiting + self.held.len(token);
        let Some(session) = &mut self.sessions[token] else { return };
        let peer = &session.state.peer;
        peer.output_bytes.store(waiting, Ordering::Relaxed);
        peer.output_spare.store(if waiting == 0 { 0 } else { self.driver.spare(token) }, Ordering::Relaxed);
        if waiting == 0 && session.state.closing {
            return self.close(token);
        }
        if let Some(deadline_ms) = session.deadline_ms() {
            self.deadlines.insert((deadline_ms, session.state.peer.id));
        }
        if session.state.closing || session.is_held() {
            self.driver.hold(token, true);
        }
        self.close_if_unread(token, waiting);
        self.weigh(token);
    }

    /// Gives a new connection to the worker that has the fewest.
    fn place(&mut self, accepted: Accepted) {
        let chosen = self.team.least_busy();
        let (mailbox, clients) = &self.team.members[chosen];
        clients.fetch_add(1, Ordering::Relaxed);
        if chosen == self.number {
            self.adopt(accepted);
        } else {
            mailbox.post(Letter::Adopt(accepted));
        }
    }

    fn adopt(&mut self, accepted: Accepted) {
        let engine = Arc::clone(&self.desk.engine);
        let (mailbox, clients) = &self.team.members[self.number];
        let refusal = refusal_of(&engine, &accepted);
        if let Some(text) = refusal {
            self.desk.counters.connections_rejected.add(1);
            if !accepted.is_tls {
                _ = rustix::net::send(&accepted.socket, text.as_bytes(), rustix::net::SendFlags::NOSIGNAL);
            }
            clients.fetch_sub(1, Ordering::Relaxed);
            return;
        }
        let channel = if accepted.is_tls { engine.tls.channel() } else { None };
        let adopted = if accepted.is_tls && channel.is_none() { None } else { self.driver.adopt(accepted.socket).ok() };
        let Some(token) = adopted else {
            clients.fetch_sub(1, Ordering::Relaxed);
            return;
        };
        if let Some(channel) = channel {
            self.channels.insert(token, channel);
        }
        self.desk.counters.connections.add(1);
        let arrival = Arrival {
            address: accepted.address,
            local_address: accepted.local_address,
            descriptor: self.driver.descriptor(token),
        };
        let peer = engine.peers.enter(arrival, Arc::clone(mailbox), self.desk.now.wall_ms());
        if self.sessions.len() <= token {
            self.sessions.resize_with(token + 1, || None);
        }
        self.tokens.insert(peer.id, token);
        self.sessions[token] = Some(Box::new(Session::new(&engine, peer)));
    }

    fn close(&mut self, token: Token) {
        if self.is_running(token) {
            return self.doomed.push(token);
        }
        if self.channels.has(token) {
            self.take_leave(token);
        }
        if let Some(mut session) = self.sessions[token].take() {
            self.note_large(session.state.peer.bytes());
            self.tokens.remove(&session.state.peer.id);
            forget_deadline(&mut self.deadlines, &session);
            if let Some(subscriptions) = &mut session.state.subscriptions {
                self.desk.audience.update(token, session.state.peer.id, subscriptions);
                self.desk.audience.forget(session.state.peer.id, subscriptions);
            }
            session.close();
            self.team.members[self.number].1.fetch_sub(1, Ordering::Relaxed);
        }
        self.held.forget(token);
        self.held.forget_follower(token);
        // Last, because who sees the end of the connection may rely on nothing being done for it any more.
        self.driver.close(token);
    }

    /// The background work between two waits.
    fn tick(&mut self) {
        let engine = Arc::clone(&self.desk.engine);
        let now = self.desk.now;
        self.driver.accept_again();
        let period_ms = 1_000 / u64::from(engine.config.rounds_a_second(engine.peers.len()));
        engine.sample(now);
        engine.follow_file_rules(now);
        let expiry_in_ms = self.expiry.step(self.desk.at_hand());
        self.next_tick_ms = now.monotonic_ms() + expiry_in_ms.min(period_ms);
        if engine.pause.is_begun() {
            if engine.pause.held(now.monotonic_ms()).is_none() {
                self.resume();
            } else {
                let pause_left_ms = engine.pause.until_ms().saturating_sub(now.monotonic_ms()).max(1);
                self.next_tick_ms = self.next_tick_ms.min(now.monotonic_ms() + pause_left_ms);
            }
        } else if self.sessions.iter().flatten().any(|session| session.is_paused()) {
            self.resume();
        }
        self.tell_late_readers();
        self.weigh_all();
        if now.monotonic_ms() >= self.next_idle_check_ms {
            self.next_idle_check_ms = now.monotonic_ms() + 1_000;
            self.close_idle();
            self.close_unread();
            self.give_back();
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.desk.engine.leave_mailbox(&self.team.members[self.number].0);
    }
}

/// Strikes out when this session stops waiting for a key, if it does.
fn forget_deadline(deadlines: &mut BTreeSet<(u64, u64)>, session: &Session) {
    if let Some(waiter) = session.waiter()
        && let Some(deadline_ms) = waiter.deadline_ms
    {
        deadlines.remove(&(deadline_ms, waiter.peer.id));
    }
}

/// Why a connection is not served, as the reply that says so.
fn refusal_of(engine: &Engine, accepted: &Accepted) -> Option<&'static str> {
    if engine.peers.len() as i64 >= engine.config.number(Opt::Maxclients) {
        return Some("-ERR max number of clients reached\r\n");
    }
    let from_elsewhere = match accepted.address.parse::<std::net::SocketAddr>() {
        Ok(address) => !address.ip().is_loopback(),
        Err(_) => false,
    };
    let protects = engine.config.flag(Opt::ProtectedMode) && engine.acl.default_user().no_password;
    (from_elsewhere && protects).then_some(PROTECTED)
}

const PROTECTED: &str = "-DENIED Sleeve is in protected mode: it has no password, so it serves clients of its own machine \
only. To connect from elsewhere set one with 'requirepass', or, where every host that can reach the port may be trusted, \
say 'protected-mode no' in the configuration file.\r\n";
