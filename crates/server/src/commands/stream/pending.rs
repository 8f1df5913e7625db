//! XPENDING, XCLAIM and XAUTOCLAIM: show the entries that a group's consumers have not acknowledged, and give them to other
//! consumers.

use sleeve_store::{Pending, Stream, StreamGroup, StreamId};
use sleeve_wire::number;
use sleeve_wire::reply::Writer;

use super::group::{no_group, record_pending};
use super::id;
use super::release::NOBODY;
use super::reply;
use crate::context::Cx;
use crate::context::notifications::EventClass;
use crate::request::Request;
use crate::request::error::{Error, Outcome};

/// The part of the pending entries that XPENDING shows.
struct PendingFilter<'a> {
    idle_ms_min: i64,
    start: StreamId,
    end: StreamId,
    count: usize,
    consumer: Option<&'a [u8]>,
}

/// XPENDING key group \[\[IDLE min-idle-time\] start end count \[consumer\]\]
pub fn xpending(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let filter = parse_filter(request)?;
    let (key, name, now_ms) = (request.key(0), request.arg(2), cx.now.wall_ms());
    cx.reply_apart(|cx, reply| {
        let stream = cx.read_as::<Stream>(key)?;
        let group = stream.and_then(|stream| stream.group(name)).ok_or_else(|| no_group(key.name, name))?;
        match filter {
            None => summary(reply, group),
            Some(filter) => show(reply, group, &filter, now_ms),
        }
        Ok(())
    })
}

fn parse_filter(request: Request<'_>) -> Result<Option<PendingFilter<'_>>, Error> {
    match request.len() {
        3 => return Ok(None),
        6..=9 => {}
        _ => return Err(Error::SYNTAX),
    }
    let has_idle = request.arg(3).eq_ignore_ascii_case(b"idle");
    let integer = |at| number::parse_i64(request.arg(at)).ok_or(Error::NOT_INTEGER);
    let idle_ms_min = if has_idle { integer(4)? } else { 0 };
    if has_idle && request.len() < 8 {
        return Err(Error::SYNTAX);
    }
    let at = if has_idle { 5 } else { 3 };
    let count = integer(at + 2)?.max(0) as usize;
    let (start, end) = (id::start(request.arg(at))?, id::end(request.arg(at + 1))?);
    Ok(Some(PendingFilter { idle_ms_min, start, end, count, consumer: request.args.get(at + 3) }))
}

/// Writes the number of pending entries, their first and last ids, and their consumers.
fn summary(reply: &mut Writer<'_>, group: &StreamGroup) {
    reply.array(4);
    reply.integer(group.pending_len() as i64);
    let mut pending = group.pending_in(StreamId::MIN..=StreamId::MAX);
    let Some((first, _)) = pending.next() else {
        reply.null();
        reply.null();
        return reply.null_array();
    };
    let last = pending.next_back().map_or(first, |(id, _)| id);
    reply::id(reply, first);
    reply::id(reply, last);
    let consumers = group.consumers().filter(|consumer| consumer.pending_len() != 0);
    reply::counted_array(reply, |reply| {
        let write = |consumer: &sleeve_store::Consumer| {
            reply.array(2);
            reply.bulk(&consumer.name);
            reply.bulk_integer(consumer.pending_len() as i64);
        };
        consumers.map(write).count()
    });
}

fn show(reply: &mut Writer<'_>, group: &StreamGroup, filter: &PendingFilter<'_>, now_ms: i64) {
    let of_consumer = match filter.consumer {
        None => None,
        Some(name) => match group.find(name) {
            None => return reply.array(0),
            number => number,
        },
    };
    let is_shown = |pending: &Pending| {
        filter.idle_ms_min == 0 || now_ms.saturating_sub(pending.delivered_ms) >= filter.idle_ms_min
    };
    let write = |reply: &mut Writer<'_>, (id, pending): (StreamId, Pending)| {
        let name = &group.consumer(pending.consumer).name;
        let is_released = **name == *NOBODY && pending.delivered_ms == 0;
        reply.array(4);
        reply::id(reply, id);
        reply.bulk(name);
        reply.integer(if is_released { -1 } else { now_ms.saturating_sub(pending.delivered_ms).max(0) });
        reply.integer(pending.deliveries as i64);
    };
    reply::counted_array(reply, |reply| match of_consumer {
        None => {
            let found = group.pending_in(filter.start..=filter.end).filter(|(_, pending)| is_shown(pending));
            found.take(filter.count).map(|found| write(reply, found)).count()
        }
        Some(number) => {
            let ids = group.consumer(number).pending_from(filter.start).take_while(|id| *id <= filter.end);
            let found = ids.filter_map(|id| Some((id, group.pending(id)?))).filter(|(_, pending)| is_shown(pending));
            found.take(filter.count).map(|found| write(reply, found)).count()
        }
    });
}

