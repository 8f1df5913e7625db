//! Many sends with one system call.
//!
//! Entering the kernel is about a fifth of what a short send costs. So sends that are due together go through a ring of
//! io_uring, which takes them all at once. It is used for nothing else: nothing in it ever waits, and when the call returns
//! every send has been tried and answered. Where there is no ring (an old kernel, or one that forbids it, as containers
//! often do), nothing is sent here, and the caller sends one by one. Belongs to one thread; the ring is made when it is
//! first wanted.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use io_uring::{IoUring, Probe, opcode, types};
use rustix::net::SendFlags;

/// Sends that one system call does at most.
const SENDS_MAX: usize = 256;

/// Sends that are gathered until they leave with one system call.
#[derive(Default)]
pub struct BatchedSend {
    ring: Ring,
    /// What became of each send: how many bytes have left, 0 if it was not done for whatever reason.
    sent: Vec<usize>,
}

#[derive(Default)]
enum Ring {
    #[default]
    Unmade,
    Made(Box<IoUring>),
    Missing,
}

impl std::fmt::Debug for BatchedSend {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let state = match self.ring {
            Ring::Unmade => "unmade",
            Ring::Made(_) => "made",
            Ring::Missing => "missing",
        };
        write!(f, "BatchedSend({state})")
    }
}

impl BatchedSend {
    /// Tries each of these once, in their order, and says how many bytes of each have left. None of them waits. A send that
    /// fails is said to have done nothing: whoever tries again learns why.
    pub fn send(&mut self, sends: &[(BorrowedFd<'_>, &[u8])]) -> &[usize] {
        self.sent.clear();
        self.sent.resize(sends.len(), 0);
        if matches!(self.ring, Ring::Unmade) {
            self.ring = make().map_or(Ring::Missing, |ring| Ring::Made(Box::new(ring)));
        }
        for (part, sent) in sends.chunks(SENDS_MAX).zip(self.sent.chunks_mut(SENDS_MAX)) {
            let Ring::Made(ring) = &mut self.ring else { break };
            if send_part(ring, part, sent).is_err() {
                // What it has not taken must never leave: the bytes are gone soon.
                self.ring = Ring::Missing;
            }
        }
        &self.sent
    }
}

/// A ring that knows how to send.
fn make() -> Option<IoUring> {
    let entries = SENDS_MAX as u32;
    // Kernels before 5.19 do not know that a ring may wait for its thread to come by.
    let ring = IoUring::builder().setup_coop_taskrun().build(entries).or_else(|_| IoUring::new(entries)).ok()?;
    let mut probe = Probe::new();
    ring.submitter().register_probe(&mut probe).ok()?;
    probe.is_supported(opcode::Send::CODE).then_some(ring)
}

/// Does all of these and waits for every answer.
///
/// # Errors
/// The ring is out of order: what has no answer was not taken and will not be, once the ring is dropped.
fn send_part(ring: &mut IoUring, sends: &[(BorrowedFd<'_>, &[u8])], sent: &mut [usize]) -> io::Result<()> {
    let flags = (SendFlags::NOSIGNAL | SendFlags::DONTWAIT).bits() as i32;
    for (index, (socket, bytes)) in sends.iter().enumerate() {
        let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        let entry = opcode::Send::new(types::Fd(socket.as_raw_fd()), bytes.as_ptr(), length).flags(flags).build();
        // SAFETY: the socket and the bytes live until this function returns. By then all sends are answered, or the kernel
        // has not taken them; then the ring, where they still stand, is dropped by the caller.
        let pushed = unsafe { ring.submission().push(&entry.user_data(index as u64)) };
        pushed.map_err(|_| io::Error::from(io::ErrorKind::OutOfMemory))?;
    }
    let mut answers_left = sends.len();
    while answers_left > 0 {
        let submitted = ring.submit_and_wait(answers_left);
        for answer in ring.completion() {
            answers_left = answers_left.saturating_sub(1);
            if let Some(sent) = sent.get_mut(answer.user_data() as usize) {
                *sent = usize::try_from(answer.result()).unwrap_or(0);
            }
        }
        match submitted {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn each_peer_gets_its_bytes_in_order_also_beyond_one_call() {
        let mut batched_send = BatchedSend::default();
        let pairs: Vec<_> = (0..2 * SENDS_MAX + 1).map(|_| UnixStream::pair().expect("a pair of sockets")).collect();
        let texts: Vec<String> = (0..pairs.len()).map(|number| format!("message {number}")).collect();
        let sends: Vec<_> = pairs.iter().zip(&texts).map(|((near, _), text)| (near.as_fd(), text.as_bytes())).collect();
        let sent = batched_send.send(&sends).to_vec();
        if sent.iter().all(|&sent| sent == 0) {
            // This kernel gives no ring.
            return;
        }
        for (((near, mut far), text), sent) in pairs.iter().map(|(near, far)| (near, far)).zip(&texts).zip(sent) {
            assert_eq!(sent, text.len());
            near.shutdown(std::net::Shutdown::Write).expect("it is open");
            let mut got = String::new();
            far.read_to_string(&mut got).expect("it is text");
            assert_eq!(&got, text);
        }
    }

    #[test]
    fn what_fails_or_finds_no_room_is_said_to_have_done_nothing() {
        let (closed, mut full, whole) = (UnixStream::pair(), UnixStream::pair(), UnixStream::pair());
        let ((closed, gone), whole) = (closed.expect("a pair"), whole.expect("a pair"));
        drop(gone);
        let (full, _unread) = full.as_mut().expect("a pair");
        full.set_nonblocking(true).expect("it is open");
        while full.write(&[0; 4096]).is_ok() {}
        let sends = [(closed.as_fd(), b"lost".as_slice()), (full.as_fd(), b"late"), (whole.0.as_fd(), b"here")];
        let mut batched_send = BatchedSend::default();
        let sent = batched_send.send(&sends);
        assert!(sent == [0, 0, 4] || sent == [0, 0, 0], "{sent:?}");
        let mut without_ring = BatchedSend { ring: Ring::Missing, ..BatchedSend::default() };
        assert_eq!(without_ring.send(&sends), [0, 0, 0]);
    }
}
