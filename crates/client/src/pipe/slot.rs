//! Slots, in which answers arrive: they lie in chunks, and each is shared by one asker and one answerer.
//!
//! A command in flight has two ends. The [`Handle`] is the caller's: it checks for the answer, waits for it, takes it or is
//! dropped. The [`Target`] is the connection's: it completes the slot exactly once. Dropping a handle never disturbs the
//! target, and a target that is dropped answers with an error, so that no caller waits for an answer that cannot arrive.
//!
//! Slots are made a chunk at a time and counted by one reference count for the whole chunk, which is charged in advance with
//! both ends of every slot. So a command costs no allocation and no atomic increment, and the answerer returns its references
//! a batch at a time. This is the one module of the client with `unsafe` in it; measured against one `Arc<Mutex<..>>` a
//! command, it halves the client's cost of a pipelined command.
//!
//! The two ends agree through one byte for each slot. The handle moves `EMPTY` to `WAITING` after it has stored a waker, and
//! back before it touches the waker again; it leaves by moving `EMPTY` to `DROPPED` or `FORGOTTEN`. The target stores the
//! payload first and then swaps in `DONE`; the value that it finds there says whether the waker, or the payload, is now its
//! own. If the target wants its asker's task to read, it moves `WAITING` to `CALLING`, takes the waker, and moves on to
//! `EMPTY`; the handle waits for those few instructions. Either end may be on any thread; nothing here blocks.
//!
//! A [`Payload`] passes between the ends: the bytes of one reply, or the reason why there are none. Most replies are short,
//! so they are kept inside the slot. Longer ones are copied once into memory of their own size, so that a small reply keeps no
//! large read buffer; a very long one is handed over in its buffer. The caller's thread decodes it.

pub(crate) mod stamps;
#[cfg(test)]
mod tests;
mod waiter;

use std::cell::UnsafeCell;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU16, AtomicU32, AtomicUsize, Ordering, fence};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use sleeve_wire::frame::{self, Frame, short_bulk};

use crate::config::ErrorHook;
use crate::error::{Effect, Error, ErrorKind};
use crate::resp::decode::owned::whole;
use crate::resp::request::level::Level;
use crate::resp::request::name::Name;
use crate::sys::wake::{drop_all, wake_all};
use stamps::Stamps;
pub(crate) use waiter::{Flush, Waiter};

/// The longest reply, in bytes, that is kept in the slot itself: of a bulk string only the text counts, of any other reply
/// the whole frame.
const INLINE_LENGTH_MAX: usize = 30;

/// The answer to one command. Cloning a short or shared one is cheap.
#[derive(Clone)]
pub(crate) enum Payload {
    /// A reply of `length` bytes, kept in the payload itself.
    Short { length: u8, bytes: [u8; INLINE_LENGTH_MAX] },
    /// A reply that is a bulk string of `length` bytes, without its frame: the code that cut it off has read the frame.
    Text { length: u8, bytes: [u8; INLINE_LENGTH_MAX] },
    /// A reply of more than `INLINE_LENGTH_MAX` bytes.
    Long(Box<[u8]>),
    /// A reply of more than `INLINE_LENGTH_MAX` bytes that may have other owners.
    Shared(Arc<[u8]>),
    /// A bulk string of more than `INLINE_LENGTH_MAX` bytes, without its frame, that may have other owners.
    SharedText(Arc<[u8]>),
    /// The error because of which there is no reply.
    Failed(Error),
}

impl Payload {
    /// Keeps the bytes of one frame.
    #[inline]
    pub(crate) fn of(frame: &[u8]) -> Self {
        let head = short_bulk(frame).map_or(0, |(head, _)| head);
        Self::short(frame, head).unwrap_or_else(|| Self::Long(frame.into()))
    }

