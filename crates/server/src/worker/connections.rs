//! The connections of a worker: their sockets, their sessions, and the bytes on the way to their clients.
//!
//! A connection begins and ends here. While it lives, its session is found by its token or by its client's id. Replies go
//! through the outbox and the reply gate (`replies`); bytes that answer no request are queued here and are sent with the rest
//! of the mail. One thread.

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use sleeve_rings::memory::Fresh;

use super::long_script::LongScripts;
use super::outbox::Outbox;
use super::pool::Member;
use super::reply_gate::ReplyGate;
use super::tls_channels::Channels;
use crate::config::Opt;
use crate::context::tracking_delivery::{self, Delivery};
use crate::engine::Engine;
use crate::engine::clients::client_info::ClientSocket;
use crate::engine::cluster::Cluster;
use crate::engine::replication::{Replica, primary};
use crate::execute::scratch::Scratch;
use crate::host::log;
use crate::messaging::local_subscribers::LocalSubscribers;
use crate::messaging::mail::{Accepted, Letter};
use crate::messaging::message::{Kind, Message};
use crate::net::{Driver, Sending, Token};
use crate::session::Session;

/// The bytes of output that one client must have had for the allocator to be asked to return memory.
pub(super) const LARGE_BYTES: usize = 4 * 1024 * 1024;

/// The clients of one worker.
#[derive(Debug)]
pub(super) struct Connections {
    pub engine: Arc<Engine>,
    pub home: Arc<Member>,
    pub driver: Driver,
    /// The sessions by token; a session that runs is out of its place.
    pub sessions: Vec<Option<Box<Session>>>,
    pub channels: Channels,
    /// The tokens of clients, by the client's id.
    tokens: HashMap<u64, Token>,
    /// The deadlines of blocked clients, in monotonic milliseconds, each with the client's id.
    pub deadlines: BTreeSet<(u64, u64)>,
    /// The subscriptions of the worker's clients.
    subscribers: LocalSubscribers,
    pub outbox: Outbox,
    pub gate: ReplyGate,
    /// The worker's replicas, with their connections.
    pub feeds: Vec<(Token, Arc<Replica>)>,
    pub long_scripts: LongScripts,
    /// A large output was sent, and the allocator may keep its memory.
    pub owes_purge: bool,
}

/// The beginning and the end of connections.
impl Connections {
    /// Makes an empty table of connections.
    pub fn new(engine: &Arc<Engine>, home: Arc<Member>, driver: Driver) -> Self {
        engine.clients.enter_mailbox(&home.mailbox);
        Self {
            engine: Arc::clone(engine),
            home,
            driver,
            sessions: Vec::new(),
            channels: Channels::default(),
            tokens: HashMap::new(),
            deadlines: BTreeSet::new(),
            subscribers: LocalSubscribers::default(),
            outbox: Outbox::default(),
            gate: ReplyGate::default(),
            feeds: Vec::new(),
            long_scripts: LongScripts::default(),
            owes_purge: false,
        }
    }

    /// Takes over a connection that was counted as this worker's. If it is refused, the client is sent the reason.
    pub fn adopt(&mut self, accepted: Accepted, scratch: &Scratch) {
        if self.try_adopt(accepted, scratch).is_none() {
            self.home.clients.fetch_sub(1, Ordering::Relaxed);
        }
    }

    fn try_adopt(&mut self, accepted: Accepted, scratch: &Scratch) -> Option<()> {
        let engine = Arc::clone(&self.engine);
        if let Some(text) = refusal_of(&engine, &accepted) {
            scratch.counters.connections_rejected.add(1);
            if !accepted.is_tls {
                _ = rustix::net::send(&accepted.socket, text.as_bytes(), rustix::net::SendFlags::NOSIGNAL);
            }
            return None;
        }
        let channel = if accepted.is_tls { Some(engine.network.tls.channel()?) } else { None };
        let token = self.driver.adopt(accepted.socket).ok()?;
        if let Some(channel) = channel {
            self.channels.insert(token, channel);
        }
        scratch.counters.connections.add(1);
        let socket = ClientSocket {
            address: accepted.address,
            local_address: accepted.local_address,
            descriptor: self.driver.descriptor(token),
            is_tls: accepted.is_tls,
        };
        let client = engine.clients.list.enter(socket, Arc::clone(&self.home.mailbox), scratch.now.wall_ms());
        if self.sessions.len() <= token {
            self.sessions.resize_with(token + 1, || None);
        }
        self.tokens.insert(client.id, token);
        self.sessions[token] = Some(Box::new(Session::new(&engine, client)));
        Some(())
    }

