//! Who waits until the server's disk has what a reply shows.
//!
//! A Sleeve server that was asked to says behind its replies up to which offset of its journal they show what was done, and
//! up to which its disk has it (CLIENT JOURNAL). The first such message behind a reply covers it; when the disk has got so far
//! the reply's effect is synced. Whoever enters here has its reply already, so the next message covers it, and a request is sent
//! behind whose own reply one is sure to come, unless one is on its way.
//!
//! It takes bytes and gives bytes: no socket, no clock, no thread. The reader owns it; the reader's lock guards it.

use sleeve_wire::frame::{Frame, decode};

use super::slot::{Completions, Payload, Target};
use crate::error::{Effect, Error, ErrorKind};
use crate::request::name::Name;

/// Asks to be told; said again it changes nothing, but its reply has a message behind it too.
pub(crate) const FOLLOW: &[u8] = b"*3\r\n$6\r\nCLIENT\r\n$7\r\nJOURNAL\r\n$2\r\nON\r\n";

/// With what a message about the journal begins.
pub(crate) const MESSAGE: &[u8] = b">3\r\n$7\r\njournal\r\n";

/// What is said when something is synced: as WAITAOF says it.
pub(crate) const IS_SYNCED: &[u8] = b"*2\r\n:1\r\n:0\r\n";

/// What a message says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct SyncMessage {
    /// The replies so far show nothing that stands behind this offset.
    shown: i64,
    /// The disk has everything up to this offset; none where nobody will ever know.
    synced: Option<i64>,
}

impl SyncMessage {
    fn of(message: &[u8]) -> Option<Self> {
        let Ok((Frame::Push(mut items), _)) = decode(message) else { return None };
        match (items.next()?.ok()?, items.next()?.ok()?, items.next()?.ok()?) {
            (Frame::Bulk(b"journal"), Frame::Integer(shown), Frame::Integer(synced)) => {
                Some(Self { shown, synced: Some(synced) })
            }
            (Frame::Bulk(b"journal"), Frame::Integer(shown), Frame::Null) => Some(Self { shown, synced: None }),
            _ => None,
        }
    }
}

/// Who waits on one connection, and what is known of its server.
#[derive(Default)]
pub(crate) struct Synced {
    waiting: Vec<Waiting>,
    /// A request to be told is on its way.
    is_asking: bool,
    /// Why this server will not tell.
    refusal: Option<Error>,
}

struct Waiting {
    /// Up to which offset the reply shows the journal, once that was said.
    shown: Option<i64>,
    issued_ms: u32,
    target: Target,
}

impl Synced {
    /// Why nobody will be told on this connection, if that is so.
    pub(crate) fn refusal(&self) -> Option<&Error> {
        self.refusal.as_ref()
    }

    /// Whether nobody waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Enters somebody whose reply is there already. Whether [`FOLLOW`] is to be sent now.
    pub(crate) fn enter(&mut self, target: Target, now_ms: u32) -> bool {
        self.waiting.push(Waiting { shown: None, issued_ms: now_ms, target });
        !std::mem::replace(&mut self.is_asking, true)
    }

    /// [`FOLLOW`] was answered.
    pub(crate) fn answered(&mut self, reply: &[u8], done: &mut Completions) {
        self.is_asking = false;
        if let Some(refused) = Payload::of(reply).into_error() {
            let error = Error::new(
                ErrorKind::Server,
                Effect::Answered,
                format!(
                    "it is done, but this server does not say on a shared connection when it is synced ({}): send the command by \
                     client.lease(), and ask its reply there",
                    refused.message()
                ),
            );
            self.fail(&error, done);
            self.refusal = Some(error);
        }
    }

    /// A message has come. All who wait have their replies, so it covers those that were not covered yet.
    pub(crate) fn told(&mut self, message: &[u8], done: &mut Completions) {
        let Some(told) = SyncMessage::of(message) else { return };
        let Some(synced) = told.synced else {
            let error = Error::new(
                ErrorKind::Server,
                Effect::Answered,
                "it is done, but the server never knows what is synced: it needs 'appendonly yes', and 'appendfsync everysec' or \
                 'always'",
            );
            return self.fail(&error, done);
        };
        for waiting in self.waiting.extract_if(.., |waiting| *waiting.shown.get_or_insert(told.shown) <= synced) {
            waiting.target.complete(Payload::of(IS_SYNCED), done);
        }
    }