    /// Keeps the bytes of one frame in the payload itself, if they are short enough. `head` is the number of bytes in front
    /// of the text of a bulk string; 0 for any other frame.
    #[inline]
    pub(crate) fn short(frame: &[u8], head: usize) -> Option<Self> {
        let mut bytes = [0; INLINE_LENGTH_MAX];
        if head > 0 {
            let text = frame.get(head..frame.len().saturating_sub(2))?;
            bytes.get_mut(..text.len())?.copy_from_slice(text);
            return Some(Self::Text { length: text.len() as u8, bytes });
        }
        bytes.get_mut(..frame.len())?.copy_from_slice(frame);
        Some(Self::Short { length: frame.len() as u8, bytes })
    }

    /// Keeps the bytes of one frame so that it can have several owners.
    pub(crate) fn shared(frame: &[u8]) -> Self {
        let head = short_bulk(frame).map_or(0, |(head, _)| head);
        Self::short(frame, head).unwrap_or_else(|| match frame::decode(frame) {
            Ok((Frame::Bulk(text), _)) => Self::SharedText(text.into()),
            _ => Self::Shared(frame.into()),
        })
    }

    /// Returns the number of bytes that the payload takes outside of itself.
    pub(crate) fn heap_bytes(&self) -> usize {
        match self {
            Self::Short { .. } | Self::Text { .. } | Self::Failed(_) => 0,
            Self::Long(bytes) => bytes.len(),
            Self::Shared(bytes) | Self::SharedText(bytes) => bytes.len(),
        }
    }

    /// Returns the reply as a frame.
    #[inline]
    pub(crate) fn frame(&self) -> Result<Frame<'_>, Error> {
        match self {
            Self::Text { length, bytes } => Ok(Frame::Bulk(bytes.get(..usize::from(*length)).unwrap_or_default())),
            _ => self.decoded(),
        }
    }

    /// Returns a reply other than a short string as a frame.
    fn decoded(&self) -> Result<Frame<'_>, Error> {
        match self {
            Self::SharedText(text) => Ok(Frame::Bulk(text)),
            Self::Failed(error) => Err(error.clone()),
            _ => whole(self.bytes()),
        }
    }

    /// Returns the bytes of the reply as they arrived. A string that is kept without its frame, and an error without a reply,
    /// have none.
    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Self::Short { length, bytes } => bytes.get(..usize::from(*length)).unwrap_or_default(),
            Self::Long(bytes) => bytes,
            Self::Shared(bytes) => bytes,
            Self::Text { .. } | Self::SharedText(_) | Self::Failed(_) => &[],
        }
    }

    /// Returns the error that the payload is, if it is one.
    pub(crate) fn into_error(self) -> Option<Error> {
        match self {
            Self::Failed(error) => Some(error),
            Self::Text { .. } | Self::SharedText(_) => None,
            Self::Short { bytes, .. } if bytes.first() != Some(&b'-') && bytes.first() != Some(&b'!') => None,
            payload => payload.frame().err(),
        }
    }
}

/// The calls that a waiting asker may make on the connection that will answer.
pub(crate) trait Driver: Send + Sync {
    /// Writes the gathered requests, because this waiter is about to wait for a reply.
    fn flush(&self, waiter: Waiter) -> Flush;

    /// Reads the received bytes, if they were left to the tasks that are awake, because a task is about to wait for a reply.
    fn read(&self) {}

    /// Writes the gathered requests, because a thread is about to sleep until `handle` is done. It may do the waiting itself,
    /// or part of it. The thread reports the end of its wait with [`Driver::leave`].
    fn attend(&self, handle: &Handle, deadline: Option<Instant>) {
        let _ = (handle, deadline);
        _ = self.flush(Waiter::Other);
    }

    /// Notes that a thread that has called `attend` has stopped waiting.
    fn leave(&self) {}

    /// Waits on this thread until the queue has room again, or the deadline has passed.
    fn wait_for_room(&self, deadline: Option<Instant>, is_task: bool) {
        let _ = (deadline, is_task);
    }

    /// Returns the reason why no answer can arrive in this process; none if one can.
    fn lost(&self) -> Option<Error> {
        None
    }

