//! The commands about one slot, and the move of a slot with its keys from one node to another.
//!
//! A slot moves as with redis-cli: the target imports it, the source migrates it, the keys follow by MIGRATE a few at a
//! time, and then the target, the source and all other primaries are told the new owner, in this order. If the move is
//! interrupted, the slot stays open at both nodes: clients are redirected to the right one of the two, and `fix` ends the
//! move.

use super::console::{Console, Reported};
use super::peer::{Answer, Fault};
use super::view::{Member, View};
use crate::output;

/// The answer of a node that has lost its last slot, and so has become a replica, to the new owner of that slot.
const IS_REPLICA_NOW: &str = "ERR Please use SETSLOT only with masters.";

/// The digest of a key that is not there.
const NO_KEY: &[u8] = b"0000000000000000000000000000000000000000";

/// The most requests that are sent to a node at once.
const REQUESTS_MAX: usize = 1_024;

/// The state of a slot at a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlotState {
    /// The slot comes from a node.
    Importing,
    /// The slot goes to a node.
    Migrating,
    /// The slot is a node's.
    Node,
}

impl Member {
    /// Tells the node the state of a slot; `peer` is the id of the other node.
    pub fn try_set_slot(&mut self, slot: u16, state: SlotState, peer: &str) -> Result<(), Fault> {
        let state = match state {
            SlotState::Importing => "IMPORTING",
            SlotState::Migrating => "MIGRATING",
            SlotState::Node => "NODE",
        };
        self.peer.try_ask(&["CLUSTER", "SETSLOT", &slot.to_string(), state, peer]).map(|_| ())
    }

    /// Tells the node the state of a slot. A refusal is printed.
    pub fn set_slot(&mut self, slot: u16, state: SlotState, peer: &str) -> Result<(), Reported> {
        self.try_set_slot(slot, state, peer).or_else(|fault| self.peer.report(&fault))
    }

    /// Closes a slot. A refusal is printed.
    pub fn close_slot(&mut self, slot: u16) -> Result<(), Reported> {
        self.peer.ask(&["CLUSTER", "SETSLOT", &slot.to_string(), "STABLE"]).map(|_| ())
    }

    /// Takes a slot away from the owner that this node knows of. A slot without an owner is no error.
    pub fn delete_slot(&mut self, slot: u16) -> Result<(), Reported> {
        match self.peer.try_ask(&["CLUSTER", "DELSLOTS", &slot.to_string()]) {
            Ok(_) => Ok(()),
            Err(fault @ Fault::Refused(_)) if self.knows_owner(slot)? => self.peer.report(&fault),
            Err(Fault::Refused(_)) => Ok(()),
            Err(fault) => self.peer.report(&fault),
        }
    }

    /// Makes the node the owner of a slot with an epoch above all others; `close` closes the slot too.
    pub fn take_slot(&mut self, slot: u16, close: bool) -> Result<(), Reported> {
        let slot = slot.to_string();
        let mut requests = vec![vec!["MULTI"], vec!["CLUSTER", "DELSLOTS", &slot], vec!["CLUSTER", "ADDSLOTS", &slot]];
        if close {
            requests.push(vec!["CLUSTER", "SETSLOT", &slot, "STABLE"]);
        }
        requests.extend([vec!["CLUSTER", "BUMPEPOCH"], vec!["EXEC"]]);
        let mut answers = self.peer.ask_all(&requests)?;
        // A command that is refused before EXEC makes EXEC fail too; its own error says more.
        let executed = answers.pop().unwrap_or(Answer::Null);
        let refused =
            answers.into_iter().find_map(|answer| if let Answer::Error(text) = answer { Some(text) } else { None });
        let text = match (executed, refused) {
            (_, Some(text)) | (Answer::Error(text), None) => Some(text),
            // The slot may have had no owner, and the epoch may be the highest already. ADDSLOTS alone has to succeed.
            (Answer::List(replies), None) => match replies.into_iter().nth(1) {
                Some(Answer::Error(text)) => Some(text),
                _ => None,
            },
            _ => Some("EXEC failed".to_owned()),
        };
        match text {
            Some(text) => self.peer.report(&Fault::Refused(text)),
            None => Ok(()),
        }
    }

    /// Returns the number of keys of a slot that the node has.
    pub fn count_keys(&mut self, slot: u16) -> Result<i64, Reported> {
        match self.peer.ask(&["CLUSTER", "COUNTKEYSINSLOT", &slot.to_string()])? {
            Answer::Number(count) => Ok(count),
            _ => Ok(0),
        }
    }

