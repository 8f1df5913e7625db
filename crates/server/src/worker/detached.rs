//! Clients with sessions that another thread still runs, because it has run a script for long and handed the worker over.
//!
//! While a session is away, nothing is received from its client, and letters for it are kept: the client loses none of its
//! bytes, and gets them in order. When its session is back, the client goes on as all others do.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::Worker;
use super::worker_pool::{DetachedSession, Returned};
use crate::config::ClientClass;
use crate::execute::scratch::Scratch;
use crate::host::log;
use crate::messaging::mail::Letter;
use crate::messaging::message::Kind;
use crate::net::Token;

impl Worker {
    /// Strikes out the session of this connection, which is being run, until it is back.
    pub(super) fn leave_behind(&mut self, token: Token) {
        let id = self.tokens.iter().find(|(_, other)| **other == token).map_or(0, |(id, _)| *id);
        self.detached.push(DetachedSession { token, id, has_ended: false, is_killed: false, kept_bytes: 0 });
        self.driver.hold(token, true);
    }

    /// Moves this worker to another thread, or gives it back.
    pub(super) fn change_thread(mut self: Box<Self>) -> Result<(), (Box<Self>, io::Error)> {
        match self.driver.change_thread() {
            Ok(()) => self.start(),
            Err(error) => Err((self, error)),
        }
    }

    /// Takes the session in again, as no thread can serve in the place of the one that runs it.
    pub(super) fn stay_with(&mut self, token: Token) {
        self.detached.retain(|away| away.token != token);
        self.driver.hold(token, false);
    }

    /// Remembers that a connection is to be closed, if its session is away; whether it is.
    pub(super) fn close_when_back(&mut self, token: Token) -> bool {
        let Some(away) = self.detached.iter_mut().find(|away| away.token == token) else { return false };
        away.is_killed = true;
        let id = away.id;
        self.kept.retain(|(other, _)| *other != id);
        true
    }

    /// Remembers that the peer of a connection says nothing more, if its session is away; whether it is.
    pub(super) fn end_when_back(&mut self, token: Token) -> bool {
        let away = self.detached.iter_mut().find(|away| away.token == token);
        away.map(|away| away.has_ended = true).is_some()
    }

    /// Keeps a letter for a client with a session that is away; gives any other back. A message is kept for subscribers. None
    /// of them is a MONITOR: no script runs for a client that is shown the commands of others.
    pub(super) fn keep_for_away(&mut self, letter: Letter) -> Option<Letter> {
        if let Some(id) = addressee(&letter)
            && let Some(index) = self.detached.iter().position(|away| away.id == id)
        {
            self.keep(index, letter);
            return None;
        }
        if let Letter::Message(message) = &letter
            && message.kind != Kind::Monitor
        {
            for index in 0..self.detached.len() {
                // The client itself says whether it is a subscriber: subscriptions of this batch are not known here yet.
                if self.engine.clients.list.find(self.detached[index].id).is_some_and(|client| client.is_listening()) {
                    self.keep(index, Letter::Message(Arc::clone(message)));
                }
            }
        }
        Some(letter)
    }

    /// Keeps a letter, unless the bytes for its client exceed the output limit of subscribers: the client is closed then, as
    /// if its session were here.
    fn keep(&mut self, index: usize, letter: Letter) {
        let away = &mut self.detached[index];
        if away.is_killed {
            return;
        }
        away.kept_bytes += match &letter {
            Letter::Message(message) => message.len(),
            Letter::Push { bytes, .. } => bytes.len(),
            Letter::Invalidate { keys, .. } => keys.as_ref().map_or(0, |keys| keys.len()),
            Letter::Redirected { keys, .. } => keys.len(),
            _ => 0,
        };
        let bytes_max = self.engine.config.output_limit(ClientClass::Pubsub).hard_bytes;
        if bytes_max != 0 && away.kept_bytes as u64 > bytes_max {
            let (id, token) = (away.id, away.token);
            log::warning(&format!("Client id={id} is closed for overcoming of output buffer limits."));
            self.close_when_back(token);
        } else {
            self.kept.push_back((away.id, letter));
        }
    }

    /// Takes in the sessions that are back, with the letters that were kept for them.
    pub(super) fn take_back_all(mut self: Box<Self>, scratch: &mut Scratch) -> Option<Box<Self>> {
        while let Some(returned) = self.home.take_returned() {
            self.take_back(returned, scratch);
        }
        self.open_kept(scratch)
    }

    /// Opens the letters that were kept for clients that are back, before anything newer. If such a letter runs a script for
    /// long, the thread that takes the worker over goes on with the rest.
    pub(super) fn open_kept(mut self: Box<Self>, scratch: &mut Scratch) -> Option<Box<Self>> {
        let is_here = |worker: &Self, id| worker.detached.iter().all(|away| away.id != id);
        while let Some(index) = self.kept.iter().position(|&(id, _)| is_here(&self, id)) {
            let Some((id, letter)) = self.kept.remove(index) else { break };
            match letter {
                Letter::Message(message) => self.hear(&message, Some(id), scratch),
                letter => self = self.open(letter, scratch)?,
            }
        }
        Some(self)
    }

    /// Returns whether another thread runs a session of this worker, which stops. The scripts of such sessions see that and
    /// end; if the engine has failed, sessions that are away may never come back.
    pub(super) fn waits_for_away(&self) -> bool {
        !self.detached.is_empty() && self.engine.failure().is_none()
    }

