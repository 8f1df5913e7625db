//! Whether a server that is silent on one connection answers on another.
//!
//! A server may be silent for good reasons: a long script, a fork, a command that waits. One that answers whoever comes anew
//! is there, whatever it answers. The question is asked by a thread that lives as long as the question, at most one at a time
//! for all connections of a client, and what any of them hears serves all.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::config::Config;
use crate::connect::attempt::Attempt;
use crate::connect::dial::dial;
use crate::connect::socket::Bell;

/// Between two tries at a server that refuses.
const PAUSE: Duration = Duration::from_millis(100);

/// What the connections of one client know of their server.
#[derive(Default)]
pub(crate) struct Vitals {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// When somebody last heard from the server.
    heard: Option<Instant>,
    /// When the question was asked that had no answer last.
    unanswered: Option<Instant>,
    asking: bool,
}

/// What is known of a server.
pub(crate) enum Knowledge {
    /// It was heard at this time.
    Heard(Instant),
    /// It did not answer a question that was asked after the silence had begun.
    Gone,
    /// Somebody is asking.
    Asking,
    /// Nobody has asked.
    None,
}

impl Vitals {
    /// The server has said something.
    pub(crate) fn hear(&self, at: Instant) {
        let mut state = self.state.lock();
        state.heard = state.heard.max(Some(at));
    }

    /// What is known about the time after `since`.
    pub(crate) fn known(&self, since: Instant) -> Knowledge {
        let state = self.state.lock();
        match (state.heard, state.unanswered) {
            (Some(heard), _) if heard > since => Knowledge::Heard(heard),
            (_, Some(asked)) if asked > since => Knowledge::Gone,
            _ if state.asking => Knowledge::Asking,
            _ => Knowledge::None,
        }
    }

    /// Has a thread ask until the deadline.
    pub(crate) fn ask(self: &Arc<Self>, config: &Config, deadline: Instant) {
        self.state.lock().asking = true;
        let (vitals, config) = (self.clone(), config.clone());
        let asked = Instant::now();
        let ask = move || {
            let answered = asks(&config, deadline);
            let mut state = vitals.state.lock();
            state.asking = false;
            if answered { state.heard = Some(Instant::now()) } else { state.unanswered = Some(asked) }
        };
        if thread::Builder::new().name("sleeve-probe".to_owned()).spawn(ask).is_err() {
            // Without a thread nobody is accused.
            self.state.lock().asking = false;
        }
    }
}

/// Whether the server says anything on a connection of its own before the deadline.
fn asks(config: &Config, deadline: Instant) -> bool {
    let mut tick = || Some(PAUSE);
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return false;
        }
        let mut attempt = Attempt::new(left, &mut tick);
        match ask_once(config, &mut attempt) {
            Ok(0) => {}
            Ok(_) => return true,
            // Whoever speaks TLS wrongly is there.
            Err(error) if error.kind() == std::io::ErrorKind::InvalidData => return true,
            Err(_) => {}
        }
        thread::sleep(PAUSE.min(attempt.left()));
    }
}

/// Connects, asks, and says how many bytes came.
fn ask_once(config: &Config, attempt: &mut Attempt<'_>) -> std::io::Result<usize> {
    let bell = Bell::new()?;
    let socket = dial(config, &bell, attempt)?;
    // An ECHO of nothing is refused, and a refusal is an answer: a server gives it before it asks for a password, and while
    // CLIENT PAUSE holds up everything that can be executed. So few bytes always find room on a fresh connection.
    socket.send(b"*1\r\n$4\r\nECHO\r\n")?;
    loop {
        socket.wait(None, false, Some(attempt.slice()?))?;
        match socket.receive(&mut [0; 64]) {
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            outcome => return outcome,
        }
    }
}
