//! XDELEX and XACKDEL: deletion of entries that takes account of the groups that read them. XADD and XTRIM trim in the same
//! way (`trim`).
//!
//! The record is the effect, in the commands of older servers: XDEL of the deleted entries, and in each group XACK of the
//! entries that are no longer pending there.

use std::collections::BTreeMap;

use sleeve_store::{Stream, StreamId};
use sleeve_wire::number;

use super::id;
use super::reply;
use crate::context::Cx;
use crate::context::notifications::EventClass;
use crate::request::error::{Error, Outcome};
use crate::request::{Key, Request};

/// The treatment of groups that have a deleted entry pending, or have not read it yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum References {
    /// KEEPREF: the entry stays pending in its groups.
    Keep,
    /// DELREF: the entry is removed from the pending ones of all groups.
    Delete,
    /// ACKED: the entry is deleted only if all groups have read and acknowledged it.
    Acknowledged,
}

/// The options of XDELEX and XACKDEL: \[KEEPREF | DELREF | ACKED\] IDS numids id \[id ...\], in any order.
struct DeletionOptions<'a> {
    references: References,
    ids: Vec<&'a [u8]>,
}

/// The outcome for an entry, with the number that the reply shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// There was no such entry.
    Missing = -1,
    /// The entry was deleted.
    Deleted = 1,
    /// Other groups still have to read or acknowledge the entry, whether it still exists or not.
    Stays = 2,
}

/// The effects of a command.
#[derive(Debug, Default)]
pub(super) struct Done {
    fates: Vec<Fate>,
    /// The entries that were deleted.
    pub deleted: Vec<StreamId>,
    /// For each group, the entries that are no longer pending there.
    acknowledged: BTreeMap<Box<[u8]>, Vec<StreamId>>,
}

impl References {
    /// Returns the treatment that a word names, if it names one.
    pub fn named(word: &[u8]) -> Option<Self> {
        match word {
            _ if word.eq_ignore_ascii_case(b"keepref") => Some(Self::Keep),
            _ if word.eq_ignore_ascii_case(b"delref") => Some(Self::Delete),
            _ if word.eq_ignore_ascii_case(b"acked") => Some(Self::Acknowledged),
            _ => None,
        }
    }
}

impl<'a> DeletionOptions<'a> {
    fn parse(request: Request<'a>, from: usize) -> Result<Self, Error> {
        let (mut references, mut ids, mut at) = (None, Vec::new(), from);
        while at < request.len() {
            let word = request.arg(at);
            let named = References::named(word);
            if named.is_some() && references.is_none() {
                references = named;
                at += 1;
            } else if word.eq_ignore_ascii_case(b"ids") && at + 1 < request.len() {
                ids = counted(request, at + 1)?;
                at += 2 + ids.len();
            } else {
                return Err(Error::SYNTAX);
            }
        }
        if ids.is_empty() {
            Err(Error::SYNTAX)
        } else {
            Ok(Self { references: references.unwrap_or(References::Keep), ids })
        }
    }
}

/// Returns the ids; the argument before them is their number.
pub(super) fn counted<'a>(request: Request<'a>, at: usize) -> Result<Vec<&'a [u8]>, Error> {
    let count = number::parse_i64(request.arg(at)).filter(|&count| count > 0);
    let count = count.ok_or(Error::fixed("ERR Number of IDs must be a positive integer"))?;
    if count > (request.len() - at - 1) as i64 {
        return Err(Error::fixed("ERR The `numids` parameter must match the number of arguments"));
    }
    Ok(request.args.from(at + 1).iter().take(count as usize).collect())
}

/// XDELEX key \[KEEPREF | DELREF | ACKED\] IDS numids id \[id ...\]
pub fn xdelex(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let (options, key) = (DeletionOptions::parse(request, 2)?, request.key(0));
    if cx.look_as::<Stream>(key)?.is_none() {
        return none_of_them(cx, &options);
    }
    run(cx, key, &options, Done::changes, |stream, id, done| delete(stream, id, options.references, done))
}

