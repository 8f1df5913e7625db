//! A ring of io_uring: the operations that the driver asks of the kernel, and their completions.
//!
//! It knows no connection, only operations with the tokens for which they run. All memory to which the kernel may write
//! outside of a wait belongs to the ring, and outlives the operations under way: a ring that is dropped cancels all of them
//! and waits until they have ended, and if it cannot, it never frees the memory. Bytes that are sent belong to the caller,
//! but are never used after the call in which they are handed to the kernel: every send is tried once, and reports if any
//! bytes are left.
//!
//! A ring belongs to the thread that first waits with it ([`Ring::wait`]); others may not use it afterwards
//! (IORING_SETUP_SINGLE_ISSUER with IORING_SETUP_DEFER_TASKRUN: the kernel does its part within that thread's own calls).
//! Both need Linux 6.1, with which a send that was done in part reports that.

use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::thread::{self, ThreadId};

use io_uring::squeue::{Entry, Flags};
use io_uring::types::{CancelBuilder, Fd, SubmitArgs, Timespec};
use io_uring::{IoUring, cqueue, opcode};
use rustix::io::Errno;
use rustix::net::SendFlags;

use super::buffers::{BUFFERS, Buffers};
use crate::net::event::Token;

/// The most operations that are handed over with one call; more need several calls.
const SUBMISSIONS: u32 = 128;

/// The number of completions for which there is room before the kernel has to put them aside.
const COMPLETIONS: u32 = 1024;

/// The number by which the kernel knows the group of buffers.
const GROUP: u16 = 0;

/// `IORING_ENTER_GETEVENTS`: the kernel does its part of the due work, even in a call that does not wait.
const GET_EVENTS: u32 = 1;

/// An operation of the kernel, with the connection that it is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RingOperation {
    /// Receives until it is cancelled or fails.
    Receive(Token),
    /// Waits until a connection takes bytes again.
    AwaitRoom(Token),
    /// Waits until the client has disconnected.
    AwaitEnd(Token),
    /// Sends once.
    Send(Token),
    /// Waits until a connection arrives at a listener.
    Accept,
    /// Reads the number that the waker has written.
    Wake,
    /// Cancels other operations; its own outcome is ignored.
    Cancel,
}

/// A result of an operation, which may not be its last.
#[derive(Debug)]
pub struct Completion {
    /// The operation.
    pub operation: RingOperation,
    /// The kernel's answer: a number of bytes, or a descriptor, or its error.
    pub result: Result<u32, Errno>,
    /// This is the operation's last result.
    pub is_last: bool,
    /// The buffer that was filled.
    pub buffer: Option<u16>,
}

/// A ring, with the memory that the kernel uses for it.
#[derive(Debug)]
pub struct Ring {
    ring: ManuallyDrop<RawRing>,
    buffers: ManuallyDrop<Buffers>,
    /// The place to which the kernel writes the waker's number.
    woken: ManuallyDrop<Box<u64>>,
    /// The thread that waits with it.
    owner: Option<ThreadId>,
    /// The number of operations that have not ended; they may use the memory until then.
    under_way: usize,
    /// A wait has failed: the operations that were about to be handed over must not be any more.
    is_broken: bool,
}

/// The type of the crate `io-uring`, which has no debug output.
struct RawRing(IoUring);

impl std::fmt::Debug for RawRing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("IoUring")
    }
}

impl Ring {
    /// Creates a ring that no thread uses yet.
    ///
    /// # Errors
    /// The kernel has no such ring (before 6.1), or does not let this process have one.
    pub fn new() -> io::Result<Self> {
        let ring = IoUring::builder()
            .setup_r_disabled()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_coop_taskrun()
            .setup_submit_all()
            .setup_cqsize(COMPLETIONS)
            .dontfork()
            .build(SUBMISSIONS)?;
        let buffers = Buffers::new();
        // SAFETY: the buffers are freed only after the ring, or never.
        unsafe { ring.submitter().register_buf_ring_with_flags(buffers.address(), BUFFERS, GROUP, 0)? };
        Ok(Self {
            ring: ManuallyDrop::new(RawRing(ring)),
            buffers: ManuallyDrop::new(buffers),
            woken: ManuallyDrop::new(Box::new(0)),
            owner: None,
            under_way: 0,
            is_broken: false,
        })
    }

