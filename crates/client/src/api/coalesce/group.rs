//! Calls that become one command: the arguments of each, and its asker.
//!
//! The arguments of the calls are kept encoded, one behind the other, so that the merged command is its first lines and these
//! bytes, and each call can be sent again by itself if the merged one was refused. Pure data.

use std::collections::HashSet;
use std::mem;

use sleeve_wire::commands::{Merge, Row, Shape, Share};
use sleeve_wire::number::push_i64;

use super::call::{Call, Mergeable, Touch};
use crate::pipe::slot::Target;
use crate::resp::request::name::Name;

/// The largest number of arguments of one command. A server's own limit is sixteen times as high.
const ARGUMENTS_MAX: usize = 64 * 1024;

/// The largest number of argument bytes of a group's calls. Gathered calls leave long before, unless they are held back.
const SAID_MAX: usize = 16 * 1024 * 1024;

/// One call of a group.
pub(super) struct GroupCall {
    pub(super) target: Target,
    name: Name,
    /// The time at which it was issued, on the link's wrapping clock.
    pub(super) issued_ms: u32,
    /// The first key that the call touches.
    key: u64,
    /// The range of its arguments in the bytes of the group.
    start: u32,
    end: u32,
    /// The number of these arguments.
    pub(super) arguments: u32,
    /// The index of the reply's element that belongs to the call.
    pub(super) place: u32,
    /// The amount that the call adds to a number.
    pub(super) amount: i64,
}

/// Calls that become one command, or a single call that leaves alone.
pub(super) struct Group {
    /// The rule by which the calls are merged; none for a call that leaves unchanged.
    pub(super) rule: Option<&'static Merge>,
    pub(super) database: u32,
    /// The keys that the first call touches.
    pub(super) touch: Touch,
    pub(super) parts: Vec<GroupCall>,
    /// The encoded key that the calls have in common.
    key: Vec<u8>,
    /// The other arguments of the calls; for a call that leaves unchanged, the whole request.
    said: Vec<u8>,
    /// The further keys that calls touch, each with the index of the call.
    other_keys: Vec<(u32, u64)>,
    /// Keys that later groups of the same gathering involve: calls on them leave alone, because they could not be sent again
    /// behind those groups.
    settled_keys: Vec<u64>,
    /// True if all calls leave alone, for the same reason.
    pub(super) is_settled: bool,
    arguments: usize,
    /// The range of the arguments for each element of the reply, if several calls may share one.
    places: Vec<(u32, u32)>,
    sum: i64,
}

impl Group {
    /// Creates a group for this call, which is yet to be added.
    pub(super) fn for_call(call: &Call<'_>) -> Self {
        let rule = call.merged.as_ref().map(|merged| merged.rule);
        let key = call.merged.as_ref().map_or_else(Vec::new, |merged| merged.key.to_vec());
        Self::empty(rule, call.database, call.touch.clone(), key)
    }

    fn empty(rule: Option<&'static Merge>, database: u32, touch: Touch, key: Vec<u8>) -> Self {
        Self {
            rule,
            database,
            touch,
            parts: Vec::new(),
            key,
            said: Vec::new(),
            other_keys: Vec::new(),
            settled_keys: Vec::new(),
            is_settled: false,
            arguments: 0,
            places: Vec::new(),
            sum: 0,
        }
    }

    /// Notes that a later group of the same gathering involves this key.
    pub(super) fn settle(&mut self, key: u64) {
        self.settled_keys.push(key);
    }

    /// Returns whether this call can be added to the group.
    #[inline]
    pub(super) fn takes(&self, call: &Mergeable<'_>, database: u32) -> bool {
        // All amounts must have the same sign. A sum that goes up and then down may exceed the range in between, and a caller
        // would then get an error if the calls were sent one by one.
        let goes_on = self.sum == 0 || call.amount == 0 || (self.sum < 0) == (call.amount < 0);
        self.rule.is_some_and(|rule| rule.into == call.rule.into && rule.share == call.rule.share)
            && self.database == database
            && self.key == call.key
            && self.arguments + call.arguments as usize <= ARGUMENTS_MAX
            && self.said.len() + call.said.len() <= SAID_MAX
            && goes_on
            && self.sum.checked_add(call.amount).is_some()
    }

    /// Returns whether a call that is issued now is issued at most `spread_ms` after the first call of the group.
    pub(super) fn is_of(&self, now_ms: u32, spread_ms: u32) -> bool {
        self.parts.first().is_none_or(|first| now_ms.wrapping_sub(first.issued_ms) <= spread_ms)
    }

    /// Returns the time at which the last of the calls was issued, so that none of them times out too early.
    pub(super) fn issued_ms(&self) -> u32 {
        self.parts.last().map_or(0, |last| last.issued_ms)
    }

    /// Returns whether calls with the same arguments may share one answer.
    fn shares_places(&self) -> bool {
        self.rule.is_some_and(|rule| rule.share == Share::EachOrError)
    }

    /// Adds a call, and returns the index of its element in the reply. `beside` is that of the last call on the same key.
    #[inline]
    pub(super) fn add(&mut self, call: &Call<'_>, target: Target, issued_ms: u32, beside: Option<u32>) -> u32 {
        let name = call.request.name;
        let (said, arguments, amount) = match &call.merged {
            Some(merged) => (merged.said, merged.arguments, merged.amount),
            None => (call.request.bytes, 0, 0),
        };
        let key = call.touch.keys().next().unwrap_or_default();
        let number = self.parts.len() as u32;
        self.other_keys.extend(call.touch.keys().skip(1).map(|key| (number, key)));
        let same = beside.and_then(|place| Some((place, *self.places.get(place as usize)?)));
        let (place, start, end) = match same {
            Some((place, (start, end))) if self.said.get(start as usize..end as usize) == Some(said) => {
                (place, start, end)
            }
            _ => {
                let start = self.said.len() as u32;
                self.said.extend_from_slice(said);
                self.arguments += arguments as usize;
                (self.next_place(start), start, self.said.len() as u32)
            }
        };
        self.sum += amount;
        self.parts.push(GroupCall { target, name, issued_ms, key, start, end, arguments, place, amount });
        place
    }

