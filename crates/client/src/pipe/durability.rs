//! The callers that wait until the server's disk, or replicas, have the effects that a reply shows.
//!
//! On request, a Sleeve server sends three offsets of its journal in a message behind its replies (CLIENT JOURNAL): the
//! offset up to which the replies show effects, the offset up to which its disk has them, and the offsets up to which one,
//! two, three ... replicas have them. The first such message behind a reply covers the reply. When the disk or the replicas
//! have reached that offset, the reply's effect is as durable as requested. A caller that enters here has its reply already,
//! so the next message covers it. A request is sent after it, with a reply behind which a message is sure to arrive, unless
//! such a request is in flight.
//!
//! This module takes bytes and gives bytes: no socket, no clock, no thread. The reader owns it; the reader's lock guards it.

use sleeve_wire::frame::{Frame, decode};

use super::slot::{Completions, Payload, Target};
use crate::error::{Effect, Error, ErrorKind};
use crate::resp::request::level::Level;
use crate::resp::request::name::Name;

/// The beginning of a message with offsets of the journal.
const MESSAGE: &[u8] = b">3\r\n$7\r\njournal\r\n";
/// The beginning of such a message with the offsets of replicas.
const MESSAGE_WITH_REPLICAS: &[u8] = b">5\r\n$7\r\njournal\r\n";

/// The reply to a caller with an effect that is as durable as requested.
pub(crate) const IS_SAFE: &[u8] = b"+OK\r\n";

/// Returns whether this is a message with offsets of the journal.
pub(crate) fn is_message(bytes: &[u8]) -> bool {
    bytes.starts_with(MESSAGE) || bytes.starts_with(MESSAGE_WITH_REPLICAS)
}

/// The content of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
struct SafetyMessage {
    /// The offset up to which the replies so far show effects.
    shown: i64,
    /// The offset up to which the disk has all effects; none if the server never knows it.
    synced: Option<i64>,
    /// The offsets up to which at least one replica, two, three ... have applied all effects.
    applied_by: Vec<i64>,
    /// The offsets up to which at least one replica, two, three ... have all effects on their disks.
    synced_by: Vec<i64>,
}

impl SafetyMessage {
    fn of(message: &[u8]) -> Option<Self> {
        let Ok((Frame::Push(mut items), _)) = decode(message) else { return None };
        let (Frame::Bulk(b"journal"), Frame::Integer(shown)) = (items.next()?.ok()?, items.next()?.ok()?) else {
            return None;
        };
        let synced = match items.next()?.ok()? {
            Frame::Integer(synced) => Some(synced),
            Frame::Null => None,
            _ => return None,
        };
        let mut offsets = || items.next().map_or(Some(Vec::new()), |item| integers(item.ok()?));
        let (applied_by, synced_by) = (offsets()?, offsets()?);
        Some(Self { shown, synced, applied_by, synced_by })
    }

    /// Returns whether all effects up to this offset have reached this level of durability.
    fn covers(&self, level: Level, offset: i64) -> bool {
        let have = |offsets: &[i64], count: usize| match count.checked_sub(1) {
            Some(index) => offsets.get(index).is_some_and(|reached| *reached >= offset),
            None => true,
        };
        match level {
            Level::Synced => self.synced.is_some_and(|synced| synced >= offset),
            Level::Replicated(count) => have(&self.applied_by, count),
            Level::SyncedOn(count) => have(&self.synced_by, count),
        }
    }
}

/// Returns the elements of an array of integers.
fn integers(frame: Frame<'_>) -> Option<Vec<i64>> {
    let Frame::Array(items) = frame else { return None };
    items.map(|item| if let Ok(Frame::Integer(number)) = item { Some(number) } else { None }).collect()
}

/// The callers that wait on one connection, and the known offsets of its server.
#[derive(Default)]
pub(crate) struct DurabilityWaits {
    waiting: Vec<Waiting>,
    /// True while a request about the disk is in flight, and the same for one about replicas.
    asking: [bool; 2],
    /// The reason why this server sends no such messages.
    refusal: Option<Error>,
}