    /// Returns the buffers into which it receives.
    #[inline]
    pub fn buffers(&mut self) -> &mut Buffers {
        &mut self.buffers
    }

    /// Starts receiving from a connection.
    pub fn receive(&mut self, token: Token, socket: BorrowedFd<'_>) -> io::Result<()> {
        let entry = opcode::RecvMulti::new(Fd(socket.as_raw_fd()), GROUP).build();
        // SAFETY: the kernel writes only to the ring's own buffers. It holds the socket itself once it has the entry, which
        // is before the socket can be closed: the driver hands over the operations that it has pushed within the same wait.
        unsafe { self.push(entry, RingOperation::Receive(token)) }
    }

    /// Waits for the events `flags` of `poll(2)`, once.
    pub fn poll(&mut self, operation: RingOperation, socket: BorrowedFd<'_>, flags: i16) -> io::Result<()> {
        let entry = opcode::PollAdd::new(Fd(socket.as_raw_fd()), flags as u32).build();
        // SAFETY: the operation uses no memory.
        unsafe { self.push(entry, operation) }
    }

    /// Reads the number that the waker writes, once.
    pub fn await_waker(&mut self, waker: BorrowedFd<'_>) -> io::Result<()> {
        let into: *mut u64 = &mut **self.woken;
        let entry = opcode::Read::new(Fd(waker.as_raw_fd()), into.cast(), size_of::<u64>() as u32).build();
        // SAFETY: the number has memory of its own, which is freed when no operation is under way any more, or never. Only
        // one such read is under way at a time, and no other code uses the number.
        unsafe { self.push(entry, RingOperation::Wake) }
    }

    /// Cancels an operation; the operation's completion reports that.
    pub fn cancel(&mut self, operation: RingOperation) -> io::Result<()> {
        let entry = opcode::AsyncCancel::new(operation.encode()).build().flags(Flags::SKIP_SUCCESS);
        // SAFETY: the operation uses no memory.
        unsafe { self.push(entry, RingOperation::Cancel) }
    }