    /// Returns the error for a caller that has stopped waiting for the answer to a command of this name, which may still
    /// arrive.
    fn given_up(&self, name: Name) -> Error {
        unanswered(name)
    }

    /// Returns the hook that is called with the errors of forgotten commands.
    fn error_hook(&self) -> Option<ErrorHook>;

    /// Returns a handle that is done when the effect of an answered command of this name has reached this level of
    /// durability. The command was sent on the connection of this number.
    fn safe(&self, level: Level, name: Name, sent_on: u32) -> Result<Handle, Error> {
        let _ = sent_on;
        Err(Error::usage(format!("nobody knows here when what {name} has done is {level}")))
    }
}

/// Returns the error of a command for which the state of the connection is unknown.
fn unanswered(name: Name) -> Error {
    Error::new(ErrorKind::Timeout, Effect::Unknown, format!("{name} was not answered in time; its effect is unknown"))
}

const EMPTY: u8 = 0;
const WAITING: u8 = 1;
const DONE: u8 = 2;
const DROPPED: u8 = 3;
const FORGOTTEN: u8 = 4;
const CALLING: u8 = 5;

/// The number of a connection that stands for none.
const UNSENT: u32 = 0;

/// The number of a link's first connection.
pub(crate) const FIRST_CONNECTION: u32 = 1;

/// The number of slots of the largest chunk. Smaller ones are made first, because most connections are idle.
const SLOTS_MAX: usize = 256;

struct Slot {
    state: AtomicU8,
    /// True if a task waits, and no thread: written before `WAITING`, read behind it.
    is_task: AtomicBool,
    /// The name of the slot's command: written before the ends are handed out, and read by either.
    name: AtomicU16,
    payload: UnsafeCell<MaybeUninit<Payload>>,
    waker: UnsafeCell<Option<Waker>>,
}

struct Chunk {
    /// The number of ends of slots that are alive, or that have not been handed out yet.
    references: AtomicUsize,
    /// The number of the first connection on which its requests leave; [`UNSENT`] while they are gathered by an owner that
    /// has to send them.
    sent_on: AtomicU32,
    driver: Weak<dyn Driver>,
    slots: Box<[Slot]>,
    /// The times at which timed requests left and their replies arrived.
    stamps: Stamps,
}

/// The place of one end: a slot of a chunk.
#[derive(Clone, Copy)]
struct SlotRef {
    chunk: NonNull<Chunk>,
    index: u32,
}

impl SlotRef {
    /// Returns the name of the slot's command.
    fn name(&self) -> Name {
        Name::from_number(self.slot().name.load(Ordering::Relaxed))
    }

    fn slot(&self) -> &Slot {
        // SAFETY: the owner of a `SlotRef` holds one of the references that the chunk was charged with for it, so the chunk
        // is alive; `index` was in bounds when the place was made and chunks never shrink.
        unsafe { self.chunk.as_ref().slots.get_unchecked(self.index as usize) }
    }
}

/// Returns `count` references; the last one frees the chunk.
///
/// # Safety
/// The caller holds this many references, and does not use them afterwards.
unsafe fn release(chunk: NonNull<Chunk>, count: usize) {
    // SAFETY: the caller gives up `count` references that it holds, so the chunk is alive until the subtraction.
    let before = unsafe { chunk.as_ref() }.references.fetch_sub(count, Ordering::Release);
    if before == count {
        fence(Ordering::Acquire);
        // SAFETY: no reference is left, so this is the only pointer to the chunk; it came from `Box::into_raw`.
        drop(unsafe { Box::from_raw(chunk.as_ptr()) });
    }
}

/// A source of pairs of ends. It belongs to one pipe or one batch.
pub(crate) struct Source {
    driver: Weak<dyn Driver>,
    chunk: Option<NonNull<Chunk>>,
    next: usize,
    length: usize,
    sent_on: u32,
}

// SAFETY: the chunk is reached through atomics and through slots that have not been handed out yet, which only this
// source can name; the driver is `Send + Sync`.
unsafe impl Send for Source {}

