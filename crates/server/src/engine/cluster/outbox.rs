//! The messages of this node's clients that the bus sends to other nodes.
//!
//! A worker that executes PUBLISH or SPUBLISH puts the message here and wakes the thread of the bus. It does not wait for the
//! state machine. If the bus takes the messages too slowly, the oldest are dropped: messages are not kept for receivers that
//! are slow, as in Redis. Any thread.

use std::collections::VecDeque;

use parking_lot::Mutex;
use sleeve_cluster::packet::Message;

/// The most bytes of messages that wait for the bus.
const BYTES_MAX: usize = 64 << 20;

/// The messages, oldest first.
#[derive(Debug, Default)]
pub struct Outbox(Mutex<Waiting>);

#[derive(Debug, Default)]
struct Waiting {
    messages: VecDeque<Message>,
    bytes: usize,
    /// The number of messages that were dropped because too many waited.
    dropped: u64,
}

impl Outbox {
    /// Puts a message behind the others. Returns whether the bus has to be woken: it takes all messages that it finds.
    pub fn put(&self, message: Message) -> bool {
        let mut waiting = self.0.lock();
        let is_first = waiting.messages.is_empty();
        waiting.bytes += bytes_of(&message);
        waiting.messages.push_back(message);
        while waiting.bytes > BYTES_MAX
            && waiting.messages.len() > 1
            && let Some(oldest) = waiting.messages.pop_front()
        {
            waiting.bytes -= bytes_of(&oldest);
            waiting.dropped += 1;
        }
        is_first
    }

    /// Takes all messages.
    pub fn take(&self) -> VecDeque<Message> {
        let mut waiting = self.0.lock();
        waiting.bytes = 0;
        std::mem::take(&mut waiting.messages)
    }

    /// Returns the number of messages that were dropped.
    pub fn dropped(&self) -> u64 {
        self.0.lock().dropped
    }
}

fn bytes_of(message: &Message) -> usize {
    size_of::<Message>() + message.channel.len() + message.message.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(len: usize) -> Message {
        Message { channel: b"c".to_vec(), message: vec![b'm'; len], is_sharded: false }
    }

    #[test]
    fn the_first_message_wakes_the_bus_and_the_oldest_are_dropped() {
        let outbox = Outbox::default();
        assert!(outbox.put(message(1)) && !outbox.put(message(2)));
        assert_eq!(outbox.take().len(), 2);
        assert!(outbox.put(message(BYTES_MAX - 1_000)) && !outbox.put(message(1_000)));
        assert_eq!((outbox.take().len(), outbox.dropped()), (1, 1));
    }
}
