//! The driver `tokio`, on tokio: every read and every write is an operation that a task awaits.
//!
//! A worker has its own runtime, which runs only while the worker waits: in the worker's thread, with a task for each
//! connection ([`TokioConnection`]), for each listener (`acceptor`) and for the waker. A task that has received bytes adds an
//! event to the [`Inbox`], and receives no more from its connection before the worker has taken it. The wait ends with the
//! first such event, after all other tasks that can go on have had a turn. Bytes that the worker sends are kept in the
//! connection, and the next wait wakes its task. Sending long outputs is tried at once, as an awaited write also tries before
//! it waits.
//!
//! No code here is specific to Linux: tokio uses epoll, kqueue or any other interface that the system has. The driver may
//! move from thread to thread.

mod acceptor;
mod connection;
mod inbox;

use std::io;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::sync::Notify;
use tokio::time::{Instant, Sleep, sleep_until};

use super::event::{Event, Sending, Token, Waker};
use super::listeners::listener::Listener;
use crate::request::output::Output;
use acceptor::AcceptTasks;
use connection::{Carrying, TokioConnection};
use inbox::{Inbox, News};

#[cfg(test)]
pub use inbox::BYTES_MAX;

/// The longest wait; a longer one ends early without an event.
const WAIT_MAX_MS: u64 = 24 * 60 * 60 * 1_000;

/// A runtime with the connections that it carries. One thread at a time; its [`Waker`] may be used from any.
#[derive(Debug)]
pub struct Tokio {
    runtime: Background,
    inbox: Arc<Inbox>,
    wake: Arc<Notify>,
    /// The timer that ends a wait at its timeout, or earlier.
    alarm: Pin<Box<Sleep>>,
    accept_tasks: AcceptTasks,
    connections: Vec<Option<Arc<TokioConnection>>>,
    free: Vec<Token>,
    /// The connections that were closed in this wake-up: there may still be events for them.
    closed: Vec<Token>,
    /// The connections with tasks that the next wait wakes.
    noted: Vec<Arc<TokioConnection>>,
    /// The connections for which bytes were queued that have not been sent.
    queued: Vec<Token>,
    /// The number of events that belong to this wake-up; later ones are for the next.
    events_left: usize,
}

/// A runtime that may be dropped anywhere, even within another runtime.
#[derive(Debug)]
struct Background(Option<Runtime>);

impl Background {
    fn get(&self) -> &Runtime {
        self.0.as_ref().expect("it is taken out only to be dropped")
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.0.take().into_iter().for_each(Runtime::shutdown_background);
    }
}