impl Source {
    pub(crate) fn new(driver: Weak<dyn Driver>) -> Self {
        Self { driver, chunk: None, next: 0, length: 0, sent_on: FIRST_CONNECTION }
    }

    /// Creates a source as [`new`](Source::new) does, for requests that their owner has to send first: waiting before that is
    /// an error.
    pub(crate) fn unsent(driver: Weak<dyn Driver>) -> Self {
        Self { driver, chunk: None, next: 0, length: 0, sent_on: UNSENT }
    }

    /// Renews the source: the next pairs are for another connection.
    pub(crate) fn renew_for(&mut self, connection: u32) {
        self.renew();
        self.sent_on = connection;
    }

    /// Renews the source: the next pairs share nothing with those before, which may be sent by now.
    pub(crate) fn renew(&mut self) {
        self.give_back();
        self.next = 0;
    }

    /// Gives back the references of slots that were not handed out.
    fn give_back(&mut self) {
        if let Some(chunk) = self.chunk.take()
            && self.next < self.length
        {
            // SAFETY: both ends of each slot that was not handed out are this source's, and `renew` or the end of the source
            // follows.
            unsafe { release(chunk, (self.length - self.next) * 2) };
        }
    }

    /// Returns the two ends of a fresh slot, for a command of this name.
    #[inline]
    pub(crate) fn pair(&mut self, name: Name) -> (Target, Handle) {
        let chunk = match self.chunk {
            Some(chunk) if self.next < self.length => chunk,
            _ => self.refill(),
        };
        let slot_ref = SlotRef { chunk, index: self.next as u32 };
        self.next += 1;
        slot_ref.slot().name.store(name.number(), Ordering::Relaxed);
        (Target { slot_ref }, Handle { slot_ref })
    }

    #[cold]
    fn refill(&mut self) -> NonNull<Chunk> {
        self.length = (self.length * 4).clamp(4, SLOTS_MAX);
        self.next = 0;
        let slots = (0..self.length)
            .map(|_| Slot {
                state: AtomicU8::new(EMPTY),
                is_task: AtomicBool::new(false),
                name: AtomicU16::new(Name::UNKNOWN.number()),
                payload: UnsafeCell::new(MaybeUninit::uninit()),
                waker: UnsafeCell::new(None),
            })
            .collect();
        let references = AtomicUsize::new(self.length * 2);
        let (sent_on, driver, stamps) = (AtomicU32::new(self.sent_on), self.driver.clone(), Stamps::default());
        let chunk = NonNull::from(Box::leak(Box::new(Chunk { references, sent_on, driver, slots, stamps })));
        self.chunk = Some(chunk);
        chunk
    }
}

impl Drop for Source {
    fn drop(&mut self) {
        self.give_back();
    }
}

/// The caller's end.
pub(crate) struct Handle {
    slot_ref: SlotRef,
}

// SAFETY: the protocol of the state byte gives each end its cells in turn, with acquire and release orderings, so an
// end may move to another thread. A `Handle` is not `Sync`-dependent: every method that touches a cell takes `&mut` or
// `self`, and `is_done` reads an atomic.
unsafe impl Send for Handle {}
// SAFETY: through a shared reference only atomics and the chunk's driver can be read.
unsafe impl Sync for Handle {}

impl Handle {
    /// Returns whether the answer has arrived.
    pub(crate) fn is_done(&self) -> bool {
        self.slot_ref.slot().state.load(Ordering::Acquire) == DONE
    }

    /// Returns the connection that will answer, if it still exists.
    pub(crate) fn driver(&self) -> Option<Arc<dyn Driver>> {
        // SAFETY: this handle's reference keeps the chunk alive.
        unsafe { self.slot_ref.chunk.as_ref() }.driver.upgrade()
    }

    /// Returns whether the request is still unsent.
    pub(crate) fn is_unsent(&self) -> bool {
        self.sent_on() == UNSENT && !self.is_done()
    }

