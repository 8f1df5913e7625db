//! Many short operations with one system call.
//!
//! Entering the kernel is a good part of what a short receive or send costs. So those that are due together go through a ring
//! of io_uring, which takes them all at once. It is used for nothing else: no operation in it ever waits, and when the call
//! returns every one has been tried and answered. Where there is no ring (an old kernel, or one that forbids it, as containers
//! often do), nothing is done here, and the caller does one after the other. Belongs to one thread at a time; the ring is made
//! when it is first wanted.

use std::io;

use io_uring::squeue::Entry;
use io_uring::{IoUring, Probe, opcode};

/// Operations that one system call does at most.
pub const OPERATIONS_MAX: usize = 256;

/// What does many operations at once, where the kernel has it.
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
    /// One that does nothing, as where the kernel has none.
    #[cfg(test)]
    pub fn missing() -> Self {
        Self(Ring::Missing)
    }

    /// Whether it does anything, as far as is known.
    #[inline]
    pub fn is_missing(&self) -> bool {
        matches!(self.0, Ring::Missing)
    }

    /// Tries each of these once, in their order, and notes what the kernel has answered to the one of this index. Of what was not
    /// tried, for whatever reason, nothing is noted.
    ///
    /// # Safety
    /// The sockets and the memory that an operation names must live until this returns, its flags must say that it does not
    /// wait, and into what it writes nobody else may look meanwhile.
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
                // SAFETY: what the operation names lives until this function returns. By then it is answered, or the kernel has
                // not taken it; then the ring, where it still stands, is dropped.
                count += usize::from(unsafe { queue.push(&operation.user_data(index)) }.is_ok());
            }
            drop(queue);
            if await_all(ring, count, &mut note).is_err() {
                // What it has not taken must never be done: the memory is gone soon.
                self.0 = Ring::Missing;
                return;
            }
        }
    }
}

/// A ring that knows how to receive and to send.
fn make() -> Option<IoUring> {
    let entries = OPERATIONS_MAX as u32;
    // Kernels before 5.19 do not know that a ring may wait for its thread to come by.
    let ring = IoUring::builder().setup_coop_taskrun().build(entries).or_else(|_| IoUring::new(entries)).ok()?;
    let mut probe = Probe::new();
    ring.submitter().register_probe(&mut probe).ok()?;
    (probe.is_supported(opcode::Recv::CODE) && probe.is_supported(opcode::Send::CODE)).then_some(ring)
}

/// Hands over so many operations and waits for every answer.
///
/// # Errors
/// The ring is out of order: what has no answer was not taken and will not be, once the ring is dropped.
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