impl Tokio {
    /// Creates a driver without connections.
    ///
    /// # Errors
    /// The errors of the kernel, such as too many open files.
    pub fn new() -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_io().enable_time().build()?;
        let (inbox, wake) = (Arc::new(Inbox::new()), Arc::new(Notify::new()));
        runtime.spawn(tell_of_mail(Arc::clone(&wake), Arc::clone(&inbox)));
        let entered = runtime.enter();
        let alarm = Box::pin(sleep_until(Instant::now()));
        drop(entered);
        Ok(Self {
            runtime: Background(Some(runtime)),
            inbox,
            wake,
            alarm,
            accept_tasks: AcceptTasks::default(),
            connections: Vec::new(),
            free: Vec::new(),
            closed: Vec::new(),
            noted: Vec::new(),
            queued: Vec::new(),
            events_left: 0,
        })
    }

    /// Returns a waker of this driver.
    pub fn waker(&self) -> Waker {
        Waker::Task(Arc::clone(&self.wake))
    }

    /// Begins to accept from a listener that other drivers may accept from too.
    ///
    /// # Errors
    /// The errors of the kernel.
    pub fn listen(&mut self, listener: Arc<Listener>) -> io::Result<()> {
        self.accept_tasks.listen(self.runtime.get(), listener, &self.inbox)
    }

    /// Stops accepting and releases the listeners.
    pub fn stop_listening(&mut self) {
        self.accept_tasks.stop(self.runtime.get());
    }

    /// Tries to accept again after [`Event::AcceptFailed`].
    pub fn accept_again(&mut self) {
        self.accept_tasks.again();
    }

    /// Takes over an accepted connection.
    ///
    /// # Errors
    /// The errors of the kernel; the connection is closed then.
    pub fn adopt(&mut self, socket: OwnedFd) -> io::Result<Token> {
        let token = self.free.last().copied().unwrap_or(self.connections.len());
        let entered = self.runtime.get().enter();
        let connection = TokioConnection::new(token, socket, &self.inbox)?;
        drop(entered);
        if self.free.pop().is_none() {
            self.connections.push(None);
        }
        self.connections[token] = Some(Arc::new(connection));
        self.note(token);
        Ok(token)
    }

    #[inline]
    fn get(&self, token: Token) -> Option<&Arc<TokioConnection>> {
        self.connections.get(token)?.as_ref()
    }

    /// Notes a connection: the next wait wakes its task.
    #[inline]
    fn note(&mut self, token: Token) {
        if let Some(connection) = self.connections.get(token).and_then(Option::as_ref)
            && connection.note()
        {
            self.noted.push(Arc::clone(connection));
        }
    }

    /// Returns the number of a connection's socket.
    pub fn descriptor(&self, token: Token) -> i32 {
        self.get(token).map_or(-1, |connection| connection.descriptor())
    }

    /// Runs the tasks until there is an event or until the timeout; returns how many events [`Tokio::event`] has.
    ///
    /// # Errors
    /// A task has panicked. If the kernel refuses to wait, the runtime panics.
    pub fn wait(&mut self, timeout_ms: u64) -> io::Result<usize> {
        self.free.append(&mut self.closed);
        let Self { runtime, inbox, alarm, noted, .. } = self;
        runtime.get().block_on(async {
            // Tasks that are woken within the runtime cost no system call.
            for connection in noted.drain(..) {
                if connection.wake() {
                    tokio::spawn(Carrying(connection));
                }
            }
            if inbox.begin() || timeout_ms == 0 {
                tokio::task::yield_now().await;
            } else {
                set(alarm, timeout_ms);
                std::future::poll_fn(|cx| poll_news(inbox, alarm, cx)).await;
            }
        });
        self.events_left = self.inbox.end()?;
        Ok(self.events_left)
    }

    /// Returns the next event of this wake-up. If it is received bytes, they are at the start of the buffer.
    #[inline]
    pub fn event(&mut self, buffer: &mut [u8]) -> Event {
        let Some(left) = self.events_left.checked_sub(1) else { return Event::Nothing };
        self.events_left = left;
        match self.inbox.next() {
            None => Event::Nothing,
            Some(News::Connection(token)) => {
                let event = self.get(token).map_or(Event::Nothing, |connection| connection.event(buffer));
                if matches!(event, Event::Received(..)) {
                    // The connection's task may receive again.
                    self.note(token);
                }
                event
            }
            Some(News::Accepted(accepted)) => Event::Accepted(accepted),
            Some(News::AcceptFailed(error)) => Event::AcceptFailed(error),
            Some(News::Woken) => Event::Woken,
        }
    }

    /// Takes the bytes of `output`, to be sent after those that already wait, and leaves it empty, even if the connection is
    /// broken: the next connection's replies go into the same buffer. A short output is sent with the next wait.
    #[inline]
    pub fn send(&mut self, token: Token, output: &mut Output) -> Sending {
        let Some(connection) = self.get(token) else {
            output.clear();
            return Sending::Broken;
        };
        connection.put(output);
        self.inbox.refill(output);
        self.send_waiting(token)
    }

    #[inline]
    fn send_waiting(&mut self, token: Token) -> Sending {
        let Some(connection) = self.get(token) else { return Sending::Waiting(0) };
        let sending = connection.send_waiting();
        self.note(token);
        sending
    }

    /// Sends at once as many of the unsent bytes as the connection takes.
    pub fn flush(&mut self, token: Token) -> Sending {
        let Some(connection) = self.get(token) else { return Sending::Broken };
        let sending = connection.flush();
        self.note(token);
        sending
    }

    /// Adds bytes that several connections share to the unsent bytes. The caller calls [`Tokio::send_queued`] later.
    #[inline]
    pub fn queue(&mut self, token: Token, bytes: &Arc<Vec<u8>>) {
        if self.get(token).is_some_and(|connection| connection.queue(bytes)) {
            self.queued.push(token);
        }
    }

    /// Returns the connections to which something was queued since the last call.
    pub fn take_queued(&mut self) -> Vec<Token> {
        std::mem::take(&mut self.queued)
    }

    /// Sends the queued bytes, behind those that already wait.
    pub fn send_queued(&mut self, token: Token) -> Sending {
        self.send_waiting(token)
    }

    /// Returns how many bytes wait for the peer to read.
    #[inline]
    pub fn waiting(&self, token: Token) -> usize {
        self.get(token).map_or(0, |connection| connection.waiting())
    }

    /// Returns how many bytes have not been sent, including those that are sent with the next wait.
    pub fn unsent(&self, token: Token) -> usize {
        self.get(token).map_or(0, |connection| connection.unsent())
    }

    /// Returns the unused room in the buffers of the unsent bytes.
    pub fn spare(&self, token: Token) -> usize {
        self.get(token).map_or(0, |connection| connection.spare())
    }

    /// Stops or resumes receiving from a connection; bytes that the peer sends in between stay with the kernel, or are put
    /// aside.
    pub fn hold(&mut self, token: Token, held: bool) {
        if self.get(token).is_some_and(|connection| connection.hold(held)) {
            self.note(token);
        }
    }

    /// Closes a connection, after the bytes that can be sent at once.
    pub fn close(&mut self, token: Token) {
        if let Some(connection) = self.get(token) {
            connection.close();
            self.note(token);
            self.connections[token] = None;
            self.closed.push(token);
        }
    }
}

/// Adds an event for the worker whenever its waker is used.
async fn tell_of_mail(wake: Arc<Notify>, inbox: Arc<Inbox>) {
    let _held = inbox.hold();
    loop {
        wake.notified().await;
        inbox.tell(News::Woken);
    }
}

/// Sets the alarm. An earlier alarm stays as it is: a wait that it ends is followed by another, and most waits end for other
/// reasons.
fn set(alarm: &mut Pin<Box<Sleep>>, timeout_ms: u64) {
    let end = Instant::now() + Duration::from_millis(timeout_ms.min(WAIT_MAX_MS));
    if alarm.is_elapsed() || alarm.deadline() > end {
        alarm.as_mut().reset(end);
    }
}

/// Waits for news, or for the alarm.
fn poll_news(inbox: &Inbox, alarm: &mut Pin<Box<Sleep>>, cx: &mut Context<'_>) -> Poll<()> {
    if inbox.has_news(cx) { Poll::Ready(()) } else { alarm.as_mut().poll(cx) }
}