    fn fail(&mut self, error: &Error, done: &mut Completions) {
        for waiting in self.waiting.drain(..) {
            waiting.target.complete(Payload::Failed(error.clone()), done);
        }
    }

    /// The connection is lost, and with it what was on its way: nobody will hear any more.
    pub(crate) fn cut(&mut self, why: &str, done: &mut Completions) {
        self.fail(&Error::unsynced(why), done);
        *self = Self::default();
    }

    /// Tells those who have waited for longer than `limit_ms` that their time is up; how long the others have left.
    pub(crate) fn expire(
        &mut self,
        now_ms: u32,
        limit_ms: u32,
        say: impl Fn(Name) -> Error,
        done: &mut Completions,
    ) -> Option<u32> {
        let waited_ms = |waiting: &Waiting| now_ms.wrapping_sub(waiting.issued_ms);
        for waiting in self.waiting.extract_if(.., |waiting| waited_ms(waiting) > limit_ms) {
            let error = say(waiting.target.name());
            waiting.target.complete(Payload::Failed(error), done);
        }
        self.waiting.iter().map(|waiting| limit_ms.saturating_sub(waited_ms(waiting)) + 1).min()
    }
}

#[cfg(test)]
mod tests {
    use super::super::slot::Handle;
    use super::super::testing::source;
    use super::*;

    fn message(shown: &str, synced: &str) -> Vec<u8> {
        [MESSAGE, shown.as_bytes(), b"\r\n", synced.as_bytes(), b"\r\n"].concat()
    }

    fn effect(handle: Handle) -> Option<Effect> {
        handle.take().ok().expect("it is done").into_error().map(|error| error.effect())
    }

    #[test]
    fn the_first_message_covers_and_a_later_one_says_when_it_is_synced() {
        let (mut synced, mut source, mut done) = (Synced::default(), source(), Completions::default());
        let (target, first) = source.pair(Name::UNKNOWN);
        assert!(synced.enter(target, 0), "nobody was asked yet");
        let (target, second) = source.pair(Name::UNKNOWN);
        assert!(!synced.enter(target, 0), "one request does for both");
        synced.answered(b"+OK\r\n", &mut done);
        synced.told(&message(":10", ":5"), &mut done);
        let (target, third) = source.pair(Name::UNKNOWN);
        assert!(synced.enter(target, 0), "the last request was answered");
        synced.told(&message(":20", ":10"), &mut done);
        assert!(first.is_done() && second.is_done() && !third.is_done());
        // What is no such message says nothing.
        for odd in
            [&message(":20", "$1"), &message("$2", ":30"), &message(":20", ":x"), b">1\r\n$7\r\njournal\r\n".as_slice()]
        {
            synced.told(odd, &mut done);
        }
        assert!(!third.is_done());
        synced.told(&message(":90", ":20"), &mut done);
        assert_eq!([first, second, third].map(effect), [None; 3]);
        assert!(synced.is_empty());
    }

    #[test]
    fn whoever_cannot_be_told_hears_why() {
        let (mut synced, mut source, mut done) = (Synced::default(), source(), Completions::default());
        let mut enter = |synced: &mut Synced, now_ms: u32| {
            let (target, handle) = source.pair(Name::UNKNOWN);
            synced.enter(target, now_ms);
            handle
        };
        let never = enter(&mut synced, 0);
        synced.told(&message(":10", "_"), &mut done);
        assert_eq!(effect(never), Some(Effect::Answered));
        let (late, later) = (enter(&mut synced, u32::MAX - 5), enter(&mut synced, 10));
        let say = |_: Name| Error::new(ErrorKind::Timeout, Effect::Unknown, "late");
        assert_eq!(synced.expire(20, 20, say, &mut done), Some(11), "across the end of the clock");
        assert_eq!((effect(late), later.is_done()), (Some(Effect::Unknown), false));
        synced.cut("it broke", &mut done);
        assert_eq!(effect(later), Some(Effect::Unknown));
        let refused = enter(&mut synced, 0);
        synced.answered(b"-ERR unknown subcommand\r\n", &mut done);
        assert_eq!((effect(refused), synced.refusal().is_some()), (Some(Effect::Answered), true));
        synced.cut("it broke", &mut done);
        assert!(synced.refusal().is_none(), "another server may be there next");
    }
}