    /// Returns the numbers of keys of many slots.
    pub fn count_keys_of(&mut self, slots: &[u16]) -> Result<Vec<i64>, Reported> {
        let mut counts = Vec::with_capacity(slots.len());
        for slots in slots.chunks(REQUESTS_MAX) {
            let request = |slot: &u16| vec!["CLUSTER".to_owned(), "COUNTKEYSINSLOT".to_owned(), slot.to_string()];
            let answers = self.peer.ask_all(&slots.iter().map(request).collect::<Vec<_>>())?;
            for answer in answers {
                counts.push(match answer {
                    Answer::Number(count) => count,
                    Answer::Error(text) => return self.peer.report(&Fault::Refused(text)),
                    _ => 0,
                });
            }
        }
        Ok(counts)
    }

    /// Returns whether the node knows an owner of a slot.
    fn knows_owner(&mut self, slot: u16) -> Result<bool, Reported> {
        let ranges = self.peer.ask(&["CLUSTER", "SLOTS"])?.items();
        Ok(ranges.into_iter().any(|range| match range.items().as_slice() {
            [Answer::Number(first), Answer::Number(last), ..] => (*first..=*last).contains(&i64::from(slot)),
            _ => false,
        }))
    }
}

/// The settings of all moves of a command.
#[derive(Clone, Debug)]
pub struct Mover {
    /// The most keys of one MIGRATE.
    pub pipeline: u32,
    /// The timeout of MIGRATE in milliseconds.
    pub timeout_ms: u32,
    /// True if keys of the target that have other values are overwritten.
    pub replace: bool,
    /// True if a slot without an owner is given to the target on the way.
    pub is_fix: bool,
    /// The words of MIGRATE with which the source logs in at the target.
    pub login: Vec<String>,
    /// The console.
    pub console: Console,
}

/// The way of one move.
#[derive(Clone, Copy, Debug, Default)]
pub struct Manner {
    /// True if the line of the move, with a dot for each key, is not printed.
    pub quiet: bool,
    /// True if only the keys move: neither node is told about the slot.
    pub keys_only: bool,
}

/// A slot on its way.
#[derive(Clone, Copy, Debug)]
pub struct Move {
    /// The number of the node that gives the slot.
    pub source: usize,
    /// The number of the node that receives it.
    pub target: usize,
    /// The slot.
    pub slot: u16,
}

impl Mover {
    /// Moves a slot. The view then says that the target has it. A failure is printed.
    pub fn move_slot(&self, view: &mut View, step: Move, manner: Manner) -> Result<(), Reported> {
        let Move { source, target, slot } = step;
        let name = |view: &View, number: usize| view.members[number].node.address.to_string();
        if !manner.quiet {
            let (from, to) = (name(view, source), name(view, target));
            self.console.part(format_args!("Moving slot {slot} from {from} to {to}: "));
        }
        let (source_id, target_id) = (view.members[source].node.id.clone(), view.members[target].node.id.clone());
        if !manner.keys_only {
            view.members[target].set_slot(slot, SlotState::Importing, &source_id)?;
            view.members[source].set_slot(slot, SlotState::Migrating, &target_id)?;
        }
        let moved = self.move_keys(view, step, manner);
        if !manner.quiet {
            output::line(format_args!(""));
        }
        moved?;
        if !manner.keys_only {
            self.announce(view, step, &target_id)?;
            view.members[source].node.slots.remove(slot);
            view.members[target].node.slots.insert(slot);
        }
        Ok(())
    }

    /// Tells all primaries the new owner. The target is told first: if it ended after others were told, the slot would have no
    /// owner, and clients would be redirected in a circle.
    fn announce(&self, view: &mut View, step: Move, owner: &str) -> Result<(), Reported> {
        view.members[step.target].set_slot(step.slot, SlotState::Node, owner)?;
        let source = &mut view.members[step.source];
        match source.try_set_slot(step.slot, SlotState::Node, owner) {
            Err(Fault::Refused(text)) if text.starts_with(IS_REPLICA_NOW) => {}
            Err(fault) => return source.peer.report(&fault),
            Ok(()) => {}
        }
        for number in view.primaries() {
            if number != step.source && number != step.target {
                view.members[number].set_slot(step.slot, SlotState::Node, owner)?;
            }
        }
        Ok(())
    }