    /// Stops accepting, and closes all connections.
    pub fn close_all(&mut self) {
        self.driver.stop_listening();
        (0..self.sessions.len()).for_each(|token| self.close(token));
    }

    /// Closes a connection without further replies: at once, unless the client has not taken all sent bytes yet.
    #[cold]
    pub fn close_when_sent(&mut self, token: Token) {
        match (self.driver.flush(token), &self.sessions[token]) {
            (Sending::Waiting(count), Some(session)) => {
                session.state.client.memory.output.store(count, Ordering::Relaxed);
                self.driver.hold(token, true);
            }
            _ => self.close(token),
        }
    }

    /// Closes a connection and drops all state of its client. If another thread still runs its session, this is done when the
    /// session is back.
    pub fn close(&mut self, token: Token) {
        if self.long_scripts.close_when_back(token) {
            return;
        }
        if let Some(mut farewell) = self.channels.end(token) {
            _ = self.driver.send(token, &mut farewell);
        }
        if !self.feeds.is_empty() {
            self.end_feed(token);
        }
        if let Some(mut session) = self.sessions[token].take() {
            self.owes_purge |= session.state.client.memory.sum() >= LARGE_BYTES;
            self.tokens.remove(&session.state.client.id);
            forget_deadline(&mut self.deadlines, &session);
            if let Some(subscriptions) = &mut session.state.subscriptions {
                self.subscribers.update(token, session.state.client.id, subscriptions);
                self.subscribers.forget(session.state.client.id, subscriptions);
            }
            session.close();
            self.home.clients.fetch_sub(1, Ordering::Relaxed);
        }
        self.gate.forget(token);
        // This comes last: a client that sees the end of the connection may rely on all its state being removed.
        self.driver.close(token);
    }

    /// Ends the feed of a replica when its connection ends.
    #[cold]
    fn end_feed(&mut self, token: Token) {
        if let Some(index) = self.feeds.iter().position(|(known, _)| *known == token) {
            let (_, replica) = self.feeds.remove(index);
            log::notice(&format!("Connection with replica {} lost.", replica.client.socket.address));
            primary::dismiss_replica(&self.engine, &replica);
        }
    }
}

impl Drop for Connections {
    fn drop(&mut self) {
        self.engine.clients.leave_mailbox(&self.home.mailbox);
    }
}

/// Clients by their ids, and the bytes for them that answer no request.
impl Connections {
    /// Returns the connection of a client.
    pub fn token_of(&self, id: u64) -> Option<Token> {
        self.tokens.get(&id).copied()
    }

    /// Returns the session of a client, and its connection.
    pub fn session_of(&mut self, id: u64) -> Option<(Token, &mut Session)> {
        let token = self.token_of(id)?;
        Some((token, self.sessions.get_mut(token)?.as_mut()?))
    }

    /// Returns the first deadline of its blocked clients.
    pub fn first_deadline_ms(&self) -> u64 {
        self.deadlines.first().map_or(u64::MAX, |(deadline_ms, _)| *deadline_ms)
    }

    /// Removes a client from the deadlines; returns its connection, if its session is here.
    pub fn end_wait(&mut self, id: u64) -> Option<Token> {
        let token = self.token_of(id)?;
        forget_deadline(&mut self.deadlines, self.sessions[token].as_deref()?);
        Some(token)
    }

    /// Starts or stops receiving from a connection, as its session needs.
    pub fn hold_as_session_wants(&mut self, token: Token) {
        let is_held = self.sessions[token].as_ref().is_some_and(|session| session.is_held());
        self.driver.hold(token, is_held);
    }

