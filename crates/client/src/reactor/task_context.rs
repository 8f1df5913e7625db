//! A task's own view of the reactor: the events that it waits for, and those since its last turn.
//!
//! On the reactor's thread alone. An event of a socket counts for the whole task. In each turn the task therefore tries each
//! of its sockets itself, and it does so before it waits for the first time: bytes may have arrived before the socket was
//! watched.

use std::cell::Cell;
use std::future::poll_fn;
use std::io;
use std::os::fd::AsFd;
use std::rc::Rc;
use std::task::Poll;
use std::time::Instant;

use super::state::{Readiness, TaskCells};
use super::waker::TaskWaker;

use crate::sys::now;

/// The context of a task, by which the task waits, and other threads wake it.
pub(crate) struct TaskContext {
    pub(super) task_waker: TaskWaker,
    pub(super) state: Rc<TaskCells>,
}

impl TaskContext {
    /// Returns a waker that gives this task a turn, from any thread.
    pub(crate) fn task_waker(&self) -> TaskWaker {
        self.task_waker
    }

    /// Waits until an event of this task arrives, or until this time. If the time has passed already, the other tasks have
    /// their turns first.
    pub(crate) async fn wait(&self, until: Option<Instant>) -> Readiness {
        let mut has_waited = false;
        poll_fn(|_| {
            let ready = self.state.ready.take();
            let is_over = until.is_some_and(|until| until <= now());
            if ready.is_any() || (is_over && has_waited) {
                self.state.until.set(None);
                return Poll::Ready(ready);
            }
            has_waited = true;
            self.state.passes.set(is_over);
            self.state.until.set(until.filter(|_| !is_over));
            Poll::Pending
        })
        .await
    }

    /// Lets the other tasks have their turns.
    pub(crate) async fn yield_now(&self) {
        let mut has_passed = false;
        poll_fn(|_| {
            if has_passed {
                return Poll::Ready(());
            }
            has_passed = true;
            self.state.passes.set(true);
            Poll::Pending
        })
        .await;
    }

    /// Watches this stream: its events count as events of this task. It stays armed until it is disarmed.
    pub(crate) fn watch<S: AsFd>(&self, stream: S) -> io::Result<WatchedStream<S>> {
        self.task_waker.reactor.poller.add(&stream, self.task_waker.number)?;
        Ok(WatchedStream { task_waker: self.task_waker, stream, is_armed: Cell::new(true) })
    }
}

/// A stream that is watched for a task until this value is dropped.
pub(crate) struct WatchedStream<S: AsFd> {
    task_waker: TaskWaker,
    stream: S,
    is_armed: Cell<bool>,
}

impl<S: AsFd> WatchedStream<S> {
    /// Returns the stream.
    pub(crate) fn stream(&self) -> &S {
        &self.stream
    }

    /// Asks for reports of arriving bytes, and of room for writing if `writes`. The task calls it before every wait.
    pub(crate) fn arm(&self, writes: bool) -> io::Result<()> {
        let was_armed = self.is_armed.replace(true);
        self.task_waker.reactor.poller.arm(&self.stream, self.task_waker.number, was_armed, writes)
    }

    /// Stops all reports except that of the stream's end, because another thread reads.
    pub(crate) fn disarm(&self) -> io::Result<()> {
        if self.is_armed.replace(false) {
            self.task_waker.reactor.poller.disarm(&self.stream, self.task_waker.number)?;
        }
        Ok(())
    }
}

impl<S: AsFd> Drop for WatchedStream<S> {
    fn drop(&mut self) {
        self.task_waker.reactor.poller.remove(&self.stream);
    }
}
