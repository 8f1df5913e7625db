//! Clients whose sessions another thread still runs, because it has run a script for long and handed the worker over.
//!
//! Nothing is received from such a client meanwhile, and letters for it are kept: nothing that a client is owed is lost, and
//! it gets it in its order. When its session is back, the client goes on as all others do.

use std::sync::Arc;

use super::Worker;
use super::team::{Away, Returned};
use crate::driver::Token;
use crate::execute::scratch::Desk;
use crate::messaging::mail::Letter;

impl Worker {
    /// Strikes out the session of this connection, which is being run, until it is back.
    pub(super) fn leave_behind(&mut self, token: Token) {
        let id = self.tokens.iter().find(|(_, other)| **other == token).map_or(0, |(id, _)| *id);
        self.away.push(Away { token, id, is_doomed: false });
        self.driver.hold(token, true);
    }

    /// Takes it in again, as nobody can serve in the place of the thread that runs it.
    pub(super) fn stay_with(&mut self, token: Token) {
        self.away.retain(|away| away.token != token);
        self.driver.hold(token, false);
    }

    /// Remembers that a connection is to be closed, if its session is away; whether it is.
    pub(super) fn close_when_back(&mut self, token: Token) -> bool {
        let away = self.away.iter_mut().find(|away| away.token == token);
        away.map(|away| away.is_doomed = true).is_some()
    }

    /// Keeps a letter for a client whose session is away; gives any other back. What is for everybody is kept for them too.
    pub(super) fn keep_for_away(&mut self, letter: Letter) -> Option<Letter> {
        if let Some(id) = addressee(&letter)
            && self.away.iter().any(|away| away.id == id)
        {
            self.kept.push_back((id, letter));
            return None;
        }
        if let Letter::Message(message) = &letter {
            self.kept.extend(self.away.iter().map(|away| (away.id, Letter::Message(Arc::clone(message)))));
        }
        Some(letter)
    }

    /// Takes in the sessions that are back, with what was kept for them.
    pub(super) fn take_back_all(mut self: Box<Self>, desk: &mut Desk) -> Option<Box<Self>> {
        while let Some(returned) = self.home.take_returned() {
            self.take_back(returned, desk);
        }
        let is_here = |worker: &Self, id| worker.away.iter().all(|away| away.id != id);
        while let Some(index) = self.kept.iter().position(|&(id, _)| is_here(&self, id)) {
            let Some((id, letter)) = self.kept.remove(index) else { break };
            match letter {
                Letter::Message(message) => self.hear(&message, Some(id), desk),
                letter => self = self.open(letter, desk)?,
            }
        }
        Some(self)
    }

    /// Whether somebody runs a session of this worker, which stops. Their scripts see that and end; where the engine has failed,
    /// what is away may never come back.
    pub(super) fn waits_for_away(&self) -> bool {
        !self.away.is_empty() && self.engine.failure().is_none()
    }

    fn take_back(&mut self, returned: Returned, desk: &mut Desk) {
        let Returned { token, mut session, output } = returned;
        let is_doomed = self.away.iter().any(|away| away.token == token && away.is_doomed);
        self.away.retain(|away| away.token != token);
        let has_ended = self.channels.get(token).is_some_and(|channel| channel.has_ended());
        session.state.closing |= is_doomed || has_ended || !session.may_listen();
        let is_held = session.is_held();
        self.sessions[token] = Some(session);
        self.driver.hold(token, is_held);
        let unused = std::mem::replace(&mut desk.output, output);
        self.close_if_cut(token, desk);
        self.send(token, desk);
        desk.output = unused;
    }
}

/// The client that a letter is for, if its session has to be in its place for it.
fn addressee(letter: &Letter) -> Option<u64> {
    match letter {
        Letter::Unblock { id, .. }
        | Letter::Push { id, .. }
        | Letter::Invalidate { id, .. }
        | Letter::Redirected { id, .. }
        | Letter::FollowJournal(id) => Some(*id),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    use super::*;
    use crate::config::Config;
    use crate::context::others::Others;
    use crate::driver::Driver;
    use crate::engine::Engine;
    use crate::host::clock::Instant;
    use crate::host::threads::refusal;
    use crate::messaging::mail::{Accepted, Mailbox};
    use crate::worker::Team;

    fn connected(worker: &mut Worker, desk: &Desk) -> UnixStream {
        let (near, far) = UnixStream::pair().expect("a pair of sockets");
        near.set_nonblocking(true).expect("it is open");
        let (address, local_address) = ("test:0".to_owned(), "test:0".to_owned());
        worker.adopt(Accepted { socket: near.into(), address, local_address, is_tls: false }, desk);
        far
    }

    #[test]
    fn where_no_thread_can_be_had_the_worker_stays_and_goes_when_there_is_one() {
        let engine = Engine::new(Config::default());
        let driver = Driver::new().expect("a driver");
        let waker = driver.waker();
        let team = Team::new(vec![Arc::new(Mailbox::new(move || waker.wake()))]);
        let mut worker = Box::new(Worker::new(&engine, Arc::clone(&team), 0, driver));
        let mut desk = Desk::new(&engine, Instant::now());
        let [mut one, mut other] = [(); 2].map(|()| connected(&mut worker, &desk));
        let refused = |others: &mut dyn Others| refusal::after(0, || others.hand_over());
        let stayed = worker.with_session(0, &mut desk, |_, _, others| refused(others));
        let worker = stayed.expect("there is no other thread");
        assert!(worker.away.is_empty() && worker.sessions[0].is_some());
        let mut reply = [0; 7];
        let gone = worker.with_session(0, &mut desk, |session, desk, others| {
            (0..2).for_each(|_| others.hand_over());
            other.write_all(b"PING\r\n").expect("connected");
            other.read_exact(&mut reply).expect("another thread serves");
            one.write_all(b"PING\r\n").expect("connected");
            session.receive(b"ECHO here\r\n", desk, others);
        });
        assert!(gone.is_none() && reply == *b"+PONG\r\n");
        let mut replies = [0; 17];
        one.read_exact(&mut replies).expect("the session is back");
        assert_eq!(replies, *b"$4\r\nhere\r\n+PONG\r\n");
        engine.post_stop();
        team.wait();
        assert_eq!((one.read(&mut reply).expect("an end"), engine.mailbox_count()), (0, 0));
    }
}
