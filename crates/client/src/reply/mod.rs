//! A reply in flight, and all ways to wait for it.
//!
//! A call sends its command; the value that it returns only offers ways to receive the answer. It can be awaited in any
//! runtime, waited for on a thread, given a callback, forgotten, or dropped, and none of these reaches back into the
//! connection except to write gathered bytes. The answer is decoded here, on the thread that takes it.

pub(crate) mod by_hand;
pub(crate) mod mapped;
pub(crate) mod synced;
pub(crate) mod timed;
mod turn;

use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use crate::config::ErrorHook;
use crate::error::Error;
use crate::pipe::driver_number::DriverNumber;
use crate::pipe::queued::{Queued, Sent};
use crate::pipe::slot::{Flush, Handle, Payload};
use crate::resp::decode::FromReply;
use crate::resp::value::Value;
use crate::sys::callback;
use crate::sys::now;
use crate::sys::trace;
use turn::Turn;

/// The answer to a command that was sent.
///
/// - `.await` it in any async runtime, or [`wait`](Reply::wait) for it on a thread.
/// - [`then`](Reply::then) calls back; [`forget`](Reply::forget) only reports an error to the client's error hook.
/// - [`map`](Reply::map) and [`and_then`](Reply::and_then) convert the answer, which is waited for in the same ways.
/// - Dropping it neither takes the command back nor gives its answer to another caller. The exception is a command that waits
///   on the server ([`BlockingCommands`](crate::commands::blocking::BlockingCommands)): if its reply is dropped, it waits no
///   longer.
#[must_use = "await it, wait for it, or forget it to have errors reported"]
pub struct Reply<T> {
    state: ReplyState,
    turn: Turn,
    result: PhantomData<fn() -> T>,
}

/// A resource that a reply keeps until it is answered; dropping it gives it back.
pub(crate) trait Guard: Send + Sync {
    /// Receives the answer, just before it is taken.
    fn answered(&self, payload: &Payload) {
        let _ = payload;
    }
}

/// The parts of a reply, for a caller that waits in another way.
pub(crate) enum Parts {
    /// The slot of its answer, with the resource that the reply keeps until then.
    Slot(Handle, Option<Box<dyn Guard>>),
    /// The answer, and the number of the engine that gave it.
    Answered(Payload, DriverNumber),
}

enum ReplyState {
    Slot(Handle),
    /// As `Slot`, while the queue of the connection is above its bound.
    Queued(Queued),
    /// As `Slot`, with a connection that only this command uses. If the reply is dropped before the answer, the command is
    /// given up.
    Apart(Handle, Box<dyn Guard>),
    /// The call itself was answered. The hook is for `forget`; the number is that of the engine, which can be asked whether
    /// the write is synced.
    Ready(Payload, Option<ErrorHook>, DriverNumber),
    Taken,
}

impl<T: FromReply> Reply<T> {
    fn new(state: ReplyState) -> Self {
        Self { state, turn: Turn::default(), result: PhantomData }
    }

    pub(crate) fn of(handle: Handle) -> Self {
        Self::new(ReplyState::Slot(handle))
    }

    /// Returns the reply to a command that was sent.
    #[inline]
    pub(crate) fn sent(sent: Sent, hook: Option<&ErrorHook>) -> Self {
        match sent {
            Sent::Slot(handle) => Self::of(handle),
            Sent::Queued(queued) => Self::new(ReplyState::Queued(queued)),
            Sent::Ready(payload, driver) => Self::new(ReplyState::Ready(payload, hook.cloned(), driver)),
        }
    }

    pub(crate) fn apart(handle: Handle, guard: Box<dyn Guard>) -> Self {
        Self::new(ReplyState::Apart(handle, guard))
    }

    pub(crate) fn ready(payload: Payload, hook: Option<&ErrorHook>) -> Self {
        Self::new(ReplyState::Ready(payload, hook.cloned(), DriverNumber::NONE))
    }