struct Waiting {
    level: Level,
    /// The offset up to which the caller's reply shows effects, once a message has reported it.
    shown: Option<i64>,
    issued_ms: u32,
    target: Target,
}

impl DurabilityWaits {
    /// Returns the reason why this connection confirms nothing, if there is one.
    pub(crate) fn refusal(&self) -> Option<&Error> {
        self.refusal.as_ref()
    }

    /// Returns whether no caller waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Adds a caller that has its reply already. Returns whether [`Level::question`] is to be sent now.
    pub(crate) fn enter(&mut self, level: Level, target: Target, now_ms: u32) -> bool {
        self.waiting.push(Waiting { level, shown: None, issued_ms: now_ms, target });
        !std::mem::replace(&mut self.asking[usize::from(level.is_of_replicas())], true)
    }

    /// Takes the answer to [`Level::question`], about replicas or not.
    pub(crate) fn answered(&mut self, of_replicas: bool, reply: &[u8], done: &mut Completions) {
        self.asking[usize::from(of_replicas)] = false;
        if let Some(refused) = Payload::of(reply).into_error() {
            let error = Error::new(
                ErrorKind::Server,
                Effect::Answered,
                format!(
                    "it is done, but this server does not say on a shared connection how safe it is ({}): send the command by \
                     client.lease(), and ask its reply there",
                    refused.message()
                ),
            );
            self.fail(&error, done);
            self.refusal = Some(error);
        }
    }

    /// Takes a message. All waiting callers have their replies, so it covers those that were not covered yet.
    pub(crate) fn told(&mut self, message: &[u8], done: &mut Completions) {
        let Some(told) = SafetyMessage::of(message) else { return };
        if told.synced.is_none() {
            let error = Error::new(
                ErrorKind::Server,
                Effect::Answered,
                "it is done, but the server never knows what is synced: it needs 'appendonly yes', and 'appendfsync everysec' or \
                 'always'",
            );
            self.fail_where(|level| level == Level::Synced, &error, done);
        }
        let is_covered = |waiting: &mut Waiting| {
            let shown = *waiting.shown.get_or_insert(told.shown);
            told.covers(waiting.level, shown)
        };
        for waiting in self.waiting.extract_if(.., is_covered) {
            waiting.target.complete(Payload::of(IS_SAFE), done);
        }
    }

    fn fail(&mut self, error: &Error, done: &mut Completions) {
        self.fail_where(|_| true, error, done);
    }

    fn fail_where(&mut self, is_meant: impl Fn(Level) -> bool, error: &Error, done: &mut Completions) {
        for waiting in self.waiting.extract_if(.., |waiting| is_meant(waiting.level)) {
            waiting.target.complete(Payload::Failed(error.clone()), done);
        }
    }

    /// Fails the waiting callers, because the connection is lost and with it the messages in flight.
    pub(crate) fn cut(&mut self, why: &str, done: &mut Completions) {
        self.fail(&Error::unsynced(why), done);
        *self = Self::default();
    }