    /// Returns the number of the connection that existed, or was the next, when the request was sent. The request may have
    /// left on a later one.
    pub(crate) fn sent_on(&self) -> u32 {
        // SAFETY: this handle's reference keeps the chunk alive.
        unsafe { self.slot_ref.chunk.as_ref() }.sent_on.load(Ordering::Acquire)
    }

    /// Returns the name of the command.
    pub(crate) fn name(&self) -> Name {
        self.slot_ref.name()
    }

    /// Returns the times at which the request left and its reply arrived, in microseconds, if it is timed and both are known.
    pub(crate) fn times(&self) -> Option<(u64, u64)> {
        // SAFETY: this handle's reference keeps the chunk alive.
        unsafe { self.slot_ref.chunk.as_ref() }.stamps.get(self.slot_ref.index as usize)
    }

    /// Returns the reason why waiting is useless, if there is one: the request is unsent, or the answer goes to another
    /// process.
    pub(crate) fn hopeless(&self, driver: Option<&dyn Driver>) -> Option<Error> {
        if self.is_unsent() {
            return Some(Error::usage(
                "it was not sent yet, so no answer can come: send the batch, or execute the transaction, before waiting",
            ));
        }
        driver.and_then(Driver::lost)
    }

    /// Returns the error for a caller that has stopped waiting.
    #[cold]
    pub(crate) fn given_up(&self) -> Error {
        let name = self.slot_ref.name();
        self.driver().map_or_else(|| unanswered(name), |driver| driver.given_up(name))
    }

    /// Takes the answer if it has arrived, and ends the handle; otherwise returns the handle.
    pub(crate) fn take(self) -> Result<Payload, Handle> {
        if !self.is_done() {
            return Err(self);
        }
        let this = ManuallyDrop::new(self);
        // SAFETY: `DONE`, read with acquire, says that the target has stored the payload and will not touch it again;
        // this end takes it exactly once, because it is consumed here without running its `Drop`.
        // Its reference goes with it.
        let payload = unsafe {
            let payload = (*this.slot_ref.slot().payload.get()).assume_init_read();
            release(this.slot_ref.chunk, 1);
            payload
        };
        Ok(payload)
    }

    /// Stores a waker, to be woken when the answer arrives. Returns `Ready` if it has arrived already. The waker of a task
    /// may also be woken so that the task reads the received bytes.
    pub(crate) fn poll_ready(&mut self, context: &mut Context<'_>, is_task: bool) -> Poll<()> {
        if !self.recall() {
            return Poll::Ready(());
        }
        let slot = self.slot_ref.slot();
        // SAFETY: the state is `EMPTY`, which gives the waker to this end until it stores `WAITING`.
        let waker = unsafe { &mut *slot.waker.get() };
        match waker {
            Some(waker) => waker.clone_from(context.waker()),
            None => *waker = Some(context.waker().clone()),
        }
        slot.is_task.store(is_task, Ordering::Relaxed);
        match slot.state.compare_exchange(EMPTY, WAITING, Ordering::Release, Ordering::Acquire) {
            Ok(_) => Poll::Pending,
            Err(_) => {
                // SAFETY: the target found `EMPTY` and leaves the waker alone, so it is still this end's.
                unsafe { *slot.waker.get() = None };
                Poll::Ready(())
            }
        }
    }

    /// Ends the handle, and asks that an error be reported. Returns the answer if it has arrived already.
    pub(crate) fn forget(mut self) -> Option<Payload> {
        if self.recall() && self.leave(FORGOTTEN) {
            let slot_ref = ManuallyDrop::new(self).slot_ref;
            // SAFETY: this end's reference, which has no other use any more. The end is not dropped but released: from here
            // on a `DONE` no longer means that the payload is its own.
            unsafe { release(slot_ref.chunk, 1) };
            return None;
        }
        self.take().ok()
    }

    /// Takes a stored waker back. Returns false if the slot is done.
    fn recall(&mut self) -> bool {
        loop {
            match self.slot_ref.slot().state.compare_exchange(WAITING, EMPTY, Ordering::Acquire, Ordering::Acquire) {
                Ok(_) => return true,
                Err(CALLING) => std::thread::yield_now(),
                Err(state) => return state != DONE,
            }
        }
    }