    fn take_back(&mut self, returned: Returned, scratch: &mut Scratch) {
        let Returned { token, mut session, output } = returned;
        let Some(index) = self.detached.iter().position(|away| away.token == token) else { return };
        let away = self.detached.remove(index);
        let has_ended = self.channels.get(token).is_some_and(|channel| channel.has_ended());
        session.state.closing |= away.has_ended || has_ended || !session.may_listen();
        // It has been busy until now, and not silent.
        session.state.client.activity.active_ms.store(scratch.now.wall_ms(), Ordering::Relaxed);
        if away.is_killed {
            self.sessions[token] = Some(session);
            return self.close(token);
        }
        let is_held = session.is_held();
        self.sessions[token] = Some(session);
        self.driver.hold(token, is_held);
        let unused = std::mem::replace(&mut scratch.output, output);
        self.close_if_cut(token, scratch);
        self.send(token, scratch);
        scratch.output = unused;
    }
}

/// Returns the client that a letter is for, if its session has to be in its place for it.
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
    use crate::context::others::{Nobody, Others};
    use crate::engine::Engine;
    use crate::host::clock::Instant;
    use crate::host::threads::refusal;
    use crate::messaging::mail::{Accepted, Mailbox};
    use crate::messaging::message::Message;
    use crate::net::{Driver, DriverKind};
    use crate::request::output::Output;
    use crate::worker::WorkerPool;

    fn connected(worker: &mut Worker, scratch: &Scratch) -> UnixStream {
        let (near, far) = UnixStream::pair().expect("a pair of sockets");
        near.set_nonblocking(true).expect("it is open");
        let (address, local_address) = ("test:0".to_owned(), "test:0".to_owned());
        worker.adopt(Accepted { socket: near.into(), address, local_address, is_tls: false }, scratch);
        far
    }

    /// Creates a worker with two clients, in the hands of this thread.
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
        let session = worker.sessions[0].take().expect("it was left behind in its place");
        let mut returned = Returned { token: 0, session, output: Output::default() };
        returned.output.bytes.extend_from_slice(output);
        worker.home.bring_back(returned);
        worker.read_mail(scratch).expect("no script runs")
    }

    #[test]
    fn who_was_killed_meanwhile_is_closed_however_much_it_is_owed_and_who_has_said_all_gets_its_replies() {
        let (mut worker, mut scratch, [mut peer, _other]) = lone();
        worker.leave_behind(0);
        worker.close(0);
        let mut worker = bring_back(worker, &vec![b'x'; 8 << 20], &mut scratch);
        assert!(worker.sessions[0].is_none(), "it waits for a peer that does not read");
        assert_eq!(peer.read(&mut [0; 8]).expect("an end"), 0);
        worker.leave_behind(1);
        assert!(worker.end_when_back(1) && !worker.detached[0].is_killed);
    }

    #[test]
    fn what_was_kept_comes_before_what_is_newer() {
        let (mut worker, mut scratch, [mut peer, _other]) = lone();
        let id = worker.sessions[0].as_ref().expect("it is there").state.client.id;
        let push = |text: &[u8]| Letter::Push { id, bytes: Arc::new(text.to_vec()) };
        // So another thread has left it, when a letter for another client ran a script for long.
        worker.kept.push_back((id, push(b"older ")));
        worker.home.mailbox.post(push(b"newer"));
        let worker = worker.read_mail(&mut scratch).expect("no script runs");
        let mut bytes = [0; 11];
        peer.read_exact(&mut bytes).expect("both");
        assert_eq!(bytes, *b"older newer");
        drop(worker);
    }

    #[test]
    fn messages_are_kept_for_who_listens_and_no_more_of_them_than_an_output_may_have() {
        let (mut worker, mut scratch, _peers) = lone();
        let message = |kind| {
            let channel = (kind, Arc::from(b"c".as_slice()));
            Letter::Message(Arc::new(Message::new(channel, Vec::new(), &[b'x'; 1_000], (1, None))))
        };
        worker.leave_behind(0);
        assert!(worker.keep_for_away(message(Kind::Channel)).is_some() && worker.kept.is_empty());
        let mut session = worker.sessions[0].take().expect("it is there");
        session.receive(b"SUBSCRIBE c\r\n", &mut scratch, &mut Nobody);
        scratch.output.clear();
        worker.sessions[0] = Some(session);
        worker.keep_for_away(message(Kind::Monitor));
        assert!(worker.kept.is_empty());
        let limit = b"pubsub 10000 0 0".as_slice();
        worker.engine.config.assign(Opt::ClientOutputBufferLimit, &[limit]).expect("a limit");
        worker.keep_for_away(message(Kind::Channel));
        assert_eq!(worker.kept.len(), 1);
        (0..20).for_each(|_| drop(worker.keep_for_away(message(Kind::Channel))));
        assert!(worker.kept.is_empty() && worker.detached[0].is_killed);
    }

    #[test]
    fn where_no_thread_can_be_had_the_worker_stays_and_goes_when_there_is_one() {
        let engine = Engine::new(Config::default());
        let driver = Driver::new(DriverKind::Epoll).expect("a driver");
        let waker = driver.waker();
        let pool = WorkerPool::of(vec![Arc::new(Mailbox::new(move || waker.wake()))]);
        let mut worker = Box::new(Worker::new(&engine, Arc::clone(&pool), 0, driver));
        let mut scratch = Scratch::new(&engine, Instant::now());
        let [mut one, mut other] = [(); 2].map(|()| connected(&mut worker, &scratch));
        let refused = |others: &mut dyn Others| refusal::after(0, || others.hand_over());
        let stayed = worker.with_session(0, &mut scratch, |_, _, others| refused(others));
        let worker = stayed.expect("there is no other thread");
        assert!(worker.detached.is_empty() && worker.sessions[0].is_some());
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
