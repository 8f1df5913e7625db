//! Is there an order of the calls, true to their times, in which one server would have given the same answers?
//!
//! The search of Wing and Gong ("Testing and verifying concurrent objects", 1993) with the memory that Lowe added
//! ("Testing for linearizability", 2017): of the calls that could be next, one is tried after the other, and a set of calls
//! that has once led to a state leads nowhere the second time. Calls on keys that no transaction joins are looked at apart,
//! because linearizability is local. Any thread may call it.

use std::collections::{BTreeMap, HashSet};

use super::model::{Command, Value};

/// The most calls that a part of a history may have: they are a set of bits.
const CALLS_MAX: usize = 64;

/// One call: a command, or a transaction with several.
#[derive(Debug, Clone)]
pub struct Call {
    /// The commands with their keys, done at one instant.
    pub commands: Vec<(usize, Command)>,
    /// The reply to each.
    pub replies: Vec<String>,
    /// When it began, on a clock that orders all calls.
    pub begin: u64,
    /// When its reply was there.
    pub end: u64,
}

/// The calls of a part of the history that no order explains, or none if all is well.
pub fn violation(history: &[Call]) -> Option<Vec<Call>> {
    parts(history).into_iter().find(|part| !is_linearizable(part))
}

/// Whether any two calls of a history overlap on the same key.
pub fn is_contended(history: &[Call]) -> bool {
    parts(history).iter().any(|part| {
        part.iter()
            .enumerate()
            .any(|(index, one)| part[..index].iter().any(|two| one.begin < two.end && two.begin < one.end))
    })
}

/// The calls apart by the keys that they have to do with, directly or through transactions.
fn parts(history: &[Call]) -> Vec<Vec<Call>> {
    let mut roots: BTreeMap<usize, usize> = BTreeMap::new();
    let find = |roots: &BTreeMap<usize, usize>, mut key: usize| {
        while let Some(&above) = roots.get(&key).filter(|&&above| above != key) {
            key = above;
        }
        key
    };
    for call in history {
        for (key, _) in &call.commands {
            let (one, two) = (find(&roots, call.commands[0].0), find(&roots, *key));
            roots.insert(one.max(two), one.min(two));
        }
    }
    let mut parts: BTreeMap<usize, Vec<Call>> = BTreeMap::new();
    for call in history {
        parts.entry(find(&roots, call.commands[0].0)).or_default().push(call.clone());
    }
    parts.into_values().collect()
}

/// The values of all keys at one instant.
type State = BTreeMap<usize, Value>;

fn is_linearizable(calls: &[Call]) -> bool {
    assert!(calls.len() <= CALLS_MAX, "a part of a history has at most {CALLS_MAX} calls");
    let all = if calls.len() == CALLS_MAX { u64::MAX } else { (1 << calls.len()) - 1 };
    let mut seen: HashSet<(u64, State)> = HashSet::new();
    let mut open = vec![(0_u64, State::new())];
    while let Some((done, state)) = open.pop() {
        if done == all {
            return true;
        }
        let left = || (0..calls.len()).filter(move |index| done & (1 << index) == 0);
        // Whoever began after another had ended cannot come before it.
        let first_end = left().map(|index| calls[index].end).min().unwrap_or(u64::MAX);
        for index in left().filter(|&index| calls[index].begin < first_end) {
            let Some(next) = after(&state, &calls[index]) else { continue };
            let step = (done | 1 << index, next);
            if seen.insert(step.clone()) {
                open.push(step);
            }
        }
    }
    false
}

/// The state after a call, if it would have been answered so.
fn after(state: &State, call: &Call) -> Option<State> {
    let mut next = state.clone();
    let same = call.replies.len() == call.commands.len()
        && call
            .commands
            .iter()
            .zip(&call.replies)
            .all(|((key, command), reply)| next.entry(*key).or_default().apply(command) == *reply);
    same.then_some(next)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(key: usize, command: Command, reply: &str, begin: u64, end: u64) -> Call {
        Call { commands: vec![(key, command)], replies: vec![reply.into()], begin, end }
    }

    #[test]
    fn calls_that_overlap_may_come_in_either_order() {
        let one = [call(0, Command::Set(1), "+OK\r\n", 0, 3), call(0, Command::Get, "$-1\r\n", 1, 2)];
        let two = [call(0, Command::Set(1), "+OK\r\n", 0, 3), call(0, Command::Get, "$1\r\n1\r\n", 1, 2)];
        assert!(violation(&one).is_none() && violation(&two).is_none());
        assert!(is_contended(&one));
    }

    #[test]
    fn a_write_that_is_over_must_be_seen() {
        let history = [call(0, Command::Set(1), "+OK\r\n", 0, 1), call(0, Command::Get, "$-1\r\n", 2, 3)];
        assert!(violation(&history).is_some());
        let elsewhere = [call(0, Command::Set(1), "+OK\r\n", 0, 1), call(1, Command::Get, "$-1\r\n", 2, 3)];
        assert!(violation(&elsewhere).is_none());
    }

    #[test]
    fn a_lost_increment_is_found() {
        let history = [call(0, Command::Incr, ":1\r\n", 0, 3), call(0, Command::Incr, ":1\r\n", 1, 2)];
        assert!(violation(&history).is_some());
    }

    #[test]
    fn a_transaction_is_seen_whole() {
        let both = Call {
            commands: vec![(0, Command::Set(1)), (1, Command::Set(1))],
            replies: vec!["+OK\r\n".into(), "+OK\r\n".into()],
            begin: 0,
            end: 9,
        };
        let torn = [both.clone(), call(0, Command::Get, "$1\r\n1\r\n", 1, 2), call(1, Command::Get, "$-1\r\n", 3, 4)];
        assert!(violation(&torn).is_some());
        let whole = [both, call(0, Command::Get, "$-1\r\n", 1, 2), call(1, Command::Get, "$1\r\n1\r\n", 3, 4)];
        assert!(violation(&whole).is_none());
    }
}