    /// Moves an `EMPTY` slot to a final state of this end. Returns false if the slot is done.
    fn leave(&mut self, state: u8) -> bool {
        let slot = self.slot_ref.slot();
        // SAFETY: the state is `EMPTY` or `DONE`, and in both the waker is this end's: the target takes it only when it
        // finds `WAITING`.
        unsafe { *slot.waker.get() = None };
        slot.state.compare_exchange(EMPTY, state, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        if self.is_done() || !self.recall() || !self.leave(DROPPED) {
            // SAFETY: the slot is `DONE`, so the payload is stored and belongs to this end.
            unsafe { (*self.slot_ref.slot().payload.get()).assume_init_drop() };
        }
        // SAFETY: this end's reference, which has no other use any more.
        unsafe { release(self.slot_ref.chunk, 1) };
    }
}

/// The connection's end. It is completed, or it completes itself with an error when it is dropped.
pub(crate) struct Target {
    slot_ref: SlotRef,
}

// SAFETY: as for `Handle`: the state byte gives each end its cells in turn.
unsafe impl Send for Target {}

impl Target {
    /// Notes that the request, with the others of its chunk, is being sent on this connection: callers may wait for the
    /// answers.
    pub(crate) fn mark_sent(&self, connection: u32) {
        // SAFETY: this target's reference keeps the chunk alive.
        unsafe { self.slot_ref.chunk.as_ref() }.sent_on.store(connection, Ordering::Release);
    }

    /// Returns the name of the command.
    pub(crate) fn name(&self) -> Name {
        self.slot_ref.name()
    }

    /// Notes the times at which the request left and its reply arrived, if it is timed.
    pub(super) fn stamp(&self, left_us: u64, came_us: u64) {
        if self.name().is_timed() {
            // SAFETY: this target's reference keeps the chunk alive.
            let chunk = unsafe { self.slot_ref.chunk.as_ref() };
            chunk.stamps.set(self.slot_ref.index as usize, chunk.slots.len(), left_us, came_us);
        }
    }

    /// Returns whether a task or a thread sleeps until the answer arrives.
    pub(crate) fn is_awaited(&self) -> bool {
        matches!(self.slot_ref.slot().state.load(Ordering::Relaxed), WAITING | CALLING)
    }

    /// Returns whether no caller waits for the answer any more.
    pub(crate) fn is_abandoned(&self) -> bool {
        matches!(self.slot_ref.slot().state.load(Ordering::Relaxed), DROPPED | FORGOTTEN)
    }

    /// Takes the waker of the task that waits for the answer, if a task does. The woken task polls, and stores another waker.
    pub(crate) fn call(&self) -> Option<Waker> {
        let slot = self.slot_ref.slot();
        slot.state.compare_exchange(WAITING, CALLING, Ordering::Acquire, Ordering::Relaxed).ok()?;
        if !slot.is_task.load(Ordering::Relaxed) {
            slot.state.store(WAITING, Ordering::Release);
            return None;
        }
        // SAFETY: between `WAITING`, which was found, and the state that is stored next, the handle leaves the waker alone.
        let waker = unsafe { (*slot.waker.get()).take() };
        slot.state.store(EMPTY, Ordering::Release);
        waker
    }

