//! A session: the server's side of one client, with bytes in and bytes out.
//!
//! A session never touches a socket or a clock. Its caller passes the bytes that arrived and a place for the replies. The
//! session cuts requests out of the bytes and runs them in order. It keeps an incomplete request, and while the client is
//! blocked it keeps all bytes. One thread at a time uses it.

pub mod local;
mod weighing;

use std::sync::{Arc, atomic::Ordering};

use sleeve_wire::request::{Batch, Limits, Parser};
use sleeve_wire::{protocol_error::ProtocolError, reply::Writer};

use crate::config::{ClientClass, Opt, OutputLimit};
use crate::context::session_state::{Input, Replies, SessionState};
use crate::context::worker_handoff::WorkerHandoff;
use crate::engine::clients::{blocking::Waiter, client_info::ClientInfo};
use crate::engine::{Engine, replication::primary};
use crate::execute::{self, scratch::Scratch, serve_blocked};
use crate::host::clock::Instant;
use crate::messaging::message::Kind;
use crate::request::output::Output;

/// The session of one client: cuts requests out of the received bytes, and answers them in order.
#[derive(Debug)]
pub struct Session {
    /// The part of this session that its commands see.
    pub state: SessionState,
    engine: Arc<Engine>,
    parser: Parser,
    /// Bytes that were received and not executed: an incomplete request, or all bytes while the client is blocked or paused.
    pending: Vec<u8>,
    paused: bool,
    /// A blocked request is past its deadline, but another event ended the waiting first; the letter about it is on its way.
    is_letter_due: bool,
    /// The time since which more unsent replies wait than the soft limit allows, in seconds of the monotonic clock.
    over_soft_since_s: Option<u64>,
}

/// The most requests that are parsed before they are executed.
const REQUESTS_MAX: usize = 512;

/// Bytes of replies that may wait for a peer that has not logged in, as in Redis.
const UNAUTHENTICATED_OUTPUT_MAX: u64 = 16 * 1024;

/// The delay, during a pause, until the session looks again at the keys that a blocked request waits for, in milliseconds.
const LOOK_IN_PAUSE_MS: u64 = 100;

/// The most room for a large request, as a multiple of the bytes that have arrived.
const ROOM_AHEAD: usize = 8;

/// The room for incomplete requests that is kept, in bytes, even if it is almost empty.
const KEPT_BYTES: usize = 64 * 1024;

/// The bytes, received at once, from which on they may begin a large request: one of which at least as many are missing.
pub const LARGE_REQUEST_BYTES: usize = 32 * 1024;

impl Session {
    /// Makes the session of a peer that has just connected.
    pub fn new(engine: &Arc<Engine>, client: Arc<ClientInfo>) -> Self {
        let user = engine.acl.default_user();
        client.names.lock().user = user.name.clone();
        client.memory.session.store(size_of::<Self>(), Ordering::Relaxed);
        Self {
            state: SessionState::new(client, user),
            engine: Arc::clone(engine),
            parser: Parser::new(),
            pending: Vec::new(),
            paused: false,
            is_letter_due: false,
            over_soft_since_s: None,
        }
    }

    /// Executes every request that these bytes complete and appends the replies to the thread's output.
    pub fn receive(&mut self, bytes: &[u8], scratch: &mut Scratch, others: &mut dyn WorkerHandoff) {
        scratch.counters.input_bytes.add(bytes.len() as u64);
        self.state.client.traffic.note_received(bytes.len());
        if self.pending.is_empty() && !self.is_held() {
            let used = self.run(bytes, scratch, others);
            self.keep(&bytes[used..]);
        } else {
            self.keep(bytes);
            self.run_complete(scratch, others);
        }
        self.check_pending(scratch);
        self.publish(scratch);
    }

    /// Executes the requests that are complete with `count` bytes that have been received into [`Session::room`], as
    /// [`Session::receive`] does.
    pub fn receive_kept(&mut self, count: usize, scratch: &mut Scratch, others: &mut dyn WorkerHandoff) {
        scratch.counters.input_bytes.add(count as u64);
        self.state.client.traffic.note_received(count);
        self.run_complete(scratch, others);
        self.check_pending(scratch);
        self.publish(scratch);
    }

    /// Returns how many bytes of an incomplete request are missing, as far as is known; 0 if something else keeps the request
    /// from running.
    pub fn missing(&self) -> usize {
        if self.pending.is_empty() || self.is_held() || self.state.closing {
            return 0;
        }
        self.parser.wanted().saturating_sub(self.pending.len())
    }

