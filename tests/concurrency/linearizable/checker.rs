//! The checker of histories: it looks for an order of the calls, true to their times, in which one server would have given
//! the same replies.
//!
//! The search is that of Wing and Gong ("Testing and verifying concurrent objects", 1993) with the memory that Lowe added
//! ("Testing for linearizability", 2017): of the calls that could be next, one is tried after the other, and a set of calls
//! that has once led to a state is not tried a second time. Calls on keys that no transaction joins are checked apart,
//! because linearizability is local. The property that a replica's reads saw a prefix of one order is not local: calls that a
//! replica answered are checked together with all calls of its primary. Any thread may call the checker.

use std::collections::{BTreeMap, HashSet};

use super::model::{Command, Value};

/// The most calls of a part of a history, because a set of them is a word of bits.
const CALLS_MAX: usize = 64;

/// A call: a command, or a transaction with several.
#[derive(Debug, Clone)]
pub struct Call {
    /// The commands with their keys, done at one instant.
    pub commands: Vec<(usize, Command)>,
    /// The reply to each.
    pub replies: Vec<String>,
    /// The time when it began, on a clock that orders all calls.
    pub begin: u64,
    /// The time when its reply had arrived.
    pub end: u64,
    /// True if a replica answered the call, which changed no data: it may have seen an earlier state of its primary.
    pub on_replica: bool,
}

/// Returns the calls of a part of the history that no order explains, or none if all is well.
pub fn violation(history: &[Call]) -> Option<Vec<Call>> {
    parts(history).into_iter().find(|part| !is_linearizable(part))
}

/// Returns whether any two calls of a history overlap on the same key.
pub fn is_contended(history: &[Call]) -> bool {
    parts(history).iter().any(|part| {
        part.iter()
            .enumerate()
            .any(|(index, one)| part[..index].iter().any(|two| one.begin < two.end && two.begin < one.end))
    })
}

/// Returns the calls divided by the keys that they touch, directly or through transactions.
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

/// Returns whether there is such an order. A replica's read stands in it at the time of the primary's state that it saw:
/// before all calls that began after the reply arrived, and behind the replica's earlier reads; the primary may have ended
/// other calls in between.
pub fn is_linearizable(calls: &[Call]) -> bool {
    assert!(calls.len() <= CALLS_MAX, "a part of a history has at most {CALLS_MAX} calls");
    let all = if calls.len() == CALLS_MAX { u64::MAX } else { (1 << calls.len()) - 1 };
    let mut seen: HashSet<(u64, State)> = HashSet::new();
    let mut open = vec![(0_u64, State::new())];
    while let Some((done, state)) = open.pop() {
        if done == all {
            return true;
        }
        let left = || (0..calls.len()).filter(move |index| done & (1 << index) == 0);
        // A call that began after another had ended cannot come before it, except a replica's read, which may lag.
        let first_end = |matters: fn(&Call) -> bool| {
            left().filter(|&index| matters(&calls[index])).map(|index| calls[index].end).min().unwrap_or(u64::MAX)
        };
        let (first_of_all, first_on_replica) = (first_end(|_| true), first_end(|call| call.on_replica));
        let may_be_next = |call: &Call| call.begin < if call.on_replica { first_on_replica } else { first_of_all };
        for index in left().filter(|&index| may_be_next(&calls[index])) {
            let Some(next) = after(&state, &calls[index]) else { continue };
            let step = (done | 1 << index, next);
            if seen.insert(step.clone()) {
                open.push(step);
            }
        }
    }
    false
}

/// Returns the state after a call, if the call would have got its reply in this state.
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
        Call { commands: vec![(key, command)], replies: vec![reply.into()], begin, end, on_replica: false }
    }

    /// Returns a replica's read of two strings.
    fn seen(replies: [&str; 2], begin: u64, end: u64) -> Call {
        let reply = |text: &str| if text.is_empty() { "$-1\r\n".to_owned() } else { format!("$1\r\n{text}\r\n") };
        let replies = replies.map(reply).to_vec();
        Call { commands: vec![(0, Command::Get), (1, Command::Get)], replies, begin, end, on_replica: true }
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
            on_replica: false,
        };
        let torn = [both.clone(), call(0, Command::Get, "$1\r\n1\r\n", 1, 2), call(1, Command::Get, "$-1\r\n", 3, 4)];
        assert!(violation(&torn).is_some());
        let whole = [both, call(0, Command::Get, "$-1\r\n", 1, 2), call(1, Command::Get, "$1\r\n1\r\n", 3, 4)];
        assert!(violation(&whole).is_none());
    }

    #[test]
    fn a_replica_may_be_behind_but_nothing_else() {
        let set = |key, begin, end| call(key, Command::Set(1), "+OK\r\n", begin, end);
        let writes = [set(0, 0, 1), set(1, 2, 3)];
        let is_good = |reads: &[Call]| is_linearizable(&[writes.to_vec(), reads.to_vec()].concat());
        assert!(is_good(&[seen(["", ""], 4, 5), seen(["1", ""], 6, 7), seen(["1", "1"], 8, 9)]), "later");
        assert!(!is_good(&[seen(["", "1"], 4, 5)]), "the second write without the first");
        assert!(!is_good(&[seen(["1", ""], 4, 5), seen(["", ""], 6, 7)]), "it goes back");
        assert!(is_good(&[seen(["1", ""], 4, 7), seen(["", ""], 5, 6)]), "both were under way");
        let early = [seen(["1", ""], 0, 1), set(0, 2, 3)];
        assert!(!is_linearizable(&early), "what had not begun");
    }

    #[test]
    fn a_replica_shows_a_transaction_whole() {
        let both = Call {
            commands: vec![(0, Command::Set(1)), (1, Command::Set(1))],
            replies: vec!["+OK\r\n".into(), "+OK\r\n".into()],
            begin: 0,
            end: 1,
            on_replica: false,
        };
        for (replies, is_good) in [(["", ""], true), (["1", ""], false), (["", "1"], false), (["1", "1"], true)] {
            assert_eq!(is_linearizable(&[both.clone(), seen(replies, 2, 3)]), is_good, "{replies:?}");
        }
    }
}
