//! Many sends with one system call: those that are due together. Belongs to one thread at a time.

use std::os::fd::{AsRawFd, BorrowedFd};

use io_uring::{opcode, types};
use rustix::net::SendFlags;

use super::batch_ring::BatchRing;

/// The working memory for sends with one system call.
#[derive(Debug, Default)]
pub struct BatchedSend {
    /// The outcome of each send: the number of sent bytes, 0 if it was not done for any reason.
    sent: Vec<usize>,
}

impl BatchedSend {
    /// Tries each send once, in order, and returns how many bytes of each were sent. No send waits. A failed send counts as 0
    /// bytes: the next send finds the reason.
    pub fn send(&mut self, ring: &mut BatchRing, sends: &[(BorrowedFd<'_>, &[u8])]) -> &[usize] {
        self.sent.clear();
        self.sent.resize(sends.len(), 0);
        let flags = (SendFlags::NOSIGNAL | SendFlags::DONTWAIT).bits() as i32;
        let operations = sends.iter().map(|(socket, bytes)| {
            let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
            opcode::Send::new(types::Fd(socket.as_raw_fd()), bytes.as_ptr(), length).flags(flags).build()
        });
        let note = |index: usize, answer| self.sent[index] = usize::try_from(answer).unwrap_or(0);
        // SAFETY: the sockets and the bytes are borrowed until this function returns.
        unsafe { ring.run(operations, note) };
        &self.sent
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    use super::super::batch_ring::OPERATIONS_MAX;
    use super::*;

    #[test]
    fn each_peer_gets_its_bytes_in_order_also_beyond_one_call() {
        let mut batched_send = BatchedSend::default();
        let pairs: Vec<_> =
            (0..2 * OPERATIONS_MAX + 1).map(|_| UnixStream::pair().expect("a pair of sockets")).collect();
        let texts: Vec<String> = (0..pairs.len()).map(|number| format!("message {number}")).collect();
        let sends: Vec<_> = pairs.iter().zip(&texts).map(|((near, _), text)| (near.as_fd(), text.as_bytes())).collect();
        let sent = batched_send.send(&mut BatchRing::default(), &sends).to_vec();
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
        let sent = batched_send.send(&mut BatchRing::default(), &sends);
        assert!(sent == [0, 0, 4] || sent == [0, 0, 0], "{sent:?}");
        assert_eq!(batched_send.send(&mut BatchRing::missing(), &sends), [0, 0, 0]);
    }
}