    /// Returns the parts to wait for instead of this reply: its answer, or the slot that will have it.
    pub(crate) fn into_parts(mut self) -> Parts {
        if let ReplyState::Queued(_) = self.state {
            self.settle(|queued| queued.into_handle(false));
        }
        match self.state {
            ReplyState::Slot(handle) => Parts::Slot(handle, None),
            ReplyState::Apart(handle, guard) => Parts::Slot(handle, Some(guard)),
            ReplyState::Ready(payload, _, driver) => Parts::Answered(payload, driver),
            ReplyState::Queued(_) | ReplyState::Taken => {
                Parts::Answered(Payload::Failed(already_taken()), DriverNumber::NONE)
            }
        }
    }

    pub(crate) fn failed(error: Error, hook: Option<&ErrorHook>) -> Self {
        Self::ready(Payload::Failed(error), hook)
    }

    /// Returns whether the answer has arrived, so that waiting for it would not block.
    pub fn is_ready(&self) -> bool {
        match &self.state {
            ReplyState::Slot(handle) | ReplyState::Apart(handle, _) => handle.is_done(),
            ReplyState::Queued(queued) => queued.is_done(),
            ReplyState::Ready(..) | ReplyState::Taken => true,
        }
    }

    /// Registers the waker for the arrival of the answer, or for the next check. Ready if there is nothing to wait for.
    fn poll_ready(&mut self, context: &mut Context<'_>, is_task: bool) -> Poll<()> {
        let (ReplyState::Slot(handle) | ReplyState::Apart(handle, _)) = &mut self.state else { return Poll::Ready(()) };
        poll(handle, &mut self.turn, context, is_task)
    }

    /// Returns whether the command has not been sent yet.
    fn is_unsent(&self) -> bool {
        matches!(&self.state, ReplyState::Slot(handle) if handle.is_unsent())
    }

    /// Takes the answer, or keeps waiting if it can still arrive.
    fn conclude(&mut self, handle: Handle, back: impl FnOnce(Handle) -> ReplyState) -> Poll<Result<T, Error>> {
        match handle.take() {
            Ok(payload) => Poll::Ready(read(payload)),
            Err(handle) => match handle.hopeless(handle.driver().as_deref()) {
                Some(error) => Poll::Ready(Err(error)),
                None => {
                    self.state = back(handle);
                    Poll::Pending
                }
            },
        }
    }

    /// Ends the wait for room in the queue: from here on the reply's owner waits for the answer.
    fn settle(&mut self, take: impl FnOnce(Queued) -> Option<Handle>) {
        match std::mem::replace(&mut self.state, ReplyState::Taken) {
            ReplyState::Queued(queued) => self.state = take(queued).map_or(ReplyState::Taken, ReplyState::Slot),
            other => self.state = other,
        }
    }

    /// Blocks this thread until the answer is there. The client's command timeout bounds the wait.
    ///
    /// # Errors
    /// The server's error, or the reason why there is no answer; see [`ErrorKind`](crate::ErrorKind).
    pub fn wait(self) -> Result<T, Error> {
        self.wait_until(None)
    }

    /// Blocks this thread until the answer is there, but for no longer than this.
    ///
    /// # Errors
    /// As for [`wait`](Reply::wait), and [`ErrorKind::Timeout`](crate::ErrorKind::Timeout) if the time is up; the command may
    /// still be executed.
    pub fn wait_for(self, timeout: Duration) -> Result<T, Error> {
        self.wait_until(now().checked_add(timeout))
    }

    fn wait_until(mut self, deadline: Option<Instant>) -> Result<T, Error> {
        if let ReplyState::Queued(_) = self.state {
            self.settle(|queued| queued.into_handle(false));
        }
        match self.state {
            ReplyState::Slot(handle) => match block(handle, deadline) {
                Ok(payload) => read(payload),
                Err(handle) => Err(given_up(&handle)),
            },
            ReplyState::Apart(handle, guard) => {
                // The call of an embedded engine ends with this wait; until then its handle knows where the command was sent.
                let answer = block(handle, deadline).map_err(|handle| given_up(&handle));
                answer.iter().for_each(|payload| guard.answered(payload));
                drop(guard);
                answer.and_then(|payload| read(payload))
            }
            ReplyState::Ready(payload, ..) => read(payload),
            ReplyState::Queued(_) | ReplyState::Taken => Err(already_taken()),
        }
    }