    /// Returns the buffer of the incomplete request, with room for some of its missing bytes.
    pub fn room(&mut self) -> Option<&mut Vec<u8>> {
        let missing = self.missing();
        if self.pending.capacity() - self.pending.len() < missing.min(KEPT_BYTES) {
            self.make_room(self.pending.len());
        }
        (missing != 0).then_some(&mut self.pending)
    }

    /// Goes on after a pause, if nothing holds the peer any more.
    pub fn resume(&mut self, scratch: &mut Scratch, others: &mut dyn WorkerHandoff) {
        if !self.paused {
            return;
        }
        self.set_paused(false);
        self.run_pending(scratch, others);
        self.publish(scratch);
    }

    /// Counts the command that waits with this ticket as failed, if its waiting ended with an error.
    pub fn note_refused(&self, ticket: u64, is_refused: bool, scratch: &Scratch) {
        let waiter = self.state.blocked.as_ref().filter(|waiter| is_refused && waiter.ticket == ticket);
        if let Some(waiter) = waiter {
            let counters = scratch.thread_context().counters;
            counters.errors_replied.add(1);
            counters.commands[waiter.row.id as usize].failed.add(1);
        }
    }

    /// Ends the waiting for a key with this reply, if the client still waits with this ticket, and goes on with its requests.
    pub fn unblock(&mut self, ticket: u64, reply: &mut Output, scratch: &mut Scratch, others: &mut dyn WorkerHandoff) {
        if self.state.blocked.take_if(|waiter| waiter.ticket == ticket).is_none() {
            return;
        }
        self.is_letter_due = false;
        // A change that another client's thread made for this client counts as its own.
        self.state.journal.shown_offset = self.state.journal.shown_offset.max(reply.shown);
        self.state.journal.has_written |= reply.shown != 0;
        match self.state.replies {
            Replies::On | Replies::SkipNext => reply.move_to(&mut scratch.output),
            Replies::Off => {}
            Replies::Skip => self.state.replies = self.state.usual_replies(),
            // A replica may not get a reply: it is closed.
            Replies::Stream => self.state.closing = true,
        }
        self.run_pending(scratch, others);
        self.publish(scratch);
    }

    /// Ends the waiting for a key at its timeout. If only a look at the keys is due, because time alone may have made the
    /// data usable, runs the request again; a letter brings its outcome. If another event has just ended the waiting, a
    /// letter with its outcome is on its way; until that arrives, [`Session::deadline_ms`] returns no deadline.
    pub fn time_out(&mut self, scratch: &mut Scratch, others: &mut dyn WorkerHandoff) {
        let now_ms = scratch.now.monotonic_ms();
        let is_due = |waiter: &&Arc<Waiter>| waiter.due_ms().is_some_and(|due_ms| due_ms <= now_ms);
        let Some(waiter) = self.state.blocked.as_ref().filter(is_due).map(Arc::clone) else { return };
        if waiter.takes_look(now_ms) && waiter.deadline_ms.is_none_or(|deadline_ms| deadline_ms > now_ms) {
            if self.engine.clients.pause.held(now_ms).is_some() {
                // During a pause nothing may change.
                waiter.look_at(now_ms.saturating_add(LOOK_IN_PAUSE_MS));
            } else {
                serve_blocked::gone(scratch.thread_context(), execute::call, waiter.keys());
            }
            return;
        }
        let Some(claim) = waiter.claim() else {
            self.is_letter_due = true;
            return;
        };
        claim.finish(&self.engine.clients.blocking);
        let mut reply = Output::default();
        let reached = |offset| primary::reached(&self.engine, offset);
        waiter.on_timeout.write(&mut reply.bytes, waiter.protocol, reached);
        self.unblock(waiter.ticket, &mut reply, scratch, others);
    }

    /// Returns the waiter of the client, if it waits for a key.
    pub fn waiter(&self) -> Option<&Arc<Waiter>> {
        self.state.blocked.as_ref()
    }

    /// Returns when [`Session::time_out`] is due for a client that waits for a key, in monotonic milliseconds: at its timeout
    /// or at the next look at the keys. None if neither is due, or if only the letter with the outcome is awaited.
    pub fn deadline_ms(&self) -> Option<u64> {
        let waiter = self.state.blocked.as_ref()?;
        waiter.due_ms().filter(|_| !self.is_letter_due)
    }

    /// Returns whether no request of this client may run now, because it waits for a key or for the end of a pause.
    pub fn is_held(&self) -> bool {
        self.paused || self.state.blocked.is_some()
    }

