//! Clients with sessions that another thread still runs, because a script has run for long there and the worker was handed
//! over.
//!
//! While a session is detached, nothing is received from its client, and letters for it are kept: none of the client's bytes
//! are lost, and it gets its own in order. When its session is back, the client is served as all others are. One thread.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::config::ClientClass;
use crate::engine::Engine;
use crate::host::log;
use crate::messaging::mail::Letter;
use crate::messaging::message::Kind;
use crate::net::Token;

/// The sessions that other threads still run, and the letters for their clients.
#[derive(Debug, Default)]
pub(super) struct LongScripts {
    detached: Vec<DetachedSession>,
    /// Letters with the ids of their clients, oldest first.
    kept: VecDeque<(u64, Letter)>,
}

/// A session that is still run by a thread which has handed the worker over.
#[derive(Debug)]
pub(super) struct DetachedSession {
    token: Token,
    /// The id of its client.
    id: u64,
    /// The client has ended its side of the connection: when the session is back, it is closed after its replies.
    pub has_ended: bool,
    /// The session is closed when it is back, even if replies wait.
    pub is_killed: bool,
    /// The bytes of the letters that are kept for it.
    kept_bytes: usize,
}

impl LongScripts {
    /// Returns whether no session is detached.
    pub fn is_empty(&self) -> bool {
        self.detached.is_empty()
    }

    /// Enters the session of this connection and client, which runs a script, until it is returned.
    pub fn detach(&mut self, token: Token, id: u64) {
        self.detached.push(DetachedSession { token, id, has_ended: false, is_killed: false, kept_bytes: 0 });
    }

    /// Removes the session of a connection, which was returned; returns its state, if it was detached.
    pub fn attach(&mut self, token: Token) -> Option<DetachedSession> {
        let index = self.detached.iter().position(|detached| detached.token == token)?;
        Some(self.detached.remove(index))
    }

    /// Notes that a connection is to be closed when its session is back; returns whether the session is detached.
    #[inline]
    pub fn close_when_back(&mut self, token: Token) -> bool {
        let Some(detached) = self.detached.iter_mut().find(|detached| detached.token == token) else { return false };
        detached.is_killed = true;
        let id = detached.id;
        self.kept.retain(|(other, _)| *other != id);
        true
    }

    /// Notes that the client of a connection has ended its side; returns whether its session is detached.
    pub fn end_when_back(&mut self, token: Token) -> bool {
        let detached = self.detached.iter_mut().find(|detached| detached.token == token);
        detached.map(|detached| detached.has_ended = true).is_some()
    }

    /// Keeps a letter for the client of a detached session; returns any other letter. A published message, and the end of
    /// shard channels, are kept for subscribers. None of these clients is a monitor: no script runs for a client of MONITOR.
    pub fn keep(&mut self, letter: Letter, engine: &Engine) -> Option<Letter> {
        if let Some(id) = addressee(&letter)
            && let Some(index) = self.detached.iter().position(|detached| detached.id == id)
        {
            self.keep_for(index, letter, engine);
            return None;
        }
        for index in 0..self.detached.len() {
            let copy = match &letter {
                Letter::Message(message) if message.kind != Kind::Monitor => Letter::Message(Arc::clone(message)),
                Letter::ShardChannelsLeft(channels) => Letter::ShardChannelsLeft(Arc::clone(channels)),
                _ => break,
            };
            // The client's own properties say whether it is a subscriber, because subscriptions of this batch are not
            // registered here yet.
            if engine.clients.list.find(self.detached[index].id).is_some_and(|client| client.is_listening()) {
                self.keep_for(index, copy, engine);
            }
        }
        Some(letter)
    }