/// The options of XCLAIM and XAUTOCLAIM.
struct Claim<'a> {
    group: &'a [u8],
    consumer: &'a [u8],
    now_ms: i64,
    idle_ms_min: i64,
    /// The time at which the entries count as delivered.
    delivered_ms: i64,
    /// RETRYCOUNT: the number of deliveries that the entries get; None adds one to the present number.
    deliveries: Option<u64>,
    /// FORCE: entries that are not pending become pending.
    force: bool,
    /// JUSTID: the reply has only ids, and the claim does not count as a delivery.
    just_id: bool,
    last_id: StreamId,
}

/// The outcome of claiming.
#[derive(Default)]
struct Claimed {
    is_new_consumer: bool,
    pending: Vec<(StreamId, Pending)>,
    /// The entries that are no longer pending, because the stream does not have them any more.
    gone: Vec<StreamId>,
    /// The group's new last id, if the claim has changed it.
    went_on: Option<StreamId>,
}

/// XCLAIM key group consumer min-idle-time id \[id ...\] \[IDLE ms\] \[TIME unix-time-milliseconds\] \[RETRYCOUNT count\]
/// \[FORCE\] \[JUSTID\] \[LASTID id\]
pub fn xclaim(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let (key, name) = (request.key(0), request.arg(2));
    if cx.read_as::<Stream>(key)?.is_none_or(|stream| stream.group(name).is_none()) {
        return Err(no_group(key.name, name));
    }
    let (claim, ids) = parse_claim(cx, request)?;
    cx.reply_apart(|cx, reply| {
        let updated = cx.update_seen::<Stream, _>(key, |stream| {
            stream.change_group(name, |group, stream| {
                let mut claimed = claim.begin(group);
                reply::counted_array(reply, |reply| {
                    let claims = |id: &&StreamId| claim.run(reply, group, stream, **id, &mut claimed);
                    ids.iter().filter(claims).count()
                });
                claimed
            })
        })?;
        end(cx, request, &claim, updated.and_then(|updated| updated.result).unwrap_or_default());
        Ok(())
    })
}

fn parse_claim<'a>(cx: &Cx<'_>, request: Request<'a>) -> Result<(Claim<'a>, Vec<StreamId>), Error> {
    let now_ms = cx.now.wall_ms();
    let integer = |text: &[u8], option: &str| {
        number::parse_i64(text).ok_or_else(|| Error::new(format!("ERR Invalid {option} argument for XCLAIM")))
    };
    let idle_ms_min = integer(request.arg(4), "min-idle-time")?.max(0);
    let ids: Vec<StreamId> = request.args.from(5).iter().map_while(|text| id::strict(text, 0).ok()).collect();
    let mut claim = Claim {
        group: request.arg(2),
        consumer: request.arg(3),
        now_ms,
        idle_ms_min,
        delivered_ms: now_ms,
        deliveries: None,
        force: false,
        just_id: false,
        last_id: StreamId::MIN,
    };
    let mut options = request.args.from(5 + ids.len()).iter();
    while let Some(option) = options.next() {
        let is_valued = !(option.eq_ignore_ascii_case(b"force") || option.eq_ignore_ascii_case(b"justid"));
        let value = if is_valued { options.next() } else { None };
        match (option.to_ascii_lowercase().as_slice(), value) {
            (b"force", _) => claim.force = true,
            (b"justid", _) => claim.just_id = true,
            (b"idle", Some(value)) => {
                claim.delivered_ms = now_ms.saturating_sub(integer(value, "IDLE option")?);
            }
            (b"time", Some(value)) => claim.delivered_ms = integer(value, "TIME option")?,
            (b"retrycount", Some(value)) => {
                claim.deliveries = u64::try_from(integer(value, "RETRYCOUNT option")?).ok();
            }
            (b"lastid", Some(value)) => claim.last_id = id::strict(value, 0)?,
            _ => return Err(Error::naming("ERR Unrecognized XCLAIM option '{}'", &[option])),
        }
    }
    // An impossible time is replaced by the present one.
    if claim.delivered_ms < 0 || claim.delivered_ms > now_ms {
        claim.delivered_ms = now_ms;
    }
    Ok((claim, ids))
}