    /// Returns whether all received requests have been executed.
    pub fn is_idle(&self) -> bool {
        self.pending.is_empty() && !self.is_held()
    }

    /// Returns whether CLIENT PAUSE holds requests of this peer.
    pub fn is_paused(&self) -> bool {
        self.paused
    }

    /// Returns whether more replies waited than the soft limit allows at the last call of [`Session::is_output_exceeded`].
    #[inline]
    pub fn is_behind(&self) -> bool {
        self.over_soft_since_s.is_some()
    }

    /// Returns whether `waiting` bytes of unread replies are too many. If no bytes wait, forgets the time over the soft limit.
    pub fn is_output_exceeded(&mut self, waiting: usize, now: Instant) -> bool {
        if waiting == 0 {
            self.over_soft_since_s = None;
            return false;
        }
        let limit = self.output_limit(self.is_authenticated());
        limit.is_exceeded(waiting as u64, &mut self.over_soft_since_s, now.monotonic_ms() / 1_000)
    }

    /// Returns whether the user, as it is now, may have all subscriptions of this client.
    pub fn may_listen(&self) -> bool {
        let (Some(subscriptions), user) = (&self.state.subscriptions, &self.state.login.user) else { return true };
        let Some(user) = self.engine.acl.get(&user.name).filter(|known| known.id == user.id) else { return false };
        [Kind::Channel, Kind::Pattern, Kind::Shard]
            .into_iter()
            .all(|kind| subscriptions.names(kind).all(|name| user.allows_channel(name, kind == Kind::Pattern)))
    }

    /// Removes this client from all tables of the engine.
    pub fn close(&mut self) {
        self.engine.clients.memory.forget(&self.state.client);
        self.state.multi.watching.clear(&self.engine);
        if let Some(waiter) = self.state.blocked.take()
            && let Some(claim) = waiter.claim()
        {
            claim.finish(&self.engine.clients.blocking);
        }
        self.state.unsubscribe_all(&self.engine);
        self.state.stop_tracking(&self.engine);
        // The client has become a replica, but its worker may not have been notified yet.
        if let Some(replica) = self.state.replica.take().filter(|replica| replica.is_registered()) {
            primary::dismiss_replica(&self.engine, &replica);
        }
        self.engine.clients.list.leave(self.state.client.id);
    }

    /// Keeps the bytes that cannot be executed yet.
    fn keep(&mut self, bytes: &[u8]) {
        let length = self.pending.len() + bytes.len();
        if length > self.pending.capacity() && length >= KEPT_BYTES / 2 && self.parser.wanted() > length {
            self.make_room(length);
        }
        self.pending.extend_from_slice(bytes);
    }

    /// Makes room for more of a large request of which `length` bytes have arrived. The room grows in few steps, each a
    /// multiple of the bytes that have arrived: an announced length alone takes no memory.
    fn make_room(&mut self, length: usize) {
        let room = self.parser.wanted().min(length.saturating_mul(ROOM_AHEAD));
        self.pending.reserve_exact(room.saturating_sub(self.pending.len()));
    }

    fn run_pending(&mut self, scratch: &mut Scratch, others: &mut dyn WorkerHandoff) {
        let mut pending = std::mem::take(&mut self.pending);
        let used = self.run(&pending, scratch, others);
        if used == pending.len() {
            pending = Vec::new();
        } else {
            pending.drain(..used);
            // The buffer may never become empty, because the end of the received bytes is always an incomplete request; so
            // the room of a large request is given back here.
            if pending.capacity() > KEPT_BYTES.max(4 * pending.len()) {
                pending.shrink_to(2 * pending.len());
            }
        }
        self.pending = pending;
    }

    /// Executes the complete requests in `bytes`; returns how many bytes they take.
    fn run(&mut self, bytes: &[u8], scratch: &mut Scratch, others: &mut dyn WorkerHandoff) -> usize {
        let mut used = 0;
        while used < bytes.len() && !self.state.closing && !self.is_held() {
            let rest = &bytes[used..];
            scratch.batch.clear();
            let limits = self.limits();
            scratch.output.bound(self.output_max(limits.authenticated));
            let parsed = self.parser.parse(rest, &limits, &mut scratch.batch);
            let run = execute::batch(&mut self.state, scratch, rest, others);
            self.state.client.traffic.note_executed(run);
            if run < scratch.batch.len() && !self.state.closing {
                self.parser = Parser::new();
                self.set_paused(self.state.blocked.is_none());
                return used + scratch.batch.start(run);
            }
            if parsed.is_err() && self.state.blocked.is_some() {
                // A malformed request is answered with an error, behind the replies to the requests before it.
                self.parser = Parser::new();
                return used + end_of(run, rest, self.limits());
            }
            match parsed {
                Ok(0) if scratch.batch.is_empty() => break,
                Ok(count) => used += count,
                Err(error) if self.state.closing => _ = error,
                Err(error) => self.refuse(error, scratch),
            }
        }
        if self.state.closing { bytes.len() } else { used }
    }