    /// Tells the callers that have waited for longer than `limit_ms` that they timed out. Returns the time that the others
    /// have left.
    pub(crate) fn expire(
        &mut self,
        now_ms: u32,
        limit_ms: u32,
        say: impl Fn(Name, Level) -> Error,
        done: &mut Completions,
    ) -> Option<u32> {
        let waited_ms = |waiting: &Waiting| now_ms.wrapping_sub(waiting.issued_ms);
        for waiting in self.waiting.extract_if(.., |waiting| waited_ms(waiting) > limit_ms) {
            let error = say(waiting.target.name(), waiting.level);
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
        let (mut synced, mut source, mut done) = (DurabilityWaits::default(), source(), Completions::default());
        let (target, first) = source.pair(Name::UNKNOWN);
        assert!(synced.enter(Level::Synced, target, 0), "nobody was asked yet");
        let (target, second) = source.pair(Name::UNKNOWN);
        assert!(!synced.enter(Level::Synced, target, 0), "one request does for both");
        synced.answered(false, b"+OK\r\n", &mut done);
        synced.told(&message(":10", ":5"), &mut done);
        let (target, third) = source.pair(Name::UNKNOWN);
        assert!(synced.enter(Level::Synced, target, 0), "the last request was answered");
        synced.told(&message(":20", ":10"), &mut done);
        assert!(first.is_done() && second.is_done() && !third.is_done());
        // Bytes that are no such message change nothing.
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
    fn replica_offsets_confirm_the_number_of_replicas_at_their_index() {
        let (mut synced, mut source, mut done) = (DurabilityWaits::default(), source(), Completions::default());
        let mut enter = |synced: &mut DurabilityWaits, level: Level| {
            let (target, handle) = source.pair(Name::UNKNOWN);
            (synced.enter(level, target, 0), handle)
        };
        let told = |shown: i64, applied: &[i64], on_disks: &[i64]| {
            let array = |offsets: &[i64]| {
                let numbers: String = offsets.iter().map(|offset| format!(":{offset}\r\n")).collect();
                format!("*{}\r\n{numbers}", offsets.len())
            };
            let head = [MESSAGE_WITH_REPLICAS, format!(":{shown}\r\n_\r\n").as_bytes()].concat();
            [head, array(applied).into_bytes(), array(on_disks).into_bytes()].concat()
        };
        let (asks, one) = enter(&mut synced, Level::Replicated(1));
        let (asks_again, two) = enter(&mut synced, Level::Replicated(2));
        let (_, disk) = enter(&mut synced, Level::SyncedOn(1));
        assert!(asks && !asks_again);
        // A message of a server that was not asked about replicas has no offsets of theirs, but covers the replies.
        synced.told(&message(":10", "_"), &mut done);
        synced.answered(true, b"+OK\r\n", &mut done);
        let (asks, later) = enter(&mut synced, Level::Replicated(1));
        assert!(asks && is_message(&told(0, &[], &[])));
        synced.told(&told(20, &[9], &[9]), &mut done);
        assert!([&one, &two, &disk, &later].iter().all(|handle| !handle.is_done()));
        synced.told(&told(30, &[19, 9], &[0, 0]), &mut done);
        assert!(one.is_done() && !two.is_done() && !disk.is_done() && !later.is_done());
        synced.told(&told(30, &[20, 10], &[10, 0]), &mut done);
        assert!(two.is_done() && disk.is_done() && later.is_done());
        let (_, lost) = enter(&mut synced, Level::Replicated(1));
        synced.cut("another is the primary now", &mut done);
        assert_eq!(effect(lost), Some(Effect::Unknown));
    }

    #[test]
    fn callers_that_cannot_be_confirmed_get_the_reason() {
        let (mut synced, mut source, mut done) = (DurabilityWaits::default(), source(), Completions::default());
        let mut enter = |synced: &mut DurabilityWaits, now_ms: u32| {
            let (target, handle) = source.pair(Name::UNKNOWN);
            synced.enter(Level::Synced, target, now_ms);
            handle
        };
        let never = enter(&mut synced, 0);
        synced.told(&message(":10", "_"), &mut done);
        assert_eq!(effect(never), Some(Effect::Answered));
        let (late, later) = (enter(&mut synced, u32::MAX - 5), enter(&mut synced, 10));
        let say = |_: Name, _: Level| Error::new(ErrorKind::Timeout, Effect::Unknown, "late");
        assert_eq!(synced.expire(20, 20, say, &mut done), Some(11), "across the end of the clock");
        assert_eq!((effect(late), later.is_done()), (Some(Effect::Unknown), false));
        synced.cut("it broke", &mut done);
        assert_eq!(effect(later), Some(Effect::Unknown));
        let refused = enter(&mut synced, 0);
        synced.answered(false, b"-ERR unknown subcommand\r\n", &mut done);
        assert_eq!((effect(refused), synced.refusal().is_some()), (Some(Effect::Answered), true));
        synced.cut("it broke", &mut done);
        assert!(synced.refusal().is_none(), "another server may be there next");
    }
}