    /// Tries to send these bytes, once. If all of them were sent, there is no completion.
    ///
    /// # Safety
    /// The bytes must stay as they are until [`Ring::wait`] has returned.
    #[inline]
    pub unsafe fn send(&mut self, token: Token, socket: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<()> {
        let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        // With this flag, a send that does not send all bytes counts as failed, and is reported although success is not.
        let flags = (SendFlags::NOSIGNAL | SendFlags::DONTWAIT).bits() as i32 | libc::MSG_WAITALL;
        let entry = opcode::Send::new(Fd(socket.as_raw_fd()), bytes.as_ptr(), length).flags(flags).build();
        // SAFETY: the caller keeps the bytes until the kernel has tried to send them, which it does when it takes the entry.
        unsafe { self.push(entry.flags(Flags::SKIP_SUCCESS), RingOperation::Send(token)) }
    }

    /// Pushes an operation, to be handed over with the next wait.
    ///
    /// # Safety
    /// The memory that the entry names must live as long as the kernel may use it.
    #[inline]
    unsafe fn push(&mut self, entry: Entry, operation: RingOperation) -> io::Result<()> {
        let entry = entry.user_data(operation.encode());
        self.under_way += usize::from(operation.lasts());
        // SAFETY: as the caller guarantees.
        while unsafe { self.ring.0.submission().push(&entry).is_err() } {
            self.submit()?;
        }
        Ok(())
    }

    /// Hands over all pushed operations, and waits for a completion or until the timeout; a timeout of 0 does not wait.
    ///
    /// # Errors
    /// The errors of the kernel; an interruption is no error.
    pub fn wait(&mut self, timeout_ms: u64, into: &mut Vec<Completion>) -> io::Result<()> {
        let waited = self.try_wait(timeout_ms, into);
        self.is_broken |= waited.is_err();
        waited
    }

    fn try_wait(&mut self, timeout_ms: u64, into: &mut Vec<Completion>) -> io::Result<()> {
        if timeout_ms == 0 {
            self.submit()?;
        } else {
            self.begin()?;
            let timeout = Timespec::new().sec(timeout_ms / 1_000).nsec((timeout_ms % 1_000 * 1_000_000) as u32);
            let entered = self.ring.0.submitter().submit_with_args(1, &SubmitArgs::new().timespec(&timeout));
            permit(entered)?;
        }
        while !self.ring.0.submission().is_empty() {
            self.submit()?;
        }
        self.collect(into);
        while self.ring.0.submission().cq_overflow() {
            self.submit()?;
            self.collect(into);
        }
        Ok(())
    }

    /// Cancels all operations under way, and waits until they have ended.
    ///
    /// # Errors
    /// The errors of the kernel, or that the ring belongs to another thread: then operations may still be under way.
    pub fn end_all(&mut self, into: &mut Vec<Completion>) -> io::Result<()> {
        if self.under_way == 0 {
            return Ok(());
        }
        if self.is_broken || self.owner != Some(thread::current().id()) {
            return Err(io::Error::other("what is under way cannot be ended"));
        }
        let entry = opcode::AsyncCancel2::new(CancelBuilder::any()).build();
        // SAFETY: the operation uses no memory.
        unsafe { self.push(entry, RingOperation::Cancel)? };
        while self.under_way > 0 {
            permit(self.ring.0.submit_and_wait(1))?;
            self.collect(into);
        }
        Ok(())
    }

    /// Makes the ring this thread's, if it has no owner.
    #[inline]
    fn begin(&mut self) -> io::Result<()> {
        if self.owner.is_none() {
            self.ring.0.submitter().register_enable_rings()?;
            self.owner = Some(thread::current().id());
        }
        Ok(())
    }

    /// Hands over the pushed operations, and lets the kernel do the due work.
    fn submit(&mut self) -> io::Result<()> {
        // There may be more operations than there is room for before the first wait.
        self.begin()?;
        let count = self.ring.0.submission().len() as u32;
        // SAFETY: the call reads the entries that were pushed, and takes no argument.
        permit(unsafe { self.ring.0.submitter().enter::<libc::sigset_t>(count, 0, GET_EVENTS, None) })
    }

    fn collect(&mut self, into: &mut Vec<Completion>) {
        for entry in self.ring.0.completion() {
            let completion = Completion::read(&entry);
            self.under_way -= usize::from(completion.is_last && completion.operation.lasts());
            into.push(completion);
        }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        let has_ended = self.end_all(&mut Vec::new()).is_ok();
        // SAFETY: none of the three is used after this.
        unsafe {
            ManuallyDrop::drop(&mut self.ring);
            if has_ended {
                ManuallyDrop::drop(&mut self.buffers);
                ManuallyDrop::drop(&mut self.woken);
            }
        }
    }
}

/// Accepts the results of a wait that are no errors: the timeout, a signal, no room in the kernel for the moment.
fn permit(entered: io::Result<usize>) -> io::Result<()> {
    match entered.as_ref().err().and_then(io::Error::raw_os_error) {
        Some(libc::ETIME | libc::EINTR | libc::EAGAIN | libc::EBUSY) => Ok(()),
        _ => entered.map(drop),
    }
}

impl RingOperation {
    /// Returns whether the operation goes on after the call with which it was handed over.
    fn lasts(self) -> bool {
        !matches!(self, Self::Send(_) | Self::Cancel)
    }

    fn encode(self) -> u64 {
        let (kind, number) = match self {
            Self::Receive(token) => (0, token),
            Self::Send(token) => (1, token),
            Self::AwaitRoom(token) => (2, token),
            Self::AwaitEnd(token) => (3, token),
            Self::Accept => (4, 0),
            Self::Wake => (5, 0),
            Self::Cancel => (6, 0),
        };
        (kind << KIND_SHIFT) | number as u64
    }

    fn decode(data: u64) -> Self {
        let number = (data & ((1 << KIND_SHIFT) - 1)) as usize;
        match data >> KIND_SHIFT {
            0 => Self::Receive(number),
            1 => Self::Send(number),
            2 => Self::AwaitRoom(number),
            3 => Self::AwaitEnd(number),
            4 => Self::Accept,
            5 => Self::Wake,
            _ => Self::Cancel,
        }
    }
}

/// The number of bits below those that give the kind of the operation.
const KIND_SHIFT: u32 = 56;

impl Completion {
    fn read(entry: &cqueue::Entry) -> Self {
        let (result, flags) = (entry.result(), entry.flags());
        Self {
            operation: RingOperation::decode(entry.user_data()),
            result: u32::try_from(result).map_err(|_| Errno::from_raw_os_error(-result)),
            is_last: !cqueue::more(flags),
            buffer: cqueue::buffer_select(flags),
        }
    }
}