    /// Updates the data that other threads see of this client.
    #[inline]
    fn publish(&mut self, scratch: &Scratch) {
        let (input, now_ms) = (self.input(), scratch.now.wall_ms());
        self.state.client.traffic.note_answered(scratch.output.len());
        if self.state.is_news || self.state.closing {
            self.state.is_news = self.state.is_watchful();
            self.state.publish(input, now_ms);
        } else {
            self.state.publish_use(input, now_ms);
        }
    }

    /// Returns the sizes of the input that was not executed yet.
    #[inline]
    fn input(&self) -> Input {
        let bytes = self.pending.len();
        let waiting = self.state.blocked.as_ref().map_or(0, |waiter| waiter.bytes());
        Input { bytes, spare: self.pending.capacity() - bytes, argument_bytes: self.parser.heap_bytes() + waiting }
    }

    /// Returns the bytes of new replies that are too many for the client. A session without a socket passes them on at once.
    fn output_max(&self, authenticated: bool) -> usize {
        let client = &self.state.client;
        match self.output_limit(authenticated).hard_bytes {
            _ if client.socket.descriptor < 0 => usize::MAX,
            0 => usize::MAX,
            bytes => (bytes as usize).saturating_sub(client.memory.output.load(Ordering::Relaxed)),
        }
    }

    fn output_limit(&self, authenticated: bool) -> OutputLimit {
        if !authenticated {
            return OutputLimit { hard_bytes: UNAUTHENTICATED_OUTPUT_MAX, ..OutputLimit::default() };
        }
        let class = match self.state.subscriptions {
            _ if self.state.is_replica() => ClientClass::Replica,
            Some(_) if self.state.is_listening() => ClientClass::Pubsub,
            _ => ClientClass::Normal,
        };
        self.engine.config.output_limit(class)
    }

    /// Returns whether the client has logged in, or does not have to.
    fn is_authenticated(&self) -> bool {
        self.state.login.authenticated || !self.engine.acl.asks_password()
    }

    fn limits(&self) -> Limits {
        let config = &self.engine.config;
        let authenticated = self.is_authenticated();
        Limits {
            bulk_len_max: config.number(Opt::ProtoMaxBulkLen),
            authenticated,
            requests_max: if authenticated { REQUESTS_MAX } else { 1 },
            ..Limits::default()
        }
    }

    fn refuse(&mut self, error: ProtocolError, scratch: &mut Scratch) {
        self.state.client.warn_of(error);
        if self.state.replies == Replies::On {
            let text = [b"ERR ".as_slice(), &error.message()].concat();
            Writer::new(&mut scratch.output.bytes, self.state.protocol).error(&text);
        }
        scratch.counters.errors_replied.add(1);
        self.engine.observe.stats.count_error("ERR");
        self.state.closing = true;
    }

    fn set_paused(&mut self, paused: bool) {
        self.paused = paused;
        self.state.client.status.paused.store(paused, Ordering::Relaxed);
    }

    fn check_pending(&mut self, scratch: &Scratch) {
        if self.pending.len() as i64 > self.engine.config.number(Opt::ClientQueryBufferLimit) {
            scratch.counters.query_buffer_closed.add(1);
            self.pending = Vec::new();
            self.state.closing = true;
        }
    }
}

