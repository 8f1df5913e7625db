//! The replicas of one primary, and the choice of the next one to read from.
//!
//! Each read takes a number; equally fit replicas take turns by it. Their fitness is known beforehand (`health_checks`), so
//! that no caller has to wait for it. Any thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use sleeve_wire::commands::all;

use super::node::{Fitness, Node};
use crate::config::read_from::ReadFrom;
use crate::pipe::routed::Destination;
use crate::resp::request::name::Name;

/// The number of rows in the command table.
const ROWS: usize = all().len();

/// The rows of the command table, with true for a command that a replica may answer.
static READING: [bool; ROWS] = {
    let mut table = [false; ROWS];
    let mut row = 0;
    while row < ROWS {
        table[row] = all()[row].reads_data();
        row += 1;
    }
    table
};

/// Returns whether a replica may answer a command of this name.
#[inline]
pub(crate) fn may_answer(name: Name) -> bool {
    READING.get(usize::from(name.number())).copied().unwrap_or_default()
}

/// The replicas of one primary.
pub(super) struct Replicas {
    pub(super) all: Vec<Arc<Node>>,
    /// The number of the next read.
    turn: AtomicUsize,
}

impl Replicas {
    /// Creates the list of these replicas. `rotation` decides which is asked first, so that clients do not all begin with the
    /// same one.
    pub(super) fn new(all: Vec<Arc<Node>>, rotation: usize) -> Self {
        Self { all, turn: AtomicUsize::new(rotation) }
    }

    /// Returns the replica for a read; none if it goes to the primary. If the primary is not connected, a stale replica is
    /// chosen rather than none.
    pub(super) fn choose(&self, policy: &ReadFrom, primary: &Node) -> Option<&Arc<Node>> {
        self.choose_beside(policy, primary.is_near(), || primary.is_connected())
    }

    fn choose_beside(
        &self,
        policy: &ReadFrom,
        is_primary_near: bool,
        is_primary_there: impl Fn() -> bool,
    ) -> Option<&Arc<Node>> {
        let fit = |node: &Node| node.is(Fitness::Fit);
        let chosen = match policy {
            ReadFrom::Primary => return None,
            ReadFrom::Replica => self.next(fit, 0),
            ReadFrom::Any => self.next(fit, usize::from(is_primary_there())),
            ReadFrom::Zone(_) => match self.next(|node| fit(node) && node.is_near(), 0) {
                None if is_primary_near && is_primary_there() => return None,
                None => self.next(fit, 0),
                near => near,
            },
        };
        chosen.or_else(|| if is_primary_there() { None } else { self.next(|node| node.is(Fitness::Stale), 0) })
    }

    /// Returns the next of the eligible replicas in turn, if `others` further servers take turns with them; none if the turn
    /// is one of theirs.
    fn next(&self, is_eligible: impl Fn(&Node) -> bool, others: usize) -> Option<&Arc<Node>> {
        let eligible = || self.all.iter().filter(|node| is_eligible(node));
        let count = eligible().count();
        if count == 0 {
            return None;
        }
        eligible().nth(self.turn.fetch_add(1, Ordering::Relaxed) % (count + others))
    }
}

/// Returns the destination of a request for this slot.
#[inline]
pub(super) fn destination(read_from: &ReadFrom, slot: u16, name: Name) -> Destination {
    if *read_from != ReadFrom::Primary && may_answer(name) {
        Destination::Copies(slot)
    } else {
        Destination::Slot(slot)
    }
}

#[cfg(test)]
mod tests {
    use super::super::node::Address;
    use super::*;
    use crate::config::Config;

    const FIT: (Fitness, bool) = (Fitness::Fit, false);
    const STALE: (Fitness, bool) = (Fitness::Stale, false);
    const UNFIT: (Fitness, bool) = (Fitness::Unfit, false);

    /// Returns the servers of six turns, with number 0 for the primary. Each replica is given by its fitness and whether it
    /// is near; the primary by whether it is near, and connected.
    fn asked(policy: &ReadFrom, replicas: &[(Fitness, bool)], (is_near, is_there): (bool, bool)) -> [u32; 6] {
        let node = |(number, &(fitness, is_near)): (u32, &(Fitness, bool))| {
            let node = Node::new(number, Address { host: "h".to_owned(), port: 1 }, &Config::default());
            node.set_fitness(fitness);
            node.set_near(is_near);
            Arc::new(node)
        };
        let replicas = Replicas::new((1..).zip(replicas).map(node).collect(), 0);
        [(); 6].map(|()| replicas.choose_beside(policy, is_near, || is_there).map_or(0, |node| node.number))
    }

    #[test]
    fn equals_take_turns_and_who_is_not_fit_is_passed_over() {
        let there = (false, true);
        assert_eq!(asked(&ReadFrom::Primary, &[FIT, FIT], there), [0; 6]);
        assert_eq!(asked(&ReadFrom::Replica, &[FIT, FIT], there), [1, 2, 1, 2, 1, 2]);
        assert_eq!(asked(&ReadFrom::Replica, &[FIT, UNFIT, FIT], there), [1, 3, 1, 3, 1, 3]);
        assert_eq!(asked(&ReadFrom::Replica, &[STALE, UNFIT], there), [0; 6]);
        assert_eq!(asked(&ReadFrom::Replica, &[], there), [0; 6]);
        assert_eq!(asked(&ReadFrom::Any, &[FIT, STALE, FIT], there), [1, 3, 0, 1, 3, 0]);
        assert_eq!(asked(&ReadFrom::Any, &[UNFIT], there), [0; 6]);
    }

    #[test]
    fn without_a_primary_one_that_is_behind_is_better_than_nobody() {
        let gone = (true, false);
        assert_eq!(asked(&ReadFrom::Primary, &[FIT], gone), [0; 6]);
        assert_eq!(asked(&ReadFrom::Replica, &[STALE, UNFIT], gone), [1; 6]);
        assert_eq!(asked(&ReadFrom::Any, &[FIT, STALE], gone), [1; 6]);
        assert_eq!(asked(&ReadFrom::Zone("here".to_owned()), &[STALE, FIT], gone), [2; 6]);
        assert_eq!(asked(&ReadFrom::Replica, &[UNFIT], gone), [0; 6]);
    }

    #[test]
    fn those_of_the_own_zone_are_asked_first() {
        let zone = ReadFrom::Zone("here".to_owned());
        let (near, near_stale) = ((Fitness::Fit, true), (Fitness::Stale, true));
        assert_eq!(asked(&zone, &[near, FIT, near], (true, true)), [1, 3, 1, 3, 1, 3]);
        assert_eq!(asked(&zone, &[near_stale, FIT], (true, true)), [0; 6]);
        assert_eq!(asked(&zone, &[near_stale, FIT, FIT], (false, true)), [2, 3, 2, 3, 2, 3]);
        assert_eq!(asked(&zone, &[near_stale], (false, true)), [0; 6]);
    }
}