    /// Keeps a letter. If the bytes for its client exceed the output limit of subscribers, the client is closed instead, as
    /// it would be if its session were here.
    fn keep_for(&mut self, index: usize, letter: Letter, engine: &Engine) {
        let detached = &mut self.detached[index];
        if detached.is_killed {
            return;
        }
        detached.kept_bytes += match &letter {
            Letter::Message(message) => message.len(),
            Letter::Push { bytes, .. } => bytes.len(),
            Letter::Invalidate { keys, .. } => keys.as_ref().map_or(0, |keys| keys.len()),
            Letter::Redirected { keys, .. } => keys.len(),
            _ => 0,
        };
        let bytes_max = engine.config.output_limit(ClientClass::Pubsub).hard_bytes;
        if bytes_max != 0 && detached.kept_bytes as u64 > bytes_max {
            let (id, token) = (detached.id, detached.token);
            log::warning(&format!("Client id={id} is closed for overcoming of output buffer limits."));
            self.close_when_back(token);
        } else {
            self.kept.push_back((detached.id, letter));
        }
    }

    /// Takes the oldest letter that was kept for a client with a session that is back.
    pub fn take_letter(&mut self) -> Option<(u64, Letter)> {
        let Self { detached, kept } = self;
        let is_back = |id| detached.iter().all(|detached| detached.id != id);
        kept.remove(kept.iter().position(|&(id, _)| is_back(id))?)
    }
}

