//! Messages that producers number, so that a message that is sent twice is added once: IDMP and IDMPAUTO of XADD, and
//! XCFGSET.
//!
//! The record names the producer and the id of the entry, as in Redis 8.6. A message that was sent again is counted and
//! recorded too. A reader of the record recognises such a message not by its number, but by the id of the entry, which the
//! stream has passed already.

use sha1::{Digest as _, Sha1};
use sleeve_store::{ProducerLimits, Stream, StreamId};
use sleeve_wire::arguments::Args;
use sleeve_wire::number;
use sleeve_wire::reply::Writer;

use super::id::NewId;
use crate::context::Cx;
use crate::engine::keyspace::limits;
use crate::request::Request;
use crate::request::error::{Error, Outcome};

/// The length of the id that IDMPAUTO gives a message, in bytes, as in Redis.
const AUTO_BYTES: usize = 16;

/// The producer of a message, and the message's number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Numbered<'a> {
    /// IDMP: the producer, and the message's id.
    By(&'a [u8], &'a [u8]),
    /// IDMPAUTO: the producer; the message's id is made from its fields.
    Automatically(&'a [u8]),
}

impl<'a> Numbered<'a> {
    /// Reads IDMP or IDMPAUTO at an argument; returns None if another word stands there.
    pub fn parse(request: Request<'a>, at: usize) -> Result<Option<Self>, Error> {
        let (word, more) = (request.arg(at), request.len() - 1 - at);
        if word.eq_ignore_ascii_case(b"idmpauto") && more >= 1 {
            let producer = request.arg(at + 1);
            if producer.is_empty() {
                return Err(Error::fixed("ERR syntax error, IDMPAUTO requires a non-empty producer ID"));
            }
            return Ok(Some(Self::Automatically(producer)));
        }
        if word.eq_ignore_ascii_case(b"idmp") && more >= 2 {
            let (producer, message) = (request.arg(at + 1), request.arg(at + 2));
            if producer.is_empty() {
                return Err(Error::fixed("ERR syntax error, IDMP requires a non-empty producer ID"));
            }
            if message.is_empty() {
                return Err(Error::fixed("ERR syntax error, IDMP requires a non-empty idempotent ID"));
            }
            return Ok(Some(Self::By(producer, message)));
        }
        Ok(None)
    }

    /// Returns the number of words of the option.
    pub fn words(&self) -> usize {
        match self {
            Self::By(..) => 3,
            Self::Automatically(_) => 2,
        }
    }

    /// Writes the words of the option.
    pub fn write(&self, words: &mut Writer<'_>) {
        match self {
            Self::By(producer, message) => words.bulks(&[b"IDMP", producer, message]),
            Self::Automatically(producer) => words.bulks(&[b"IDMPAUTO", producer]),
        }
    }

    /// Returns the producer, and the id of the message with these fields.
    pub fn ids(&self, fields: Args<'_>) -> (&'a [u8], Vec<u8>) {
        match self {
            Self::By(producer, message) => (producer, message.to_vec()),
            Self::Automatically(producer) => (producer, digest(fields)),
        }
    }
}

/// Returns the id of a message from its names and values, in any order of them.
fn digest(fields: Args<'_>) -> Vec<u8> {
    let mut pairs: Vec<[u8; 20]> = Vec::with_capacity(fields.len() / 2);
    let mut words = fields.iter();
    while let (Some(name), Some(value)) = (words.next(), words.next()) {
        let pair = Sha1::new().chain_update((name.len() as u64).to_le_bytes()).chain_update(name).chain_update(value);
        pairs.push(pair.finalize().into());
    }
    pairs.sort_unstable();
    Sha1::digest(pairs.as_flattened())[..AUTO_BYTES].to_vec()
}

/// Returns the entry of a message that was added before, and counts the duplicate. `now_ms` is None while an AOF or a
/// replication stream is applied.
pub(super) fn entry_of(
    stream: &mut Stream,
    (producer, message): (&[u8], &[u8]),
    (new_id, now_ms): (NewId, Option<i64>),
    limits: ProducerLimits,
) -> Option<StreamId> {
    let known = match (new_id, now_ms) {
        (NewId::Exactly(id), None) => Some(id).filter(|id| *id <= stream.last_id()),
        _ => stream.producers()?.entry_of(producer, message, now_ms.unwrap_or(0)),
    }?;
    stream.producers_mut(limits).duplicates += 1;
    Some(known)
}

/// XCFGSET key \[IDMP-DURATION seconds\] \[IDMP-MAXSIZE ids\]
pub fn xcfgset(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let (key, default) = (request.key(0), limits::of_producers(cx.engine));
    let stream = cx.look_as::<Stream>(key)?.ok_or(Error::NO_SUCH_KEY)?;
    let current = stream.producers().map_or(default, |producers| producers.limits());
    let limits = parse_limits(request, current)?;
    // An AOF may record the limits of a stream with no other data about producers, so they are set there in any
    // case.
    if limits != current || cx.state.origin.is_replaying {
        cx.update_seen::<Stream, _>(key, |stream| stream.producers_mut(default).set_limits(limits))?;
        cx.changed_many(1);
    }
    cx.reply().ok();
    Ok(())
}

fn parse_limits(request: Request<'_>, current: ProducerLimits) -> Result<ProducerLimits, Error> {
    let (mut duration_s, mut ids_max) = (None, None);
    let mut options = request.args.from(2).iter();
    while let Some(option) = options.next() {
        let is = |name: &[u8]| option.eq_ignore_ascii_case(name);
        let (place, range, wrong, twice) = if is(b"idmp-duration") {
            let wrong = Error::fixed("ERR IDMP-DURATION must be between 1 and 86400 seconds");
            let twice = Error::fixed("ERR IDMP-DURATION specified multiple times");
            (&mut duration_s, ProducerLimits::DURATION_S, wrong, twice)
        } else if is(b"idmp-maxsize") {
            let wrong = Error::fixed("ERR IDMP-MAXSIZE must be between 1 and 10000 entries");
            let twice = Error::fixed("ERR IDMP-MAXSIZE specified multiple times");
            (&mut ids_max, ProducerLimits::IDS, wrong, twice)
        } else {
            return Err(Error::SYNTAX);
        };
        let value = options.next().ok_or(Error::SYNTAX)?;
        if place.is_some() {
            return Err(twice);
        }
        let number = number::parse_i64(value).ok_or(Error::NOT_INTEGER)?;
        if !range.contains(&number) {
            return Err(wrong);
        }
        *place = Some(number as u64);
    }
    if duration_s.is_none() && ids_max.is_none() {
        return Err(Error::fixed("ERR At least one parameter must be specified"));
    }
    Ok(ProducerLimits {
        duration_s: duration_s.unwrap_or(current.duration_s),
        ids_max: ids_max.unwrap_or(current.ids_max),
    })
}
