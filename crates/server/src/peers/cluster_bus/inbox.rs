//! The bytes that have arrived on a link, cut into packets.
//!
//! The length that a packet states is judged from its first 16 bytes, before more of it is kept. Memory grows with the bytes
//! that have arrived, never with a stated length, and is given back after a large packet.

use std::fmt;

use sleeve_cluster::packet::{self, Malformed};

/// The memory that is kept while no packet is incomplete.
const KEPT_BYTES: usize = 16 << 10;

/// The reason why a link cannot go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unfit {
    /// The next bytes begin no packet.
    Malformed(Malformed),
    /// The next packet is longer than this link may send.
    TooLong(usize),
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed(fault) => fault.fmt(f),
            Self::TooLong(bytes) => write!(f, "a node that is not known may not send a packet of {bytes} bytes"),
        }
    }
}

/// The bytes that have arrived and were not taken.
#[derive(Debug, Default)]
pub(super) struct Inbox {
    bytes: Vec<u8>,
    taken: usize,
}

impl Inbox {
    /// Adds bytes behind the others.
    pub fn add(&mut self, arrived: &[u8]) {
        self.bytes.extend_from_slice(arrived);
    }

    /// Returns the next whole packet. None if it has not arrived completely.
    ///
    /// # Errors
    /// The next bytes begin no packet of at most `bytes_max` bytes. The link is of no use any more.
    pub fn next(&mut self, bytes_max: usize) -> Result<Option<&[u8]>, Unfit> {
        let rest = self.bytes.get(self.taken..).unwrap_or_default();
        let Some(length) = packet::frame_length(rest).map_err(Unfit::Malformed)? else { return Ok(None) };
        if length > bytes_max {
            return Err(Unfit::TooLong(length));
        }
        let Some(frame) = rest.get(..length) else { return Ok(None) };
        self.taken += length;
        Ok(Some(frame))
    }

    /// Gives back the memory of the packets that were taken.
    pub fn tidy(&mut self) {
        self.bytes.drain(..self.taken);
        self.taken = 0;
        if self.bytes.is_empty() {
            self.bytes.shrink_to(KEPT_BYTES);
        }
    }

    /// Returns the bytes of memory that are in use.
    #[cfg(test)]
    pub fn memory(&self) -> usize {
        self.bytes.capacity()
    }
}

#[cfg(test)]
mod tests {
    use sleeve_cluster::packet::{Message, Packet};

    use super::*;

    fn packet(bytes: usize) -> Vec<u8> {
        Packet::Light(Message { channel: b"c".to_vec(), message: vec![b'm'; bytes], is_sharded: false }).encode()
    }

    #[test]
    fn packets_are_cut_out_however_their_bytes_arrive() {
        let stream = [packet(0), packet(5), packet(70_000), packet(1)].concat();
        for step in [1, 7, 16, 25, 1_000, stream.len()] {
            let (mut inbox, mut lengths) = (Inbox::default(), Vec::new());
            for piece in stream.chunks(step) {
                inbox.add(piece);
                while let Some(frame) = inbox.next(usize::MAX).expect("packets") {
                    lengths.push(frame.len());
                }
                inbox.tidy();
            }
            assert_eq!(lengths, [25, 30, 70_025, 26], "pieces of {step} bytes");
            assert!(inbox.memory() <= KEPT_BYTES);
        }
    }

    #[test]
    fn a_stated_length_takes_no_memory() {
        let mut inbox = Inbox::default();
        let mut head = packet(0);
        head[4..8].copy_from_slice(&(1_u32 << 30).to_be_bytes());
        inbox.add(&head);
        assert_eq!(inbox.next(usize::MAX), Ok(None));
        assert!(inbox.memory() < 1_000);
        assert_eq!(inbox.next(1 << 20), Err(Unfit::TooLong(1 << 30)));
    }

    #[test]
    fn bytes_that_are_no_packet_are_refused_from_the_first() {
        let mut inbox = Inbox::default();
        inbox.add(b"P");
        assert_eq!(inbox.next(usize::MAX), Err(Unfit::Malformed(Malformed::Signature)));
    }
}