/// Returns the client of a letter that needs the client's session in its place.
fn addressee(letter: &Letter) -> Option<u64> {
    match letter {
        Letter::Unblock { id, .. }
        | Letter::Push { id, .. }
        | Letter::Invalidate { id, .. }
        | Letter::Redirected { id, .. }
        | Letter::FollowJournal(id)
        | Letter::ShareMemory { id, .. }
        | Letter::Feed(id)
        | Letter::SignOfLife(id) => Some(*id),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    use super::*;
    use crate::config::{Config, Opt};
    use crate::context::worker_handoff::{NoWorker, WorkerHandoff};
    use crate::execute::scratch::Scratch;
    use crate::host::clock::Instant;
    use crate::host::threads::refusal;
    use crate::messaging::mail::{Accepted, Mailbox};
    use crate::messaging::message::Message;
    use crate::net::{Driver, DriverKind};
    use crate::request::output::Output;
    use crate::worker::pool::Returned;
    use crate::worker::{Worker, WorkerPool};

    fn connected(worker: &mut Worker, scratch: &Scratch) -> UnixStream {
        let (near, far) = UnixStream::pair().expect("a pair of sockets");
        near.set_nonblocking(true).expect("it is open");
        let (address, local_address) = ("test:0".to_owned(), "test:0".to_owned());
        worker.connections.adopt(Accepted { socket: near.into(), address, local_address, is_tls: false }, scratch);
        far
    }

    /// Makes a worker with two clients, which this thread serves.
    fn lone() -> (Box<Worker>, Scratch, [UnixStream; 2]) {
        let engine = Engine::new(Config::default());
        let driver = Driver::new(DriverKind::Epoll).expect("a driver");
        let pool = WorkerPool::of(vec![Arc::new(Mailbox::new(|| ()))]);
        let mut worker = Box::new(Worker::new(&engine, pool, 0, driver));
        let scratch = Scratch::new(&engine, Instant::now());
        let peers = [(); 2].map(|()| connected(&mut worker, &scratch));
        (worker, scratch, peers)
    }

    /// Brings the first session of a worker back, with this output.
    fn bring_back(mut worker: Box<Worker>, output: &[u8], scratch: &mut Scratch) -> Box<Worker> {
        let session = worker.connections.sessions[0].take().expect("it was left behind in its place");
        let mut returned = Returned { token: 0, session, output: Output::default() };
        returned.output.bytes.extend_from_slice(output);
        worker.connections.home.bring_back(returned);
        worker.read_mail(scratch).expect("no script runs")
    }

    #[test]
    fn a_client_killed_during_its_script_is_closed_when_the_session_is_back() {
        let (mut worker, mut scratch, [mut peer, _other]) = lone();
        worker.connections.detach(0);
        worker.connections.close(0);
        let mut worker = bring_back(worker, &vec![b'x'; 8 << 20], &mut scratch);
        assert!(worker.connections.sessions[0].is_none(), "it waits for a peer that does not read");
        assert_eq!(peer.read(&mut [0; 8]).expect("an end"), 0);
        worker.connections.detach(1);
        assert!(
            worker.connections.long_scripts.end_when_back(1) && !worker.connections.long_scripts.detached[0].is_killed
        );
    }

    #[test]
    fn kept_letters_come_before_newer_ones() {
        let (mut worker, mut scratch, [mut peer, _other]) = lone();
        let id = worker.connections.sessions[0].as_ref().expect("it is there").state.client.id;
        let push = |text: &[u8]| Letter::Push { id, bytes: Arc::new(text.to_vec()) };
        // This is the state that another thread leaves when a letter for a different client has run a long script.
        worker.connections.long_scripts.kept.push_back((id, push(b"older ")));
        worker.connections.home.mailbox.post(push(b"newer"));
        let worker = worker.read_mail(&mut scratch).expect("no script runs");
        let mut bytes = [0; 11];
        peer.read_exact(&mut bytes).expect("both");
        assert_eq!(bytes, *b"older newer");
        drop(worker);
    }

    #[test]
    fn messages_are_kept_for_subscribers_up_to_their_output_limit() {
        let (mut worker, mut scratch, _peers) = lone();
        let message = |kind| {
            let channel = (kind, Arc::from(b"c".as_slice()));
            Letter::Message(Arc::new(Message::new(channel, Vec::new(), &[b'x'; 1_000], (1, None))))
        };
        let keep = |worker: &mut Worker, kind| worker.connections.long_scripts.keep(message(kind), &worker.engine);
        worker.connections.detach(0);
        assert!(keep(&mut worker, Kind::Channel).is_some() && worker.connections.long_scripts.kept.is_empty());
        let mut session = worker.connections.sessions[0].take().expect("it is there");
        session.receive(b"SUBSCRIBE c\r\n", &mut scratch, &mut NoWorker);
        scratch.output.clear();
        worker.connections.sessions[0] = Some(session);
        keep(&mut worker, Kind::Monitor);
        assert!(worker.connections.long_scripts.kept.is_empty());
        let limit = b"pubsub 10000 0 0".as_slice();
        worker.engine.config.assign(Opt::ClientOutputBufferLimit, &[limit]).expect("a limit");
        keep(&mut worker, Kind::Channel);
        assert_eq!(worker.connections.long_scripts.kept.len(), 1);
        (0..20).for_each(|_| drop(keep(&mut worker, Kind::Channel)));
        assert!(
            worker.connections.long_scripts.kept.is_empty() && worker.connections.long_scripts.detached[0].is_killed
        );
    }

    #[test]
    fn the_worker_stays_without_another_thread_and_goes_with_one() {
        let engine = Engine::new(Config::default());
        let driver = Driver::new(DriverKind::Epoll).expect("a driver");
        let waker = driver.waker();
        let pool = WorkerPool::of(vec![Arc::new(Mailbox::new(move || waker.wake()))]);
        let mut worker = Box::new(Worker::new(&engine, Arc::clone(&pool), 0, driver));
        let mut scratch = Scratch::new(&engine, Instant::now());
        let [mut one, mut other] = [(); 2].map(|()| connected(&mut worker, &scratch));
        let refused = |others: &mut dyn WorkerHandoff| refusal::after(0, || others.hand_over());
        let stayed = worker.with_session(0, &mut scratch, |_, _, others| refused(others));
        let worker = stayed.expect("there is no other thread");
        assert!(worker.connections.long_scripts.detached.is_empty() && worker.connections.sessions[0].is_some());
        let mut reply = [0; 7];
        let gone = worker.with_session(0, &mut scratch, |session, scratch, others| {
            (0..2).for_each(|_| others.hand_over());
            other.write_all(b"PING\r\n").expect("connected");
            other.read_exact(&mut reply).expect("another thread serves");
            one.write_all(b"PING\r\n").expect("connected");
            session.receive(b"ECHO here\r\n", scratch, others);
        });
        assert!(gone.is_none() && reply == *b"+PONG\r\n");
        let mut replies = [0; 17];
        one.read_exact(&mut replies).expect("the session is back");
        assert_eq!(replies, *b"$4\r\nhere\r\n+PONG\r\n");
        engine.post_stop();
        pool.wait();
        assert_eq!((one.read(&mut reply).expect("an end"), engine.clients.mailbox_count()), (0, 0));
    }
}
