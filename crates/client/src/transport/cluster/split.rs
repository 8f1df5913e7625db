//! Requests that several nodes have to answer: those with keys in several slots, and those for all nodes.
//!
//! The command table says which commands can be split: each slot gets the words that belong to its keys. One command for one
//! server then becomes several, which are not executed at one instant. A command with a greater promise, such as atomicity,
//! is refused. Any thread.

use std::collections::HashMap;
use std::time::Instant;

use sleeve_wire::commands::{Begin, Command, Find, RequestPolicy, ResponsePolicy, Row};
use sleeve_wire::slot;

use super::Cluster;
use super::combine::{Parts, ReplyMerge};
use super::slots::crossing;
use crate::error::Error;
use crate::pipe::queued::Sent;
use crate::pipe::routed::Destination;
use crate::pipe::slot::{Completions, Handle, Payload, Target};
use crate::resp::request::name::Name;
use crate::resp::request::words::Places;
use crate::resp::request::{EncodedRequest, Request};
use crate::transport::replicas::destination;

/// One slot's share of a request.
struct Share {
    slot: u16,
    bytes: Vec<u8>,
    /// The indices of these keys among those of the request.
    places: Vec<usize>,
}

impl Cluster {
    /// Sends a request with keys in several slots, two of which are given for the error.
    pub(super) fn send_split(
        &self,
        (one, other): (u16, u16),
        database: u32,
        request: EncodedRequest<'_>,
        deadline: Option<Instant>,
    ) -> Result<Sent, Error> {
        self.check_open()?;
        let (target, handle) = self.source.lock().pair(request.name);
        match self.split_for(target, database, request, deadline) {
            None => Ok(Sent::Slot(handle)),
            Some(_) => Err(crossing(&request.name.to_string(), one, other)),
        }
    }

    /// Sends a request with keys in several slots, and directs its answer to the target. Returns the request if it cannot be
    /// split.
    pub(super) fn split_for(
        &self,
        target: Target,
        database: u32,
        request: EncodedRequest<'_>,
        deadline: Option<Instant>,
    ) -> Option<Target> {
        let Some((row, step)) = request.name.row().and_then(|row| Some((row, splits_by(row)?))) else {
            return Some(target);
        };
        let shares = match shares(request, step) {
            Ok(shares) => shares,
            Err(error) => {
                self.complete(target, error);
                return None;
            }
        };
        let send = |share: &Share| {
            let request = EncodedRequest { bytes: &share.bytes, name: request.name };
            self.send_to(destination(&self.config.read_from, share.slot, request.name), database, request, deadline)
        };
        let sent: Vec<Handle> = shares.iter().map(|share| self.handle_of(send(share), request.name)).collect();
        let recipe = match row.tips.response_policy() {
            None => ReplyMerge::Elements(shares.into_iter().map(|share| share.places).collect()),
            policy => ReplyMerge::Policy(policy),
        };
        Parts::gather(self.me.clone(), sent, recipe, target);
        None
    }

    /// Sends a request to all nodes that its row names.
    pub(super) fn send_to_all(
        &self,
        policy: RequestPolicy,
        database: u32,
        request: EncodedRequest<'_>,
        deadline: Option<Instant>,
    ) -> Result<Sent, Error> {
        self.check_open()?;
        let response = request.name.row().and_then(|row| row.tips.response_policy());
        if policy == RequestPolicy::Special || response == Some(ResponsePolicy::Special) {
            return Err(of_one_node(request.name));
        }
        let map = self.map.read();
        let primaries = || map.shards.iter().map(|shard| shard.primary.number);
        let nodes: Vec<u32> = match policy {
            RequestPolicy::AllNodes => map.nodes().map(|node| node.number).collect(),
            _ => primaries().collect(),
        };
        drop(map);
        if nodes.is_empty() {
            return Err(self.unknown_nodes());
        }
        let send = |&node: &u32| {
            self.handle_of(self.send_to(Destination::Node(node), database, request, deadline), request.name)
        };
        let sent: Vec<Handle> = nodes.iter().map(send).collect();
        let (target, handle) = self.source.lock().pair(request.name);
        Parts::gather(self.me.clone(), sent, ReplyMerge::Policy(response), target);
        Ok(Sent::Slot(handle))
    }

    /// Returns the handle of a part's reply, even if the part could not be sent.
    fn handle_of(&self, sent: Result<Sent, Error>, name: Name) -> Handle {
        let error = match sent {
            Ok(Sent::Slot(handle)) => return handle,
            Ok(Sent::Queued(queued)) => match queued.into_handle(false) {
                Some(handle) => return handle,
                None => Error::protocol("a request was sent that nobody waits for"),
            },
            Ok(Sent::Ready(..)) => Error::protocol("a connection never answers at once"),
            Err(error) => error,
        };
        let (target, handle) = self.source.lock().pair(name);
        self.complete(target, error);
        handle
    }

