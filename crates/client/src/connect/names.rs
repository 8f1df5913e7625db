//! Looking names up, with whatever the system knows of them.
//!
//! The system's look-up blocks, and nothing bounds it. So it has threads of its own, one for each name that is asked for at
//! the moment and no more than a few, which end when nobody asks. Who asks for a name that is being looked up hears the same
//! answer; who does not want to wait any longer leaves. Any thread may ask.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread;

use parking_lot::Mutex;

use crate::process::fork::PerProcess;
use crate::reactor::Bell;

/// Names that are looked up at the same time at most: one whose servers do not answer takes half a minute.
const THREADS_MAX: usize = 4;

/// What the system says of a name: its addresses, or in words why there are none.
type Found = Result<Vec<SocketAddr>, (io::ErrorKind, String)>;

/// An answer that comes when the bell has rung.
#[derive(Clone)]
pub(crate) struct Answer {
    found: Arc<Mutex<Option<Found>>>,
    bell: Bell,
}

impl Answer {
    /// The addresses, each with this port, once they are known.
    pub(crate) fn take(&self, port: u16) -> Option<io::Result<Vec<SocketAddr>>> {
        let found = self.found.lock().take()?;
        Some(match found {
            Ok(mut addresses) => {
                addresses.iter_mut().for_each(|address| address.set_port(port));
                Ok(addresses)
            }
            Err((kind, why)) => Err(io::Error::new(kind, why)),
        })
    }
}

/// Who asks for which name.
#[derive(Default)]
struct Questions {
    asked: HashMap<String, Vec<Answer>>,
    /// Names that no thread has taken yet.
    waiting: VecDeque<String>,
    threads: usize,
}

static QUESTIONS: PerProcess<Mutex<Questions>> = PerProcess::new(Mutex::default);

/// Begins to look a name up.
pub(crate) fn look_up(host: &str, bell: Bell) -> io::Result<Answer> {
    let answer = Answer { found: Arc::default(), bell };
    let mut questions = QUESTIONS.get().lock();
    if let Some(askers) = questions.asked.get_mut(host) {
        askers.push(answer.clone());
        return Ok(answer);
    }
    if questions.threads < THREADS_MAX {
        match thread::Builder::new().name("sleeve-names".to_owned()).spawn(answer_all) {
            Ok(_) => questions.threads += 1,
            // Another thread takes this name when it has its own.
            Err(_) if questions.threads > 0 => {}
            Err(error) => return Err(error),
        }
    }
    questions.asked.insert(host.to_owned(), vec![answer.clone()]);
    questions.waiting.push_back(host.to_owned());
    Ok(answer)
}

/// Looks names up until no more are asked for.
fn answer_all() {
    let questions = QUESTIONS.get();
    loop {
        let mut asked = questions.lock();
        let Some(host) = asked.waiting.pop_front() else {
            asked.threads -= 1;
            return;
        };
        drop(asked);
        let found = catch_unwind(AssertUnwindSafe(|| find(&host)));
        let found = found.unwrap_or_else(|_| Err((io::ErrorKind::Other, format!("{host} was not looked up"))));
        for answer in questions.lock().asked.remove(&host).unwrap_or_default() {
            *answer.found.lock() = Some(found.clone());
            answer.bell.ring();
        }
    }
}

fn find(host: &str) -> Found {
    let addresses = (host, 0).to_socket_addrs();
    addresses.map(Iterator::collect).map_err(|error| (error.kind(), format!("{host} is not found: {error}")))
}
