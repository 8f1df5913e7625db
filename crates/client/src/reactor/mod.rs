//! One thread for all connections of a process: it sleeps until there is an event for one of them, and gives that one a turn.
//!
//! A task is the life of a connection, of a subscription or of a question to a server. It is written as one straight
//! function, a future. In its turn it runs as far as it can without waiting; then it names the events that it waits for
//! (`task_context`): readiness of its sockets, its waker, a time. A task knows nothing of the others and must never block,
//! because all other tasks would stand still in that time. A task that panics harms no other: its owner gets the message of
//! the panic.
//!
//! The thread starts with the first task and ends with the last. Other threads reach a task by its [`TaskWaker`]; a turn
//! without a reason does no harm, so wakers are called freely. Systems differ in how they report events (epoll, and poll on
//! other systems than Linux); `poller` chooses the twin. A forked child has a reactor of its own.

mod event_loop;
pub(crate) mod lifetime;
mod poller;
pub(crate) mod state;
#[cfg(test)]
pub(crate) mod stepped;
pub(crate) mod task_context;
#[cfg(test)]
pub(crate) mod tests;
mod timers;
mod waker;
pub(crate) mod watcher;

use std::io;
use std::rc::Rc;
use std::thread;

use state::TaskCells;
use task_context::TaskContext;
pub(crate) use waker::TaskWaker;
use waker::{Begin, NewTask, Reactor};

/// True if the system reports arrived bytes once, and not for as long as they are unread. Then another thread may read them.
pub(crate) const REPORTS_ONCE: bool = poller::REPORTS_ONCE;

/// Starts the task of this waker, and the thread if there is none. If the task panics, `on_panic` is called with the message.
pub(crate) fn start<F: Future<Output = ()> + 'static>(
    task_waker: TaskWaker,
    task: impl FnOnce(TaskContext) -> F + Send + 'static,
    on_panic: impl FnOnce(&str) + Send + 'static,
) -> io::Result<()> {
    let begin: Begin = Box::new(move |state: Rc<TaskCells>| Box::pin(task(TaskContext { task_waker, state })));
    let (reactor, number) = (task_waker.reactor, task_waker.number);
    let mut submissions = reactor.submissions.lock();
    if !submissions.is_read {
        start_thread(reactor)?;
        submissions.is_read = true;
    }
    submissions.new_tasks.push(NewTask { number, begin, on_panic: Box::new(on_panic) });
    drop(submissions);
    reactor.wake();
    Ok(())
}

/// Starts the reactor's thread. A reactor that a simulation steps needs none.
fn start_thread(reactor: &'static Reactor) -> io::Result<()> {
    #[cfg(test)]
    if stepped::steps(reactor) {
        return Ok(());
    }
    thread::Builder::new().name("sleeve-io".to_owned()).spawn(move || event_loop::run(reactor)).map(drop)
}