    /// Returns the element for a call with arguments that begin at `start` and end at the end of all bytes.
    fn next_place(&mut self, start: u32) -> u32 {
        if !self.shares_places() {
            return self.parts.len() as u32;
        }
        self.places.push((start, self.said.len() as u32));
        self.places.len() as u32 - 1
    }

    /// Returns the number of elements of a reply with one for each call.
    pub(super) fn elements(&self) -> usize {
        if self.shares_places() { self.places.len() } else { self.parts.len() }
    }

    /// Returns the groups that leave. Settled calls leave alone, behind the others. If the reply does not tell the calls
    /// apart, all stay in order, and only neighbours with replies that no caller reads are merged.
    pub(super) fn into_groups(mut self) -> Vec<Self> {
        let counts = self.rule.is_some_and(|rule| rule.share == Share::Nobody);
        if self.parts.len() < 2 || !(counts || self.is_settled || !self.settled_keys.is_empty()) {
            return vec![self];
        }
        let settled = self.settled();
        let (mut lists, mut alone): (Vec<Vec<GroupCall>>, Vec<Vec<GroupCall>>) = (Vec::new(), Vec::new());
        let mut may_join = false;
        for (part, is_settled) in mem::take(&mut self.parts).into_iter().zip(settled) {
            if counts {
                let joins = !is_settled && part.target.is_abandoned();
                match lists.last_mut().filter(|_| joins && may_join) {
                    Some(list) => list.push(part),
                    None => lists.push(vec![part]),
                }
                may_join = joins;
            } else if is_settled {
                alone.push(vec![part]);
            } else {
                match lists.last_mut() {
                    Some(list) => list.push(part),
                    None => lists.push(vec![part]),
                }
            }
        }
        lists.append(&mut alone);
        lists.into_iter().map(|parts| self.with(parts)).collect()
    }

    /// Creates a group of some of this group's calls.
    fn with(&self, parts: Vec<GroupCall>) -> Self {
        let mut group = Self::empty(self.rule, self.database, self.touch.clone(), self.key.clone());
        group.parts.reserve(parts.len());
        let mut places: Vec<Option<u32>> = vec![None; self.places.len()];
        for mut part in parts {
            let old = part.place as usize;
            let known = places.get(old).copied().flatten();
            if let Some((place, (start, end))) =
                known.and_then(|place| Some((place, *group.places.get(place as usize)?)))
            {
                (part.place, part.start, part.end) = (place, start, end);
            } else {
                let start = group.said.len() as u32;
                group.said.extend_from_slice(self.said_by(&part));
                group.arguments += part.arguments as usize;
                part.place = group.next_place(start);
                (part.start, part.end) = (start, group.said.len() as u32);
                if let Some(place) = places.get_mut(old) {
                    *place = Some(part.place);
                }
            }
            group.sum += part.amount;
            group.parts.push(part);
        }
        group
    }

    /// Returns for each call whether it has to leave alone.
    fn settled(&self) -> Vec<bool> {
        let keys: HashSet<u64> = self.settled_keys.iter().copied().collect();
        let mut settled: Vec<bool> =
            self.parts.iter().map(|part| self.is_settled || keys.contains(&part.key)).collect();
        for (number, _) in self.other_keys.iter().filter(|(_, key)| keys.contains(key)) {
            settled.iter_mut().skip(*number as usize).take(1).for_each(|settled| *settled = true);
        }
        settled
    }

    /// Writes the merged command.
    pub(super) fn write_merged(&self, out: &mut Vec<u8>) {
        let Some(rule) = self.rule else { return };
        let adds = matches!(rule.shape, Shape::Step(_) | Shape::Amount(_));
        let arguments = if adds { 1 } else { self.arguments };
        write_name(out, rule.into.row(), arguments + usize::from(rule.shape.shares_key()));
        out.extend_from_slice(&self.key);
        if !adds {
            out.extend_from_slice(&self.said);
            return;
        }
        let mut number = Vec::new();
        push_i64(&mut number, self.sum);
        write_line(out, b'$', number.len());
        out.extend_from_slice(&number);
        out.extend_from_slice(b"\r\n");
    }

    /// Writes one of the calls as it would have left alone.
    pub(super) fn write_part(&self, part: &GroupCall, out: &mut Vec<u8>) {
        if let Some(rule) = self.rule
            && let Some(row) = part.name.row()
        {
            write_name(out, row, part.arguments as usize + usize::from(rule.shape.shares_key()));
            out.extend_from_slice(&self.key);
        }
        out.extend_from_slice(self.said_by(part));
    }

    /// Returns the arguments of a call.
    fn said_by(&self, part: &GroupCall) -> &[u8] {
        self.said.get(part.start as usize..part.end as usize).unwrap_or_default()
    }
}

/// Writes the number of a command's arguments, and its name.
fn write_name(out: &mut Vec<u8>, row: &Row, arguments: usize) {
    write_line(out, b'*', arguments + 1);
    write_line(out, b'$', row.name.len());
    out.extend(row.name.bytes().map(|byte| byte.to_ascii_uppercase()));
    out.extend_from_slice(b"\r\n");
}

fn write_line(out: &mut Vec<u8>, first: u8, number: usize) {
    out.push(first);
    push_i64(out, number as i64);
    out.extend_from_slice(b"\r\n");
}