    /// Registers new subscriptions of this connection's session: from now on messages are sent to it, behind its replies.
    pub fn note_listener(&mut self, token: Token) {
        if let Some(session) = &mut self.sessions[token]
            && let Some(subscriptions) = &mut session.state.subscriptions
        {
            self.subscribers.update(token, session.state.client.id, subscriptions);
        }
    }

    /// Gives a message to this worker's subscribers, or to only one of them. It is sent with all other bytes that the mail
    /// has for them.
    pub fn publish(&mut self, message: &Message, only: Option<u64>, scratch: &Scratch) {
        let (driver, sessions, counters) = (&mut self.driver, &self.sessions, &scratch.counters);
        let (gate, channels) = (&mut self.gate, &mut self.channels);
        self.subscribers.for_each(message, |subscriber, form| {
            let Some(session) = &sessions[subscriber.place] else { return };
            let is_meant = only.is_none_or(|id| id == subscriber.id);
            if is_meant && session.state.client.id == subscriber.id && !session.state.closing {
                let bytes = form.bytes(message, session.state.protocol);
                counters.output_bytes.add(bytes.len() as u64);
                session.state.client.traffic.note_answered(bytes.len());
                channels.queue((gate, driver), subscriber.place, bytes);
            }
        });
    }

    /// Ends the subscriptions of this worker's clients to shard channels that another node of the cluster serves.
    pub fn end_shard_channels(&mut self, channels: &[Arc<[u8]>]) {
        let engine = Arc::clone(&self.engine);
        for channel in channels {
            for token in self.subscribers.places(Kind::Shard, channel) {
                let session = self.sessions.get_mut(token).and_then(Option::as_mut);
                let Some(bytes) = session.and_then(|session| session.state.end_shard_channel(&engine, channel)) else {
                    continue;
                };
                self.note_listener(token);
                self.queue(token, &Arc::new(bytes));
            }
        }
    }

    /// Notifies a client that keys which it has read have changed.
    pub fn invalidate(&mut self, id: u64, keys: Option<Arc<Vec<u8>>>) {
        let engine = Arc::clone(&self.engine);
        let Some((token, session)) = self.session_of(id) else { return };
        match tracking_delivery::deliver(&engine, &mut session.state, keys) {
            Delivery::Nothing => {}
            Delivery::Push(bytes) => self.queue(token, &Arc::new(bytes)),
            Delivery::Forward(client, keys) => client.mailbox.post(Letter::Redirected { id: client.id, keys }),
        }
    }

    /// Notifies a client that keys which another client has read have changed.
    pub fn redirect(&mut self, id: u64, keys: &[u8]) {
        if let Some((token, session)) = self.session_of(id)
            && let Some(bytes) = tracking_delivery::forwarded(&session.state, keys)
        {
            self.queue(token, &Arc::new(bytes));
        }
    }

    /// Gives a client bytes that answer no request.
    pub fn push(&mut self, id: u64, bytes: &Arc<Vec<u8>>) {
        if let Some(token) = self.token_of(id) {
            self.queue(token, bytes);
        }
    }

    /// Queues bytes for a connection. They are sent together with all other bytes that the mail has for it.
    pub fn queue(&mut self, token: Token, bytes: &Arc<Vec<u8>>) {
        self.channels.queue((&mut self.gate, &mut self.driver), token, bytes);
    }

    /// Begins to follow the journal for a client of CLIENT JOURNAL ON: the client is sent the offset that all its replies so
    /// far show.
    pub fn follow_journal(&mut self, id: u64) {
        let Some((token, session)) = self.session_of(id) else { return };
        let client = (Arc::clone(&session.state.client), session.state.journal.shown_offset);
        if let Some(message) = self.gate.follow(token, client, (&self.engine, &self.home.mailbox)) {
            self.queue(token, &Arc::new(message));
        }
    }

    /// Notifies the clients of CLIENT JOURNAL that wait for it that the disk or a replica has advanced. The messages are sent
    /// with the rest of the mail.
    pub fn tell_synced(&mut self) {
        for (token, message) in self.gate.messages(&self.driver, (&self.engine, &self.home.mailbox)) {
            self.queue(token, &Arc::new(message));
        }
    }