/// Returns the position at which the first `count` requests of these bytes end; the caller knows that there are so many.
fn end_of(count: usize, bytes: &[u8], limits: Limits) -> usize {
    let limits = Limits { requests_max: count, ..limits };
    Parser::new().parse(bytes, &limits, &mut Batch::new()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::context::worker_handoff::NoWorker;
    use crate::engine::clients::client_info::ClientSocket;
    use crate::engine::readiness::Hindrance;
    use crate::messaging::mail::Mailbox;

    fn session(engine: &Arc<Engine>) -> Session {
        let socket =
            ClientSocket { address: "test:0".into(), local_address: "test:0".into(), descriptor: -1, is_tls: false };
        let client = engine.clients.list.enter(socket, Arc::new(Mailbox::new(|| ())), 0);
        Session::new(engine, client)
    }

    #[test]
    fn time_over_the_soft_limit_ends_when_everything_was_read() {
        let config = Config::default();
        config.assign(Opt::ClientOutputBufferLimit, &[b"normal 0 1mb 1"]).expect("a limit");
        let mut session = session(&Engine::new(config));
        let at_s = |seconds: u64| Instant { wall_us: 0, monotonic_us: seconds * 1_000_000 };
        assert!(!session.is_output_exceeded(2 << 20, at_s(0)));
        assert!(!session.is_output_exceeded(0, at_s(1)));
        assert!(!session.is_output_exceeded(2 << 20, at_s(100)));
        assert!(session.is_output_exceeded(2 << 20, at_s(102)));
    }

    #[test]
    fn the_buffer_of_a_large_request_is_freed_beside_incomplete_requests() {
        let engine = Engine::new(Config::default());
        let (mut session, mut scratch) = (session(&engine), Scratch::new(&engine, Instant::now()));
        let large = [b"*2\r\n$4\r\nECHO\r\n$4000000\r\n".as_slice(), &[b'x'; 4_000_000], b"\r\nPI"].concat();
        large.chunks(50_000).for_each(|chunk| session.receive(chunk, &mut scratch, &mut NoWorker));
        for _ in 0..3 {
            session.receive(b"NG\r\nPI", &mut scratch, &mut NoWorker);
        }
        assert!(session.pending.capacity() <= KEPT_BYTES, "{} are held", session.pending.capacity());
        assert!(scratch.output.bytes.ends_with(b"x\r\n+PONG\r\n+PONG\r\n+PONG\r\n"));
    }

    #[test]
    fn the_buffer_of_a_large_request_grows_in_step_with_the_bytes_received() {
        let engine = Engine::new(Config::default());
        let (mut session, mut scratch) = (session(&engine), Scratch::new(&engine, Instant::now()));
        assert!(session.missing() == 0 && session.room().is_none());
        let large = [b"*2\r\n$4\r\nECHO\r\n$4000000\r\n".as_slice(), &[b'x'; 4_000_000], b"\r\n"].concat();
        let (first, mut rest) = large.split_at(100);
        session.receive(first, &mut scratch, &mut NoWorker);
        while let Some(room) = session.room() {
            let came = room.len();
            assert!(came < room.capacity() && room.capacity() <= came * ROOM_AHEAD, "{} for {came}", room.capacity());
            let (piece, behind) = rest.split_at(rest.len().min(room.capacity() - came).min(50_000));
            room.extend_from_slice(piece);
            rest = behind;
            assert!(scratch.output.bytes.is_empty());
            session.receive_kept(piece.len(), &mut scratch, &mut NoWorker);
        }
        assert!(rest.is_empty() && session.pending.capacity() == 0);
        assert!(scratch.output.bytes.starts_with(b"$4000000\r\nxx") && scratch.output.bytes.ends_with(b"xx\r\n"));
    }

    #[test]
    fn what_a_command_that_is_held_has_published_goes_to_its_own_client_alone() {
        let config = Config::default();
        let options =
            [(Opt::Maxmemory, "100mb"), (Opt::MaxmemoryPolicy, "allkeys-lru"), (Opt::NotifyKeyspaceEvents, "Ee")];
        for (option, value) in options {
            config.assign(option, &[value.as_bytes()]).expect("an option of the table");
        }
        let engine = Engine::new(config);
        let (mut listener, mut other) = (session(&engine), session(&engine));
        let mut scratch = Scratch::new(&engine, Instant::now());
        let mut say = |session: &mut Session, request: &str| {
            session.receive(request.as_bytes(), &mut scratch, &mut NoWorker);
            String::from_utf8(std::mem::take(&mut scratch.output.bytes)).expect("text")
        };
        for key in 0..5_000 {
            say(&mut listener, &format!("SET key:{key} {}\r\n", "x".repeat(200)));
        }
        say(&mut listener, "HELLO 3\r\nSUBSCRIBE __keyevent@0__:evicted\r\n");
        // The gates make room by evicting, and after that the disk holds the command.
        engine.config.assign(Opt::Maxmemory, &[b"1mb"]).expect("a size");
        engine.lifecycle.readiness.set(Hindrance::DiskBehind, true);
        let told = say(&mut listener, "SET one 1\r\n");
        assert_eq!(say(&mut other, "PING\r\n"), "+PONG\r\n");
        assert!(told.starts_with(">3\r\n$7\r\nmessage\r\n") && !told.contains("+OK"), "{told}");
    }
}
