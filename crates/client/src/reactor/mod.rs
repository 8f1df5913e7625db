//! One thread for all connections of a process: it sleeps until something happens to one of them, and gives that one a turn.
//!
//! What has a turn is a task: the life of a connection, of a subscription, of a question. It is written as one straight
//! function, a future, and goes as far as it can without waiting; then it says what it waits for (`post`): something on its
//! sockets, its bell, a time. A task knows nothing of the others and must never block, because all of them stand still
//! meanwhile. One that panics harms nobody else: whoever started it is told.
//!
//! The thread starts with the first task and ends with the last. Whoever is not on it reaches a task by its [`Bell`]; a turn
//! that is given for no reason does no harm, so bells are rung freely. How the system is asked what has happened differs
//! (epoll, and poll on other systems than Linux); the twins are chosen in `poller`. A forked child has a reactor of its own.

mod bell;
mod poller;
pub(crate) mod post;
mod rounds;
pub(crate) mod state;
#[cfg(test)]
pub(crate) mod tests;
mod timers;
pub(crate) mod watcher;

use std::io;
use std::rc::Rc;
use std::thread;

pub(crate) use bell::Bell;
use bell::{Arrival, Begin};
use post::Post;
use state::State;

/// Whether the system reports once what has come, and not for as long as it was not read: then somebody else may read it.
pub(crate) const REPORTS_ONCE: bool = poller::REPORTS_ONCE;

/// Starts the task of this bell, and the thread if there is none. `collapsed` is told why it has panicked, should it panic.
pub(crate) fn start<F: Future<Output = ()> + 'static>(
    bell: Bell,
    task: impl FnOnce(Post) -> F + Send + 'static,
    collapsed: impl FnOnce(&str) + Send + 'static,
) -> io::Result<()> {
    let begin: Begin = Box::new(move |state: Rc<State>| Box::pin(task(Post { bell, state })));
    let (reactor, number) = (bell.reactor, bell.number);
    let mut mail = reactor.mail.lock();
    if !mail.is_read {
        thread::Builder::new().name("sleeve-io".to_owned()).spawn(move || rounds::run(reactor))?;
        mail.is_read = true;
    }
    mail.arrivals.push(Arrival { number, begin, collapsed: Box::new(collapsed) });
    drop(mail);
    reactor.wake();
    Ok(())
}