    /// Calls back with the result, on the process's callback thread.
    ///
    /// Callbacks run one after another, in the order in which their answers arrived. A callback may take its time, use the
    /// client and wait for replies, but it holds up the others in that time.
    pub fn then(mut self, callback: impl FnOnce(Result<T, Error>) + Send + 'static)
    where
        T: 'static,
    {
        self.settle(Queued::wait_for_room);
        let then = Arc::new(Then { pending: Mutex::new(Some((self, callback))) });
        then.proceed();
    }

    /// Lets the command happen without a waiting caller. If it fails, the client's error hook is called with the error.
    pub fn forget(mut self) {
        if let ReplyState::Queued(_) = self.state {
            self.settle(Queued::wait_for_room);
        }
        let (payload, hook) = match self.state {
            ReplyState::Apart(handle, guard) => return forget_apart(handle, guard),
            ReplyState::Slot(handle) => {
                let driver = handle.driver();
                (handle.forget(), driver.and_then(|driver| driver.error_hook()))
            }
            ReplyState::Ready(payload, hook, _) => (Some(payload), hook),
            ReplyState::Queued(_) | ReplyState::Taken => (None, None),
        };
        if let Some(error) = payload.and_then(Payload::into_error) {
            callback::report(vec![error], hook.as_ref());
        }
    }
}

impl<T: FromReply> Future for Reply<T> {
    type Output = Result<T, Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if let ReplyState::Queued(_) = self.state {
            self.settle(|queued| queued.into_handle(true));
        }
        if self.poll_ready(context, true).is_pending() && !self.is_unsent() {
            return Poll::Pending;
        }
        match std::mem::replace(&mut self.state, ReplyState::Taken) {
            ReplyState::Slot(handle) => self.conclude(handle, ReplyState::Slot),
            ReplyState::Apart(handle, guard) => match handle.take() {
                Ok(payload) => {
                    guard.answered(&payload);
                    Poll::Ready(read(payload))
                }
                Err(handle) => self.conclude(handle, |handle| ReplyState::Apart(handle, guard)),
            },
            ReplyState::Ready(payload, ..) => Poll::Ready(read(payload)),
            ReplyState::Queued(_) | ReplyState::Taken => Poll::Ready(Err(already_taken())),
        }
    }
}

impl<T> std::fmt::Debug for Reply<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reply").finish_non_exhaustive()
    }
}

/// Keeps the connection of a forgotten command until it is answered.
fn forget_apart(handle: Handle, guard: Box<dyn Guard>) {
    let hook = handle.driver().and_then(|driver| driver.error_hook());
    let apart = Reply::<Value>::apart(handle, guard);
    apart.then(move |result| {
        if let (Err(error), Some(hook)) = (result, hook) {
            hook(&error);
        }
    });
}

/// Registers the waker for the completion of the slot, or for the next check. Ready if there is nothing to wait for.
#[inline]
pub(crate) fn poll(handle: &mut Handle, turn: &mut Turn, context: &mut Context<'_>, is_task: bool) -> Poll<()> {
    if handle.is_done() {
        turn.keep();
        return Poll::Ready(());
    }
    let driver = handle.driver();
    if let Some(driver) = driver.as_ref().filter(|_| is_task) {
        driver.read();
        if handle.is_done() {
            turn.keep();
            return Poll::Ready(());
        }
    }
    let waiter = turn.waiter(is_task);
    match driver.as_ref().map(|driver| driver.flush(waiter)) {
        Some(Flush::Yield) => {
            turn.yields_to(driver);
            context.waker().wake_by_ref();
            Poll::Pending
        }
        Some(Flush::Lost) => Poll::Ready(()),
        Some(Flush::Done) | None => handle.poll_ready(context, is_task),
    }
}

#[inline]
pub(crate) fn read<T: FromReply>(payload: Payload) -> Result<T, Error> {
    let result = match payload {
        Payload::SharedText(string) => T::from_shared(&string),
        Payload::Long(reply) => T::from_owned(reply),
        _ => payload.frame().and_then(T::from_reply),
    };
    result.inspect_err(trace::failed)
}

/// Returns the error for a caller that has stopped waiting.
#[cold]
fn given_up(handle: &Handle) -> Error {
    let error = handle.given_up();
    trace::failed(&error);
    error
}

pub(crate) fn already_taken() -> Error {
    Error::usage("this reply was awaited to its end already")
}