    /// Begins to feed a client that has become a replica.
    pub fn begin_feeding(&mut self, id: u64) {
        let Some((token, session)) = self.session_of(id) else { return };
        let Some(replica) = session.state.replica.clone().filter(|replica| replica.is_registered()) else { return };
        if self.feeds.iter().all(|(known, _)| *known != token) {
            self.feeds.push((token, replica));
        }
    }

    /// Sends a waiting replica a sign of life. The thread of the snapshot orders it, because within the snapshot the byte
    /// would be wrong.
    pub fn show_life(&mut self, id: u64) {
        if let Some((token, session)) = self.session_of(id)
            && session.state.replica.as_ref().is_some_and(|replica| replica.is_registered() && replica.needs_signs())
        {
            self.queue(token, &Arc::new(b"\n".to_vec()));
        }
    }

    /// Gives shared memory to a client of CLIENT RINGS. If that is impossible, because the client has sent other bytes in
    /// between, closes its connection, on which the client waits for nothing else.
    pub fn share_memory(&mut self, id: u64, memory: Fresh) {
        let Some((token, session)) = self.session_of(id) else { return };
        let is_idle = session.is_idle();
        let shared = if is_idle && !self.gate.has(token) {
            self.driver.share_memory(token, memory)
        } else {
            Err(io::Error::other("it has said more, or replies are held back"))
        };
        if let Err(error) = shared {
            log::warning(&format!("Client id={id} cannot be given shared memory, and is closed: {error}"));
            self.close(token);
        }
    }
}

/// Sessions that other threads still run.
impl Connections {
    /// Enters this connection's session, which is running, among the detached ones.
    pub fn detach(&mut self, token: Token) {
        let id = self.tokens.iter().find(|(_, other)| **other == token).map_or(0, |(id, _)| *id);
        self.long_scripts.detach(token, id);
        self.driver.hold(token, true);
    }

    /// Takes a detached session back at once. No second thread could be started to serve the worker's other clients, so this
    /// thread stays with the worker and runs the session itself.
    pub fn attach(&mut self, token: Token) {
        self.long_scripts.attach(token);
        self.driver.hold(token, false);
    }

    /// Takes back the sessions that threads with long scripts have returned.
    pub fn take_returned(&mut self, scratch: &mut Scratch) {
        while let Some(returned) = self.home.take_returned() {
            let (token, mut session) = (returned.token, returned.session);
            let Some(detached) = self.long_scripts.attach(token) else { continue };
            let has_ended = self.channels.get(token).is_some_and(|channel| channel.has_ended());
            session.state.closing |= detached.has_ended || has_ended || !session.may_listen();
            // The client has been busy until now, not idle.
            session.state.client.activity.active_ms.store(scratch.now.wall_ms(), Ordering::Relaxed);
            self.sessions[token] = Some(session);
            if detached.is_killed {
                self.close(token);
                continue;
            }
            self.hold_as_session_wants(token);
            let unused = std::mem::replace(&mut scratch.output, returned.output);
            if scratch.output.take_cut() {
                self.close_cut(token, scratch);
            }
            self.send(token, scratch);
            scratch.output = unused;
        }
    }
}

/// Removes the deadline of a session that waits for a key.
fn forget_deadline(deadlines: &mut BTreeSet<(u64, u64)>, session: &Session) {
    if let Some(waiter) = session.waiter()
        && let Some(deadline_ms) = waiter.due_ms()
    {
        deadlines.remove(&(deadline_ms, waiter.client.id));
    }
}

/// Returns the reason why a connection is refused, as a reply; None if it is served.
fn refusal_of(engine: &Engine, accepted: &Accepted) -> Option<&'static str> {
    let links = engine.cluster.get().map_or(0, Cluster::link_count);
    if (engine.clients.list.len() + links) as i64 >= engine.config.number(Opt::Maxclients) {
        return Some(match engine.cluster.get() {
            Some(_) => "-ERR max number of clients + cluster connections reached\r\n",
            None => "-ERR max number of clients reached\r\n",
        });
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