    /// Moves all keys of the slot, `pipeline` at a time.
    fn move_keys(&self, view: &mut View, step: Move, manner: Manner) -> Result<(), Reported> {
        let (slot, count) = (step.slot.to_string(), self.pipeline.to_string());
        loop {
            let keys = view.members[step.source].peer.ask(&["CLUSTER", "GETKEYSINSLOT", &slot, &count])?.strings();
            if keys.is_empty() {
                return Ok(());
            }
            if let Err(fault) = self.migrate(view, step, &keys, false) {
                self.overcome(view, step, &keys, fault)?;
            }
            if !manner.quiet {
                self.console.part(format_args!("{}", ".".repeat(keys.len())));
            }
        }
    }

    /// Sends the MIGRATE of some keys.
    fn migrate(&self, view: &mut View, step: Move, keys: &[Vec<u8>], replace: bool) -> Result<(), Fault> {
        let target = view.members[step.target].node.address.clone();
        let (port, timeout) = (target.port.to_string(), self.timeout_ms.to_string());
        let mut words: Vec<&[u8]> =
            [b"MIGRATE", target.host.as_bytes(), port.as_bytes(), b"", b"0", timeout.as_bytes()].to_vec();
        if replace {
            words.push(b"REPLACE");
        }
        words.extend(self.login.iter().map(String::as_bytes));
        words.push(b"KEYS");
        words.extend(keys.iter().map(Vec::as_slice));
        view.members[step.source].peer.try_ask(&words).map(|_| ())
    }

    /// Migrates the keys that were refused again, if the reason can be removed: the target has keys of the same names and
    /// values, or `replace` allows that they are overwritten, or `fix` gives the slot an owner.
    fn overcome(&self, view: &mut View, step: Move, keys: &[Vec<u8>], fault: Fault) -> Result<(), Reported> {
        let is_busy = matches!(&fault, Fault::Refused(text) if text.contains("BUSYKEY"));
        let is_refused = matches!(fault, Fault::Refused(_));
        let is_unserved = is_refused && !is_busy && !view.members[step.source].knows_owner(step.slot)?;
        if is_unserved && self.is_fix {
            let target = &view.members[step.target].node;
            let (id, address) = (target.id.clone(), target.address.to_string());
            self.console.warn(format_args!("*** Slot was not served, setting owner to node {address}."));
            // If the source refuses, the next MIGRATE says why.
            _ = view.members[step.source].set_slot(step.slot, SlotState::Node, &id);
        }
        let mut outcome = Err(fault);
        if is_busy {
            self.console.warn(format_args!("\n*** Target key exists"));
            if !self.replace {
                self.must_be_equal(view, step, keys)?;
            }
            self.console.warn(format_args!("*** Replacing target keys..."));
        }
        if is_busy || is_unserved {
            outcome = self.migrate(view, step, keys, is_busy);
        }
        outcome.or_else(|fault| {
            output::line(format_args!(""));
            view.members[step.source].peer.report(&fault)
        })
    }

    /// Refuses to overwrite keys of the target that have other values than those of the source.
    fn must_be_equal(&self, view: &mut View, step: Move, keys: &[Vec<u8>]) -> Result<(), Reported> {
        let console = self.console;
        console.warn(format_args!("*** Checking key values on both nodes..."));
        let request: Vec<&[u8]> =
            [&b"DEBUG"[..], b"DIGEST-VALUE"].into_iter().chain(keys.iter().map(Vec::as_slice)).collect();
        let mut digests = |number: usize| view.members[number].peer.ask(&request).map(Answer::strings);
        let (Ok(ours), Ok(theirs)) = (digests(step.source), digests(step.target)) else {
            return console.fail(format_args!("*** Value check failed!"));
        };
        let pairs = keys.iter().zip(ours.iter().zip(&theirs));
        let differs = |(_, (ours, theirs)): &(&Vec<u8>, (&Vec<u8>, &Vec<u8>))| {
            ours != theirs && *ours != NO_KEY && *theirs != NO_KEY
        };
        let different: Vec<&Vec<u8>> = pairs.filter(differs).map(|(key, _)| key).collect();
        if different.is_empty() {
            return Ok(());
        }
        console.error(format_args!(
            "*** Found {} key(s) in both source node and target node having different values.\n    Source node: {}\n    Target \
             node: {}\n    Keys(s):",
            different.len(),
            view.members[step.source].node.address,
            view.members[step.target].node.address
        ));
        for key in different {
            console.error(format_args!("    - {}", String::from_utf8_lossy(key)));
        }
        console.fail(format_args!(
            "Please fix the above key(s) manually and try again or relaunch the command \nwith --cluster-replace option to force \
             key overriding."
        ))
    }
}
