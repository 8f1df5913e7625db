//! The packets that wait to be sent over a link.
//!
//! Control packets leave before messages, so that published messages never delay a PING into a timeout. A packet that has
//! begun to leave is finished first. If the peer takes its bytes too slowly, the oldest messages are dropped. Control packets
//! are never dropped: if too many wait, the link is of no use and is closed.

use std::collections::VecDeque;
use std::sync::Arc;

use sleeve_cluster::action::Priority;

/// The most bytes of messages that wait.
const MESSAGE_BYTES_MAX: usize = 64 << 20;

/// The most bytes of control packets that wait: thousands of packets.
const CONTROL_BYTES_MAX: usize = 8 << 20;

/// The packets of one link that wait, in two queues.
#[derive(Debug, Default)]
pub(super) struct SendQueue {
    control: Waiting,
    messages: Waiting,
    /// The packet that is leaving, and the number of its bytes that have left.
    head: Option<(Arc<[u8]>, usize)>,
    /// The number of messages that were dropped.
    dropped: u64,
}

#[derive(Debug, Default)]
struct Waiting {
    packets: VecDeque<Arc<[u8]>>,
    bytes: usize,
}

impl Waiting {
    fn push(&mut self, packet: Arc<[u8]>) {
        self.bytes += packet.len();
        self.packets.push_back(packet);
    }

    fn pop(&mut self) -> Option<Arc<[u8]>> {
        let packet = self.packets.pop_front()?;
        self.bytes -= packet.len();
        Some(packet)
    }
}

impl SendQueue {
    /// Puts a packet behind the others of its priority. Returns false if so many control packets wait that the link is of no
    /// use any more.
    pub fn put(&mut self, packet: Arc<[u8]>, priority: Priority) -> bool {
        match priority {
            Priority::Control => self.control.push(packet),
            Priority::Message => self.messages.push(packet),
        }
        while self.messages.bytes > MESSAGE_BYTES_MAX && self.messages.packets.len() > 1 {
            self.messages.pop();
            self.dropped += 1;
        }
        self.control.bytes <= CONTROL_BYTES_MAX
    }

    /// Moves about `wanted` bytes, those that are to leave first, to the end of `out`.
    pub fn take(&mut self, wanted: usize, out: &mut Vec<u8>) {
        let mut left = wanted;
        while left > 0 {
            let next = || self.control.pop().or_else(|| self.messages.pop()).map(|packet| (packet, 0));
            let Some((packet, sent)) = self.head.take().or_else(next) else { return };
            let end = packet.len().min(sent + left);
            out.extend_from_slice(packet.get(sent..end).unwrap_or_default());
            left -= end - sent;
            if end < packet.len() {
                self.head = Some((packet, end));
            }
        }
    }

    /// Returns whether nothing waits.
    #[cfg(test)]
    pub fn is_empty(&self) -> bool {
        self.head.is_none() && self.control.packets.is_empty() && self.messages.packets.is_empty()
    }

    /// Returns the bytes that wait.
    pub fn bytes(&self) -> usize {
        let leaving = self.head.as_ref().map_or(0, |(packet, sent)| packet.len() - sent);
        leaving + self.control.bytes + self.messages.bytes
    }

    /// Returns the number of messages that were dropped since the last call.
    pub fn take_dropped(&mut self) -> u64 {
        std::mem::take(&mut self.dropped)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(queue: &mut SendQueue, byte: u8, len: usize, priority: Priority) -> bool {
        queue.put(vec![byte; len].into(), priority)
    }

    fn take(queue: &mut SendQueue, wanted: usize) -> Vec<u8> {
        let mut out = Vec::new();
        queue.take(wanted, &mut out);
        out
    }

    #[test]
    fn control_packets_leave_before_messages_that_came_first() {
        let mut queue = SendQueue::default();
        put(&mut queue, b'a', 3, Priority::Message);
        put(&mut queue, b'b', 3, Priority::Message);
        assert_eq!(take(&mut queue, 2), b"aa");
        put(&mut queue, b'P', 2, Priority::Control);
        put(&mut queue, b'Q', 2, Priority::Control);
        assert_eq!(queue.bytes(), 8);
        assert_eq!(take(&mut queue, 100), b"aPPQQbbb", "a packet that has begun to leave is finished");
        assert!(queue.is_empty() && queue.bytes() == 0);
    }

    #[test]
    fn the_oldest_messages_are_dropped_and_no_control_packet_is() {
        let mut queue = SendQueue::default();
        put(&mut queue, b'P', 2, Priority::Control);
        for byte in b'a'..=b'z' {
            put(&mut queue, byte, 8 << 20, Priority::Message);
        }
        assert_eq!((queue.take_dropped(), queue.take_dropped()), (18, 0));
        assert_eq!(queue.bytes(), MESSAGE_BYTES_MAX + 2);
        assert_eq!(take(&mut queue, 3), b"PPs");
        assert!(put(&mut queue, b'!', 100 << 20, Priority::Message), "one message of any length may wait");
        assert_eq!(queue.messages.packets.len(), 1);
    }

    #[test]
    fn a_peer_that_takes_no_control_packets_is_given_up() {
        let mut queue = SendQueue::default();
        let count = CONTROL_BYTES_MAX / 2_256;
        assert!((0..count).all(|_| put(&mut queue, b'P', 2_256, Priority::Control)));
        assert!(!put(&mut queue, b'P', 2_256, Priority::Control));
    }
}
