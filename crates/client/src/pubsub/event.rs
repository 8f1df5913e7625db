//! The events of a subscription: messages, and notices that some may be missing.
//!
//! The reader decodes them, on its own thread. This module takes bytes and gives values; no socket, no clock.

use sleeve_wire::frame::{Frame, decode};

use super::names::SubscriptionVerb;
use crate::error::Error;
use crate::resp::decode::FromReply;

/// An event of a [`Subscription`](crate::Subscription).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SubscriptionEvent {
    /// A published message.
    Message(Message),
    /// The connection was lost, and made again just now: messages that were published in between are missing.
    Resumed,
}

impl SubscriptionEvent {
    /// Returns the message, if it is one.
    pub fn into_message(self) -> Option<Message> {
        match self {
            Self::Message(message) => Some(message),
            Self::Resumed => None,
        }
    }
}

/// A published message.
///
/// ```
/// # #[cfg(feature = "embedded")] {
/// use sleeve::{Client, prelude::*};
///
/// let client = Client::embedded();
/// let subscription = client.psubscribe("room:*")?;
/// client.publish("room:3", 42).wait()?;
/// let message = subscription.recv().wait()?.into_message().expect("nothing was lost");
/// assert_eq!(message.channel_text(), "room:3");
/// assert_eq!(message.pattern.as_deref(), Some(b"room:*".as_slice()));
/// assert_eq!(message.payload_as::<i64>()?, 42);
/// # }
/// # Ok::<(), sleeve::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// The channel on which it was published.
    pub channel: Vec<u8>,
    /// The pattern by which it was received, if it was subscribed by one.
    pub pattern: Option<Vec<u8>>,
    /// The content of the message.
    pub payload: Vec<u8>,
}

impl Message {
    /// Returns the channel as text; bytes that are not UTF-8 are replaced.
    pub fn channel_text(&self) -> String {
        String::from_utf8_lossy(&self.channel).into_owned()
    }

    /// Returns the payload as any type that a reply can be turned into.
    ///
    /// # Errors
    /// [`ErrorKind::Conversion`](crate::ErrorKind::Conversion) if the payload is not of this type.
    pub fn payload_as<T: FromReply>(&self) -> Result<T, Error> {
        T::from_reply(Frame::Bulk(&self.payload))
    }
}

/// The content of a frame on a subscriber's connection.
pub(crate) enum PubSubFrame {
    /// The confirmation of one name that was added, or removed.
    Confirmed(SubscriptionVerb),
    /// A message.
    Message(Message),
    /// The server's refusal.
    Refused(Error),
    /// A frame that does not concern a subscription.
    Other,
}

/// Reads a frame, which has been cut out whole.
pub(crate) fn read(frame: &[u8]) -> PubSubFrame {
    let items = match decode(frame) {
        Ok((Frame::Push(items) | Frame::Array(items), _)) => items,
        Ok((Frame::Error(text), _)) => return PubSubFrame::Refused(Error::server(text)),
        _ => return PubSubFrame::Other,
    };
    // A message never has more words, even if it claims so.
    let words: Vec<Frame<'_>> = items.filter_map(Result::ok).take(5).collect();
    match words.as_slice() {
        [Frame::Bulk(b"message" | b"smessage"), Frame::Bulk(channel), Frame::Bulk(payload)] => {
            PubSubFrame::Message(Message { channel: channel.to_vec(), pattern: None, payload: payload.to_vec() })
        }
        [Frame::Bulk(b"pmessage"), Frame::Bulk(pattern), Frame::Bulk(channel), Frame::Bulk(payload)] => {
            let pattern = Some(pattern.to_vec());
            PubSubFrame::Message(Message { channel: channel.to_vec(), pattern, payload: payload.to_vec() })
        }
        [Frame::Bulk(word), ..] => SubscriptionVerb::confirmed(word).map_or(PubSubFrame::Other, PubSubFrame::Confirmed),
        _ => PubSubFrame::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_read_in_both_protocols() {
        for mark in ["*", ">"] {
            let bytes = format!("{mark}4\r\n$8\r\npmessage\r\n$1\r\n*\r\n$1\r\nc\r\n$2\r\n42\r\n");
            let PubSubFrame::Message(message) = read(bytes.as_bytes()) else { panic!("a message") };
            assert_eq!((message.channel_text(), message.payload_as::<i64>()), ("c".into(), Ok(42)));
            assert_eq!(message.pattern.as_deref(), Some(b"*".as_slice()));
        }
        assert!(matches!(
            read(b"*3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n"),
            PubSubFrame::Confirmed(SubscriptionVerb::Subscribe)
        ));
        assert!(matches!(read(b"-NOPERM no\r\n"), PubSubFrame::Refused(_)));
        assert!(matches!(read(b"*2\r\n$10\r\ninvalidate\r\n*-1\r\n"), PubSubFrame::Other));
    }
}
