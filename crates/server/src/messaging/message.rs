//! A published message, shared by all its subscribers.
//!
//! A message is encoded as reply bytes once for each protocol and each pattern, for any number of subscribers, by the first
//! thread that needs the form; after that it is a shared reference. Immutable; any thread.

use std::sync::{Arc, OnceLock};

use sleeve_wire::reply::{Protocol, Writer};

/// The kind of a subscription.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub enum Kind {
    /// A channel.
    Channel,
    /// All channels that match a pattern.
    Pattern,
    /// A shard channel.
    Shard,
    /// The commands of all clients: MONITOR.
    Monitor,
}

impl Kind {
    /// The kinds, in their order.
    pub const ALL: [Self; KINDS] = [Self::Channel, Self::Pattern, Self::Shard, Self::Monitor];
}

/// The number of kinds.
pub const KINDS: usize = 4;

/// The form in which a subscriber gets a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// The form for a subscriber of the channel.
    Plain,
    /// The form for a subscriber of the pattern with this number.
    Matched(usize),
}

impl Form {
    /// Returns the bytes of a message in this form.
    pub fn bytes(self, message: &Message, protocol: Protocol) -> &Arc<Vec<u8>> {
        match self {
            Self::Plain => message.bytes(protocol),
            Self::Matched(index) => message.pattern_bytes(index, protocol),
        }
    }
}

/// The reply bytes of one form, by protocol.
type Forms = [OnceLock<Arc<Vec<u8>>>; 2];

/// A published message, shared by all its receivers.
#[derive(Debug)]
pub struct Message {
    /// The kind of the channel: a channel, a shard channel, or the commands for MONITOR.
    pub kind: Kind,
    /// The channel.
    pub channel: Arc<[u8]>,
    /// The patterns with subscribers that match the channel.
    pub patterns: Vec<Arc<[u8]>>,
    /// The message's number; a client that subscribed at this number or later does not get it.
    pub number: u64,
    /// The client that published it; this client gets it with its reply instead.
    pub except: Option<u64>,
    payload: Box<[u8]>,
    plain: Forms,
    matched: Vec<Forms>,
}

impl Message {
    /// Makes a message to the subscribers of a channel and of these patterns.
    pub fn new(
        (kind, channel): (Kind, Arc<[u8]>),
        patterns: Vec<Arc<[u8]>>,
        payload: &[u8],
        (number, except): (u64, Option<u64>),
    ) -> Self {
        let matched = patterns.iter().map(|_| Forms::default()).collect();
        Self { kind, channel, patterns, number, except, payload: payload.into(), plain: Forms::default(), matched }
    }

    /// Returns the bytes for subscribers of the channel.
    pub fn bytes(&self, protocol: Protocol) -> &Arc<Vec<u8>> {
        let word: &[u8] = match self.kind {
            // The payload is a complete reply already.
            Kind::Monitor => return self.plain[0].get_or_init(|| Arc::new(self.payload.to_vec())),
            Kind::Shard => b"smessage",
            Kind::Channel | Kind::Pattern => b"message",
        };
        self.plain[form(protocol)].get_or_init(|| write(protocol, &[word, &self.channel, &self.payload]))
    }

    /// Returns the bytes for subscribers of pattern number `index`.
    pub fn pattern_bytes(&self, index: usize, protocol: Protocol) -> &Arc<Vec<u8>> {
        let pattern = &self.patterns[index];
        let words = || [b"pmessage".as_slice(), pattern, &self.channel, &self.payload];
        self.matched[index][form(protocol)].get_or_init(|| write(protocol, &words()))
    }

    /// Returns the bytes of the published message that it holds.
    pub fn len(&self) -> usize {
        self.payload.len() + self.channel.len()
    }
}

fn form(protocol: Protocol) -> usize {
    usize::from(protocol == Protocol::Resp3)
}

fn write(protocol: Protocol, words: &[&[u8]]) -> Arc<Vec<u8>> {
    let mut bytes = Vec::with_capacity(words.iter().map(|word| word.len() + 16).sum());
    let mut reply = Writer::new(&mut bytes, protocol);
    reply.push(words.len());
    words.iter().for_each(|word| reply.bulk(word));
    Arc::new(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_has_one_form_for_each_protocol_and_pattern() {
        let message =
            Message::new((Kind::Channel, b"c".as_slice().into()), vec![b"?".as_slice().into()], b"hi", (1, None));
        assert_eq!(**message.bytes(Protocol::Resp3), b">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$2\r\nhi\r\n");
        assert!(
            message.pattern_bytes(0, Protocol::Resp2).starts_with(b"*4\r\n$8\r\npmessage\r\n$1\r\n?\r\n$1\r\nc\r\n")
        );
        assert!(Arc::ptr_eq(message.bytes(Protocol::Resp2), message.bytes(Protocol::Resp2)));
    }
}