impl Claim<'_> {
    /// Creates the consumer if it is missing, and advances the group's last id (LASTID).
    fn begin(&self, group: &mut StreamGroup) -> Claimed {
        let mut claimed = Claimed::default();
        if self.last_id > group.last_id {
            group.last_id = self.last_id;
            claimed.went_on = Some(self.last_id);
        }
        claimed.is_new_consumer = group.find(self.consumer).is_none();
        if claimed.is_new_consumer {
            group.add(self.consumer, self.now_ms);
        } else if let Some(number) = group.find(self.consumer) {
            group.consumer_mut(number).seen_ms = self.now_ms;
        }
        claimed
    }

    /// Claims an entry and replies with it; returns false, and writes no reply, if the entry cannot be claimed.
    fn run(
        &self,
        reply: &mut Writer<'_>,
        group: &mut StreamGroup,
        stream: &Stream,
        id: StreamId,
        claimed: &mut Claimed,
    ) -> bool {
        let Some(entry) = stream.get(id) else {
            if group.acknowledge(id) {
                claimed.gone.push(id);
            }
            return false;
        };
        let Some(consumer) = group.find(self.consumer) else { return false };
        let known = group.pending(id);
        let is_idle = |known: &Pending| self.now_ms.saturating_sub(known.delivered_ms) >= self.idle_ms_min;
        let before = match known {
            None if !self.force => return false,
            // An entry that becomes pending by FORCE counts as delivered once.
            None => Pending { consumer, delivered_ms: 0, deliveries: 1 },
            Some(known) if self.idle_ms_min != 0 && !is_idle(&known) => return false,
            Some(known) => known,
        };
        let deliveries = if self.just_id { before.deliveries } else { before.once_more() };
        let deliveries = self.deliveries.unwrap_or(deliveries);
        let pending = Pending { consumer, delivered_ms: self.delivered_ms, deliveries };
        group.set_pending(id, pending);
        group.consumer_mut(consumer).active_ms = Some(self.now_ms);
        claimed.pending.push((id, pending));
        if self.just_id {
            reply::id(reply, id);
        } else {
            reply::entry(reply, &entry);
        }
        true
    }
}

/// Counts and records the changes of a claim.
fn end(cx: &mut Cx<'_>, request: Request<'_>, claim: &Claim<'_>, claimed: Claimed) {
    let key = request.key(0);
    if claimed.is_new_consumer {
        cx.notify(EventClass::Stream, "xgroup-createconsumer", key);
    }
    let flags = usize::from(claimed.is_new_consumer) + usize::from(claimed.went_on.is_some());
    cx.changed_many((flags + claimed.pending.len() + claimed.gone.len()) as u64);
    if !cx.locks.recorder.is_recording() {
        return;
    }
    if claimed.is_new_consumer {
        cx.record(&[b"XGROUP", b"CREATECONSUMER", key.name, claim.group, claim.consumer]);
    }
    record_pending(cx, key, claim.group, claim.consumer, &claimed.pending);
    if !claimed.gone.is_empty()
        && let Some(mut words) = cx.effect(3 + claimed.gone.len())
    {
        words.bulks(&[b"XACK", key.name, claim.group]);
        claimed.gone.iter().for_each(|id| reply::id(&mut words, *id));
    }
    if let Some(last_id) = claimed.went_on
        && let Some(mut words) = cx.effect(8)
    {
        // This XCLAIM claims no entry: it advances the group's last id, and leaves its count of read entries alone.
        let head: [&[u8]; 7] = [b"XCLAIM", key.name, claim.group, claim.consumer, b"0", b"0-0", b"LASTID"];
        words.bulks(&head);
        reply::id(&mut words, last_id);
    }
}