    /// Completes a target with an error.
    pub(super) fn complete(&self, target: Target, error: Error) {
        let mut done = Completions::default();
        target.complete(Payload::Failed(error), &mut done);
        self.finish(&mut done);
    }
}

/// Returns the number of words that belong to each key of a command that can be split; none for other commands. All its words
/// but the name are keys and their values, and it has no promise that only one server could keep.
fn splits_by(row: &Row) -> Option<usize> {
    let [spec] = row.keys.specs else { return None };
    let promises_all_or_nothing =
        !matches!(row.tips.response_policy(), None | Some(ResponsePolicy::Sum | ResponsePolicy::AllSucceeded));
    if row.tips.request_policy() != Some(RequestPolicy::MultiShard) || promises_all_or_nothing {
        return None;
    }
    match (spec.begin, spec.find) {
        (Begin::Index(1), Find::Range { last: -1, step, .. }) => Some(usize::from(step.max(1))),
        _ => None,
    }
}

/// Returns whether a command iterates over the keys of one node, with a cursor that only this node knows.
fn walks_keys(row: &Row) -> bool {
    row.id == Command::Scan
}

/// Returns each slot's share, in the order in which the slots are named.
fn shares(request: EncodedRequest<'_>, step: usize) -> Result<Vec<Share>, Error> {
    let places = Places::of(request.bytes);
    let args = places.args(request.bytes);
    let words: Vec<&[u8]> = args.iter().collect();
    let (name, rest) = words.split_first().ok_or_else(|| Error::usage("a request without words cannot be sent"))?;
    let mut groups: Vec<(u16, Vec<usize>)> = Vec::new();
    let mut place_of = HashMap::new();
    for (number, key) in rest.chunks(step).filter_map(<[&[u8]]>::first).enumerate() {
        let slot = slot::of_key(key);
        let place = *place_of.entry(slot).or_insert_with(|| {
            groups.push((slot, Vec::new()));
            groups.len() - 1
        });
        if let Some((_, numbers)) = groups.get_mut(place) {
            numbers.push(number);
        }
    }
    let share = |(slot, places): (u16, Vec<usize>)| {
        let bytes = Request::bytes_of(|out| {
            out.bytes(name);
            for words in places.iter().filter_map(|number| rest.chunks(step).nth(*number)) {
                words.iter().for_each(|word| _ = out.bytes(word));
            }
        })?;
        Ok(Share { slot, bytes, places })
    };
    groups.into_iter().map(share).collect()
}

/// Returns the error for a command that makes sense only for a single node.
fn of_one_node(name: Name) -> Error {
    if name.row().is_some_and(walks_keys) {
        return Error::usage(format!("{name} goes through one node, and a cluster has several: use client.scan_all()"));
    }
    Error::usage(format!(
        "{name} answers for one node, and a cluster has several, whose answers do not go together: connect to the node that \
         is meant, by a URL that begins with redis:// and names it"
    ))
}

#[cfg(test)]
mod tests {
    use sleeve_wire::commands::all;

    use super::*;

    #[test]
    fn what_can_be_taken_apart_is_known_by_its_row() {
        let splits = |row: &&Row| splits_by(row).is_some();
        let mut names: Vec<&str> = all().iter().filter(splits).map(|row| row.full_name).collect();
        names.sort_unstable();
        assert_eq!(names, ["del", "exists", "mget", "mset", "touch", "unlink"]);
        let walking: Vec<&str> = all().iter().filter(|row| walks_keys(row)).map(|row| row.full_name).collect();
        assert_eq!(walking, ["scan"]);
    }

    #[test]
    fn each_slot_gets_its_keys_and_what_belongs_to_them() {
        let words = ["MSET", "foo", "1", "bar", "2", "{foo}x", "3"];
        let bytes = Request::bytes_of(|out| words.iter().for_each(|word| _ = out.word(word))).unwrap();
        let shares = shares(EncodedRequest { bytes: &bytes, name: Name::of(&words) }, 2).unwrap();
        let shown: Vec<(u16, String, Vec<usize>)> = shares
            .into_iter()
            .map(|share| {
                let text = String::from_utf8(share.bytes).unwrap();
                let words: Vec<&str> = text.split("\r\n").skip(2).step_by(2).collect();
                (share.slot, words.join(" "), share.places)
            })
            .collect();
        let foo = (12182, "MSET foo 1 {foo}x 3".to_owned(), vec![0, 2]);
        assert_eq!(shown, [foo, (5061, "MSET bar 2".to_owned(), vec![1])]);
    }
}