/// XACKDEL key group \[KEEPREF | DELREF | ACKED\] IDS numids id \[id ...\]
pub fn xackdel(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let (options, key, group) = (DeletionOptions::parse(request, 3)?, request.key(0), request.arg(2));
    if cx.read_as::<Stream>(key)?.is_none_or(|stream| stream.group(group).is_none()) {
        return none_of_them(cx, &options);
    }
    run(cx, key, &options, Done::found, |stream, id, done| {
        if stream.change_group(group, |group, _| group.acknowledge(id)) != Some(true) {
            return Fate::Missing;
        }
        done.struck(group, id);
        match delete(stream, id, options.references, done) {
            Fate::Stays => Fate::Stays,
            // The entry was pending, so the outcome is the same if another client has deleted it before.
            Fate::Deleted | Fate::Missing => Fate::Deleted,
        }
    })
}

fn none_of_them(cx: &mut Cx<'_>, options: &DeletionOptions<'_>) -> Outcome {
    let mut reply = cx.reply();
    reply.array(options.ids.len());
    options.ids.iter().for_each(|_| reply.integer(Fate::Missing as i64));
    Ok(())
}

/// Deletes an entry, and removes it from the pending ones of all groups if `references` asks for that.
pub(super) fn delete(stream: &mut Stream, id: StreamId, references: References, done: &mut Done) -> Fate {
    if references == References::Acknowledged && stream.is_awaited(id) {
        return Fate::Stays;
    }
    if references == References::Delete {
        stream.acknowledge_everywhere(id, |group| done.struck(group, id));
    }
    if !stream.delete(id) {
        return Fate::Missing;
    }
    done.deleted.push(id);
    Fate::Deleted
}

impl Done {
    /// Returns the number of changes that the command counts as: the deleted entries, or one if entries were only
    /// acknowledged.
    pub fn changes(&self) -> usize {
        self.deleted.len().max(usize::from(!self.acknowledged.is_empty()))
    }

    /// Returns how many entries existed or were pending.
    fn found(&self) -> usize {
        self.fates.iter().filter(|fate| **fate != Fate::Missing).count()
    }

    fn struck(&mut self, group: &[u8], id: StreamId) {
        match self.acknowledged.get_mut(group) {
            Some(ids) => ids.push(id),
            None => drop(self.acknowledged.insert(group.into(), vec![id])),
        }
    }
}

/// Calls `each` for every entry; then publishes the events, records the effects and replies. The command counts as `changes`.
fn run(
    cx: &mut Cx<'_>,
    key: Key<'_>,
    options: &DeletionOptions<'_>,
    changes: impl FnOnce(&Done) -> usize,
    mut each: impl FnMut(&mut Stream, StreamId, &mut Done) -> Fate,
) -> Outcome {
    let ids = options.ids.iter().map(|text| id::strict(text, 0)).collect::<Result<Vec<_>, _>>()?;
    let updated = cx.update_seen::<Stream, _>(key, |stream| {
        let mut done = Done::default();
        for id in &ids {
            let fate = each(stream, *id, &mut done);
            done.fates.push(fate);
        }
        done
    })?;
    let done = updated.map(|updated| updated.result).unwrap_or_default();
    tell(cx, key, &done, ("xdel", changes(&done)));
    let mut reply = cx.reply();
    reply.array(done.fates.len());
    done.fates.iter().for_each(|fate| reply.integer(*fate as i64));
    Ok(())
}

/// Publishes the event about deleted and acknowledged entries, counts them as so many changes, and records them.
pub(super) fn tell(cx: &mut Cx<'_>, key: Key<'_>, done: &Done, (event, changes): (&'static str, usize)) {
    cx.changed_many(changes as u64);
    if !done.deleted.is_empty() {
        cx.changed_by(key, 0);
        cx.notify(EventClass::Stream, event, key);
        record(cx, &[b"XDEL", key.name], &done.deleted);
    }
    for (group, ids) in &done.acknowledged {
        record(cx, &[b"XACK", key.name, group], ids);
    }
}

/// Records a command with the ids of entries.
pub(super) fn record(cx: &mut Cx<'_>, head: &[&[u8]], ids: &[StreamId]) {
    if let Some(mut words) = cx.effect(head.len() + ids.len()) {
        words.bulks(head);
        ids.iter().for_each(|id| reply::id(&mut words, *id));
    }
}