    /// Stores the answer. The wake-up, if any, happens when `done` is finished.
    #[inline]
    pub(crate) fn complete(self, payload: Payload, done: &mut Completions) {
        let slot_ref = ManuallyDrop::new(self).slot_ref;
        // SAFETY: this is the slot's target, which is consumed, and its reference goes to `done`.
        unsafe {
            settle(&slot_ref, payload, done);
            done.give_back(slot_ref.chunk);
        }
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        let mut done = Completions::default();
        let payload = Payload::Failed(Error::closed("it was dropped before it was sent"));
        // SAFETY: this is the slot's target, which ends, and its reference with it.
        unsafe {
            settle(&self.slot_ref, payload, &mut done);
            release(self.slot_ref.chunk, 1);
        }
    }
}

/// Stores the payload and finds the waker or the payload's new owner by the state of the slot.
///
/// # Safety
/// The caller is the slot's target, and does this once.
#[inline]
unsafe fn settle(slot_ref: &SlotRef, payload: Payload, done: &mut Completions) {
    let slot = slot_ref.slot();
    // SAFETY: before `DONE` the payload belongs to the target, which the caller is.
    unsafe { (*slot.payload.get()).write(payload) };
    match slot.state.swap(DONE, Ordering::AcqRel) {
        // SAFETY: the target found `WAITING`, so the stored waker is its own: the handle now finds `DONE`.
        WAITING => done.wake(unsafe { (*slot.waker.get()).take() }),
        // SAFETY: the handle has left, so the payload just stored is the target's own.
        DROPPED => unsafe { (*slot.payload.get()).assume_init_drop() },
        FORGOTTEN => {
            // SAFETY: as for `DROPPED`; it is read out exactly once.
            done.forgotten(unsafe { (*slot.payload.get()).assume_init_read() });
        }
        _ => {}
    }
}

/// A batch of completions: one wake-up for each waiter and one subtraction for each chunk, at the end.
#[derive(Default)]
pub(crate) struct Completions {
    chunk: Option<NonNull<Chunk>>,
    references: usize,
    wakers: Vec<Waker>,
    rare: Option<Box<Rare>>,
}

/// The rare parts of a batch.
#[derive(Default)]
struct Rare {
    /// The wakers that need not be woken, because an equal one is. Dropping them runs foreign code, too.
    twins: Vec<Waker>,
    /// The errors of commands that were forgotten.
    errors: Vec<Error>,
}

// SAFETY: the chunk pointer stands for references that this batch owns, and the count behind it is atomic.
unsafe impl Send for Completions {}

impl Completions {
    /// Wakes all waiters of the completed slots, and returns the errors of forgotten commands.
    ///
    /// Call it without any lock held: a waker is foreign code.
    #[inline]
    pub(crate) fn finish(&mut self) -> Vec<Error> {
        self.settle_references();
        if self.wakers.is_empty() && self.rare.is_none() { Vec::new() } else { self.tell() }
    }

    fn tell(&mut self) -> Vec<Error> {
        wake_all(self.wakers.drain(..));
        let Some(mut rare) = self.rare.take() else { return Vec::new() };
        drop_all(rare.twins.drain(..));
        rare.errors
    }

    /// Returns whether a slot was completed since the batch was last finished.
    pub(crate) fn has_some(&self) -> bool {
        self.references > 0 || !self.wakers.is_empty()
    }

    /// Takes over a reference, to be given back with others.
    ///
    /// # Safety
    /// The caller holds one, and does not use it afterwards.
    #[inline]
    unsafe fn give_back(&mut self, chunk: NonNull<Chunk>) {
        if self.chunk != Some(chunk) {
            self.settle_references();
            self.chunk = Some(chunk);
        }
        self.references += 1;
    }

    #[inline]
    fn settle_references(&mut self) {
        if let Some(chunk) = self.chunk.take() {
            // SAFETY: this many references were given to the batch, which forgets them.
            unsafe { release(chunk, std::mem::take(&mut self.references)) };
        }
    }

    fn wake(&mut self, waker: Option<Waker>) {
        // Neighbouring slots mostly belong to the same task, which one wake-up serves for all of them.
        let Some(waker) = waker else { return };
        match self.wakers.last() {
            Some(last) if last.will_wake(&waker) => self.rare.get_or_insert_default().twins.push(waker),
            _ => self.wakers.push(waker),
        }
    }

    fn forgotten(&mut self, payload: Payload) {
        if let Some(error) = payload.into_error() {
            self.rare.get_or_insert_default().errors.push(error);
        }
    }
}

impl Drop for Completions {
    fn drop(&mut self) {
        self.finish();
    }
}
