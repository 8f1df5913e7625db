//! XNACK: a consumer gives entries back unacknowledged, so that other consumers can claim them at once.
//!
//! A released entry belongs to a consumer with an empty name and counts as delivered at the epoch. XPENDING of Redis 8.8
//! shows it so. Older servers can receive such an entry, hold it in a dump and give it to the next consumer that claims it.

use sleeve_store::{Pending, Stream, StreamId};
use sleeve_wire::number;

use super::delete::{counted, record};
use super::group::{no_group, record_pending};
use super::id;
use crate::context::Cx;
use crate::context::notifications::EventClass;
use crate::request::Request;
use crate::request::error::{Error, Outcome};

/// The name of the consumer to which released entries belong.
pub(super) const NOBODY: &[u8] = b"";

/// The change of the number of deliveries when an entry is released.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// SILENT: the last delivery does not count.
    Silent,
    /// FAIL: all deliveries count.
    Fail,
    /// FATAL: the number becomes the greatest possible.
    Fatal,
    /// RETRYCOUNT: the number becomes this one.
    Exactly(u64),
}

/// The effects of XNACK.
#[derive(Default)]
struct Released {
    is_new_consumer: bool,
    pending: Vec<(StreamId, Pending)>,
    /// The entries that are no longer pending, because the stream does not have them any more.
    gone: Vec<StreamId>,
}

/// Reads the arguments behind the group: the mode, FORCE and the ids.
fn parse(request: Request<'_>) -> Result<(Mode, bool, Vec<StreamId>), Error> {
    let mut mode = match request.arg(3) {
        word if word.eq_ignore_ascii_case(b"silent") => Mode::Silent,
        word if word.eq_ignore_ascii_case(b"fail") => Mode::Fail,
        word if word.eq_ignore_ascii_case(b"fatal") => Mode::Fatal,
        _ => return Err(Error::SYNTAX),
    };
    if !request.arg(4).eq_ignore_ascii_case(b"ids") {
        return Err(Error::SYNTAX);
    }
    let ids = counted(request, 5)?.into_iter().map(|text| id::strict(text, 0)).collect::<Result<Vec<_>, _>>()?;
    let (mut force, mut options) = (false, request.args.from(6 + ids.len()).iter());
    while let Some(option) = options.next() {
        if option.eq_ignore_ascii_case(b"force") {
            force = true;
        } else if option.eq_ignore_ascii_case(b"retrycount")
            && let Some(value) = options.next()
        {
            let count = number::parse_i64(value).and_then(|count| u64::try_from(count).ok());
            mode = Mode::Exactly(count.ok_or(Error::fixed("ERR Invalid RETRYCOUNT option argument for XNACK"))?);
        } else {
            return Err(Error::SYNTAX);
        }
    }
    Ok((mode, force, ids))
}

impl Mode {
    fn deliveries(self, before: u64) -> u64 {
        match self {
            Self::Silent => before.saturating_sub(1),
            Self::Fail => before,
            Self::Fatal => Pending::DELIVERIES_MAX,
            Self::Exactly(count) => count,
        }
    }
}

/// XNACK key group SILENT | FAIL | FATAL IDS numids id \[id ...\] \[RETRYCOUNT count\] \[FORCE\]
pub fn xnack(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let (mode, force, ids) = parse(request)?;
    let (key, name, now_ms) = (request.key(0), request.arg(2), cx.now.wall_ms());
    if cx.read_as::<Stream>(key)?.is_none_or(|stream| stream.group(name).is_none()) {
        return Err(no_group(key.name, name));
    }
    let updated = cx.update_seen::<Stream, _>(key, |stream| {
        stream.change_group(name, |group, stream| {
            let mut released = Released::default();
            for id in ids {
                let known = group.pending(id);
                if stream.get(id).is_none() {
                    if group.acknowledge(id) {
                        released.gone.push(id);
                    }
                    continue;
                }
                let Some(before) = known.map(|known| known.deliveries).or(force.then_some(0)) else { continue };
                let consumer = group.find(NOBODY).unwrap_or_else(|| {
                    released.is_new_consumer = true;
                    group.add(NOBODY, now_ms)
                });
                let pending = Pending { consumer, delivered_ms: 0, deliveries: mode.deliveries(before) };
                group.set_pending(id, pending);
                released.pending.push((id, pending));
            }
            released
        })
    })?;
    let released = updated.and_then(|updated| updated.result).unwrap_or_default();
    cx.reply().integer(released.pending.len() as i64);
    if !(released.pending.is_empty() && released.gone.is_empty()) {
        // This also wakes the clients that wait for entries to claim.
        cx.changed(key);
        cx.changed_many((released.pending.len() + released.gone.len()) as u64 - 1);
    }
    if released.is_new_consumer {
        cx.notify(EventClass::Stream, "xgroup-createconsumer", key);
        cx.record(&[b"XGROUP", b"CREATECONSUMER", key.name, name, NOBODY]);
    }
    record_pending(cx, key, name, NOBODY, &released.pending);
    if !released.gone.is_empty() {
        record(cx, &[b"XACK", key.name, name], &released.gone);
    }
    Ok(())
}
