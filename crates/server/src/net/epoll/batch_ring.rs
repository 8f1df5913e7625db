//! Many short operations with one system call.
//!
//! Entering the kernel is a large part of the cost of a short receive or send. So those that are due together go through a
//! ring of io_uring, which takes them all at once. It is used for nothing else: no operation in it ever waits, and when the
//! call returns every one has been tried and answered. If there is no ring (an old kernel, or one that forbids it, as in many
//! containers), nothing is done here, and the caller does one operation after the other. Belongs to one thread at a time; the
//! ring is made when it is first wanted.

use std::io;

use io_uring::squeue::Entry;
use io_uring::{IoUring, Probe, opcode};

/// The most operations of one system call.
pub const OPERATIONS_MAX: usize = 256;

/// A ring for many operations at once, if the kernel has one.
#[derive(Default)]
pub struct BatchRing(Ring);

#[derive(Default)]
enum Ring {
    #[default]
    Unmade,
    Made(Box<IoUring>),
    Missing,
}

impl std::fmt::Debug for BatchRing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let state = match self.0 {
            Ring::Unmade => "unmade",
            Ring::Made(_) => "made",
            Ring::Missing => "missing",
        };
        write!(f, "BatchRing({state})")
    }
}

impl BatchRing {
    /// Makes a ring that does nothing, as if the kernel had none.
    #[cfg(test)]
    pub fn missing() -> Self {
        Self(Ring::Missing)
    }

    /// Returns whether it is known that there is no ring.
    #[inline]
    pub fn is_missing(&self) -> bool {
        matches!(self.0, Ring::Missing)
    }

    /// Tries each operation once, in order, and calls `note` with the index of each and the kernel's answer. If an operation
    /// was not tried, for any reason, `note` is not called for it.
    ///
    /// # Safety
    /// The sockets and the memory that an operation names must live until this returns, its flags must say that it does not
    /// wait, and no other code may read the memory that it writes to until then.
    #[inline]
    pub unsafe fn run(&mut self, operations: impl Iterator<Item = Entry>, mut note: impl FnMut(usize, i32)) {
        if matches!(self.0, Ring::Unmade) {
            self.0 = make().map_or(Ring::Missing, |ring| Ring::Made(Box::new(ring)));
        }
        let Ring::Made(ring) = &mut self.0 else { return };
        let mut operations = (0..).zip(operations).peekable();
        while operations.peek().is_some() {
            let mut queue = ring.submission();
            let mut count = 0;
            for (index, operation) in operations.by_ref().take(OPERATIONS_MAX) {
                // SAFETY: the memory that the operation names lives until this function returns. By then the operation is
                // answered, or the kernel has not taken it; in that case the ring is dropped.
                count += usize::from(unsafe { queue.push(&operation.user_data(index)) }.is_ok());
            }
            drop(queue);
            if await_all(ring, count, &mut note).is_err() {
                // Operations that the kernel has not taken must never run, because their memory will soon be invalid.
                self.0 = Ring::Missing;
                return;
            }
        }
    }
}

/// Makes a ring that can receive and send.
fn make() -> Option<IoUring> {
    let entries = OPERATIONS_MAX as u32;
    // Kernels before 5.19 do not know cooperative task running, with which the ring waits for its thread's next system call.
    let ring = IoUring::builder().setup_coop_taskrun().build(entries).or_else(|_| IoUring::new(entries)).ok()?;
    let mut probe = Probe::new();
    ring.submitter().register_probe(&mut probe).ok()?;
    (probe.is_supported(opcode::Recv::CODE) && probe.is_supported(opcode::Send::CODE)).then_some(ring)
}

/// Hands over so many operations and waits for every answer.
///
/// # Errors
/// The ring is out of order: an operation without an answer was not taken and will not be, once the ring is dropped.
fn await_all(ring: &mut IoUring, mut answers_left: usize, note: &mut impl FnMut(usize, i32)) -> io::Result<()> {
    while answers_left > 0 {
        let submitted = ring.submit_and_wait(answers_left);
        for answer in ring.completion() {
            answers_left = answers_left.saturating_sub(1);
            note(answer.user_data() as usize, answer.result());
        }
        match submitted {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
            _ => {}
        }
    }
    Ok(())
}