/// Blocks until the slot is done, or the deadline has passed.
pub(crate) fn block(mut handle: Handle, deadline: Option<Instant>) -> Result<Payload, Handle> {
    match block_here(&mut handle, deadline) {
        Some(error) => Ok(Payload::Failed(error)),
        None => handle.take(),
    }
}

/// Blocks as `block` does, without taking the answer. Returns an error if no answer can arrive.
#[inline]
fn block_here(handle: &mut Handle, deadline: Option<Instant>) -> Option<Error> {
    if !handle.is_done() {
        let driver = handle.driver();
        if let Some(error) = handle.hopeless(driver.as_deref()) {
            return Some(error);
        }
        if let Some(driver) = &driver {
            driver.attend(handle, deadline);
        }
        if !handle.is_done() {
            park(handle, deadline);
        }
        if let Some(driver) = driver {
            driver.leave();
        }
    }
    None
}

/// Registers the waker for the answer. Ready if the answer is there, or cannot arrive.
fn poll_here(handle: &mut Handle, turn: &mut Turn, context: &mut Context<'_>) -> Poll<()> {
    let is_pending = poll(handle, turn, context, true).is_pending();
    if is_pending && !handle.is_unsent() {
        return Poll::Pending;
    }
    *turn = Turn::default();
    Poll::Ready(())
}

/// Takes the answer, or the error because none can arrive.
fn taken(handle: Handle) -> Payload {
    handle.take().unwrap_or_else(|handle| {
        Payload::Failed(handle.hopeless(handle.driver().as_deref()).unwrap_or_else(|| handle.given_up()))
    })
}

thread_local! {
    static WAKER: Waker = Waker::from(Arc::new(Parked(thread::current())));
}

fn park(handle: &mut Handle, deadline: Option<Instant>) {
    let pending = |handle: &mut Handle| {
        WAKER.with(|waker| handle.poll_ready(&mut Context::from_waker(waker), false).is_pending())
    };
    if !pending(handle) {
        return;
    }
    while !handle.is_done() {
        match deadline.map(|deadline| deadline.saturating_duration_since(now())) {
            None => thread::park(),
            Some(Duration::ZERO) => return,
            Some(left) => thread::park_timeout(left),
        }
    }
}

/// Blocks this thread until the poll is ready, or the deadline has passed.
pub(crate) fn parked<T>(deadline: Option<Instant>, mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>) -> Option<T> {
    loop {
        // The thread-local is released during the poll: the polled reply may be one that waits in the same thread.
        let waker = WAKER.with(Waker::clone);
        if let Poll::Ready(value) = poll(&mut Context::from_waker(&waker)) {
            return Some(value);
        }
        match deadline.map(|deadline| deadline.saturating_duration_since(now())) {
            None => thread::park(),
            Some(Duration::ZERO) => return None,
            Some(left) => thread::park_timeout(left),
        }
    }
}

/// Wakes a thread that waits for a reply.
struct Parked(Thread);

impl Wake for Parked {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.unpark();
    }
}

/// A reply with a callback.
struct Then<T, F> {
    pending: Mutex<Option<(Reply<T>, F)>>,
}

impl<T, F> Then<T, F>
where
    T: FromReply + 'static,
    F: FnOnce(Result<T, Error>) + Send + 'static,
{
    /// Calls back if the answer is there, or asks to be woken when it is.
    fn proceed(self: Arc<Self>) {
        let waker = Waker::from(self.clone());
        let mut pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
        let ready = pending
            .as_mut()
            .is_some_and(|(reply, _)| reply.poll_ready(&mut Context::from_waker(&waker), false).is_ready());
        drop(pending);
        if ready {
            waker.wake();
        }
    }
}

impl<T, F> Wake for Then<T, F>
where
    T: FromReply + 'static,
    F: FnOnce(Result<T, Error>) + Send + 'static,
{
    fn wake(self: Arc<Self>) {
        // Decoding may run foreign code, which belongs on the callback thread as much as the callback does.
        callback::run(move || {
            let taken = self.pending.lock().unwrap_or_else(PoisonError::into_inner).take();
            if let Some((reply, callback)) = taken {
                callback(reply.wait());
            }
        });
    }
}