/// The number of pending entries that XAUTOCLAIM examines for each entry that it may claim.
const ATTEMPTS_FACTOR: i64 = 10;

/// XAUTOCLAIM key group consumer min-idle-time start \[COUNT count\] \[JUSTID\]
pub fn xautoclaim(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let (key, name, now_ms) = (request.key(0), request.arg(2), cx.now.wall_ms());
    let idle_ms_min = number::parse_i64(request.arg(4))
        .ok_or(Error::fixed("ERR Invalid min-idle-time argument for XAUTOCLAIM"))?
        .max(0);
    let start = id::start(request.arg(5))?;
    let (mut count, mut just_id) = (100, false);
    let mut options = request.args.from(6).iter();
    while let Some(option) = options.next() {
        if option.eq_ignore_ascii_case(b"justid") {
            just_id = true;
        } else if option.eq_ignore_ascii_case(b"count")
            && let Some(value) = options.next()
        {
            // The limit is that of Redis, which reserves memory for so many ids of 16 bytes.
            count = number::parse_i64(value)
                .filter(|count| (1..=i64::MAX / 16).contains(count))
                .ok_or(Error::fixed("ERR COUNT must be > 0"))?;
        } else {
            return Err(Error::SYNTAX);
        }
    }
    if cx.read_as::<Stream>(key)?.is_none_or(|stream| stream.group(name).is_none()) {
        return Err(no_group(key.name, name));
    }
    let claim = Claim {
        group: name,
        consumer: request.arg(3),
        now_ms,
        idle_ms_min,
        delivered_ms: now_ms,
        deliveries: None,
        force: false,
        just_id,
        last_id: StreamId::MIN,
    };
    cx.reply_apart(|cx, reply| {
        let updated = cx.update_seen::<Stream, _>(key, |stream| {
            stream.change_group(name, |group, stream| claim_idle(reply, &claim, group, stream, (start, count)))
        })?;
        end(cx, request, &claim, updated.and_then(|updated| updated.result).unwrap_or_default());
        Ok(())
    })
}

/// Claims up to `count` entries from `start` on, and replies with the id at which to go on, the claimed entries, and the ids
/// of those that the stream no longer has.
fn claim_idle(
    reply: &mut Writer<'_>,
    claim: &Claim<'_>,
    group: &mut StreamGroup,
    stream: &Stream,
    (start, mut count): (StreamId, i64),
) -> Claimed {
    let mut claimed = claim.begin(group);
    let (mut attempts, mut next) = (count.saturating_mul(ATTEMPTS_FACTOR), Some(start));
    let begin = reply.out.len();
    let following = |group: &StreamGroup, next: Option<StreamId>| {
        next.and_then(|next| group.pending_in(next..=StreamId::MAX).next()).map(|(id, _)| id)
    };
    reply::counted_array(reply, |reply| {
        let mut given = 0;
        while attempts > 0
            && count > 0
            && let Some(id) = following(group, next)
        {
            let gone = claimed.gone.len();
            let is_given = claim.run(reply, group, stream, id, &mut claimed);
            given += usize::from(is_given);
            count -= i64::from(is_given || claimed.gone.len() > gone);
            attempts -= 1;
            next = id.next();
        }
        given
    });
    let cursor = following(group, next).unwrap_or_default();
    reply::insert(reply, begin, |head| {
        head.array(3);
        reply::id(head, cursor);
    });
    reply.array(claimed.gone.len());
    claimed.gone.iter().for_each(|id| reply::id(reply, *id));
    claimed
}
