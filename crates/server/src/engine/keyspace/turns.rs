//! The turns of threads that need more than the shard of one command: they exclude each other by kind.
//!
//! One command has all shards, or any number of commands go from shard to shard, or any number of scripts have a shard each.
//! A command that goes from shard to shard cannot get an error in the middle, so it must never meet a shard that a script
//! holds for long; and the holder of all shards must never wait for one of the others.
//!
//! A thread joins others of its kind only while no thread of another kind waits, and when the last one leaves, the kinds take
//! turns. So none waits for ever. Commands with one key, and those with a few, take no turn: they hold their shards for
//! microseconds. Any thread may call this.

use std::time::Duration;

use parking_lot::{Condvar, Mutex};

/// The kinds of turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TurnKind {
    /// One thread has all shards.
    All,
    /// Threads take one shard after the other.
    Each,
    /// Each thread runs a script that has one shard.
    Script,
}

const KINDS: usize = 3;

/// The turns of one keyspace.
#[derive(Debug, Default)]
pub struct Turns {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// The kind of those who have a turn, and their number.
    holders: Option<(TurnKind, usize)>,
    /// The threads that wait, by kind.
    waiting: [usize; KINDS],
    /// The kind that is next, if one of it still waits.
    next: Option<TurnKind>,
    /// A script waits until it alone has a turn.
    widens: bool,
}

/// A turn. It ends when it is dropped.
#[derive(Debug)]
pub struct Turn<'t> {
    turns: &'t Turns,
    kind: TurnKind,
}

/// The outcome of an attempt to turn the turn of a script into that of the holder of all shards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Widened {
    /// The script has the turn.
    Done,
    /// Other scripts still run.
    Late,
    /// Another script waits for the same: both would wait for each other.
    Refused,
}

impl Turns {
    /// Takes a turn. Returns None if other threads have theirs for longer than `timeout`.
    pub fn take_within(&self, kind: TurnKind, timeout: Duration) -> Option<Turn<'_>> {
        let mut state = self.state.lock();
        if !state.lets_in(kind, false) {
            state.waiting[kind as usize] += 1;
            let outcome = self.changed.wait_while_for(&mut state, |state| !state.lets_in(kind, true), timeout);
            state.waiting[kind as usize] -= 1;
            if outcome.timed_out() {
                // Threads of another kind may have waited behind this one.
                self.changed.notify_all();
                return None;
            }
        }
        state.enter(kind);
        Some(Turn { turns: self, kind })
    }

    /// Takes a turn to go from shard to shard, however long that takes. The thread may have such a turn already.
    pub fn take_each_again(&self) -> Turn<'_> {
        let mut state = self.state.lock();
        if matches!(state.holders, Some((TurnKind::Each, _))) {
            state.enter(TurnKind::Each);
            return Turn { turns: self, kind: TurnKind::Each };
        }
        drop(state);
        loop {
            if let Some(turn) = self.take_within(TurnKind::Each, Duration::MAX) {
                return turn;
            }
        }
    }

    /// Turns the turn of a script into that of the holder of all shards, once no other script has one.
    pub fn widen_within(&self, turn: &mut Turn<'_>, timeout: Duration) -> Widened {
        let mut state = self.state.lock();
        if turn.kind == TurnKind::All {
            return Widened::Done;
        }
        if state.widens {
            return Widened::Refused;
        }
        state.widens = true;
        let outcome = self.changed.wait_while_for(&mut state, |state| state.has_several(), timeout);
        state.widens = false;
        if outcome.timed_out() {
            self.changed.notify_all();
            return Widened::Late;
        }
        state.holders = Some((TurnKind::All, 1));
        turn.kind = TurnKind::All;
        Widened::Done
    }
}

impl Turn<'_> {
    /// Returns the kind of turn.
    pub fn kind(&self) -> TurnKind {
        self.kind
    }
}

impl State {
    /// Returns whether a thread may have a turn of this kind now. Threads that wait may enter together.
    fn lets_in(&self, kind: TurnKind, has_waited: bool) -> bool {
        let others_wait = (0..KINDS).any(|other| other != kind as usize && self.waiting[other] != 0);
        match self.holders {
            Some((held, _)) => held == kind && kind != TurnKind::All && !others_wait && !self.widens,
            None => match self.next.filter(|next| self.waiting[*next as usize] != 0) {
                Some(next) => has_waited && next == kind,
                None => true,
            },
        }
    }

    fn has_several(&self) -> bool {
        matches!(self.holders, Some((_, 2..)))
    }

    fn enter(&mut self, kind: TurnKind) {
        let count = self.holders.map_or(0, |(_, count)| count);
        self.holders = Some((kind, count + 1));
    }

    /// Returns the next kind behind this one that a thread waits for.
    fn next_behind(&self, kind: TurnKind) -> Option<TurnKind> {
        let order = match kind {
            TurnKind::All => [TurnKind::Each, TurnKind::Script, TurnKind::All],
            TurnKind::Each => [TurnKind::Script, TurnKind::All, TurnKind::Each],
            TurnKind::Script => [TurnKind::All, TurnKind::Each, TurnKind::Script],
        };
        order.into_iter().find(|kind| self.waiting[*kind as usize] != 0)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut state = self.turns.state.lock();
        let left = state.holders.map_or(0, |(_, count)| count.saturating_sub(1));
        state.holders = (left != 0).then_some((self.kind, left));
        if left == 0 {
            state.next = state.next_behind(self.kind);
        }
        if state.widens || state.next.is_some() {
            self.turns.changed.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use TurnKind::{All, Each, Script};

    const NOW: Duration = Duration::ZERO;

    #[test]
    fn kinds_exclude_each_other_and_some_are_shared() {
        let turns = Turns::default();
        for kind in [All, Each, Script] {
            let turn = turns.take_within(kind, NOW).expect("all are free");
            for other in [All, Each, Script] {
                let is_shared = kind == other && kind != All;
                assert_eq!(turns.take_within(other, NOW).is_some(), is_shared, "{kind:?} {other:?}");
            }
            drop(turn);
        }
    }

    #[test]
    fn those_who_wait_go_before_newcomers_and_each_kind_gets_its_turn() {
        let turns = Turns::default();
        let first = turns.take_within(Script, NOW).expect("free");
        std::thread::scope(|scope| {
            let all = scope.spawn(|| drop(turns.take_within(All, Duration::MAX).expect("its turn comes")));
            while turns.state.lock().waiting[All as usize] == 0 {
                std::thread::yield_now();
            }
            assert!(turns.take_within(Script, NOW).is_none(), "a newcomer waits behind the other kind");
            let script = scope.spawn(|| drop(turns.take_within(Script, Duration::MAX).expect("its turn comes")));
            while turns.state.lock().waiting[Script as usize] == 0 {
                std::thread::yield_now();
            }
            drop(first);
            all.join().expect("it ends");
            script.join().expect("it ends");
        });
        assert_eq!(turns.state.lock().holders, None);
    }

    #[test]
    fn one_script_widens_its_turn_when_it_is_alone_and_a_second_is_refused() {
        let turns = Turns::default();
        let mut one = turns.take_within(Script, NOW).expect("free");
        let mut other = turns.take_within(Script, NOW).expect("shared");
        assert_eq!(turns.widen_within(&mut one, NOW), Widened::Late);
        std::thread::scope(|scope| {
            let widens = scope.spawn(|| turns.widen_within(&mut one, Duration::from_secs(600)));
            while !turns.state.lock().widens {
                std::thread::yield_now();
            }
            assert_eq!(turns.widen_within(&mut other, NOW), Widened::Refused);
            assert!(turns.take_within(Script, NOW).is_none(), "no script begins meanwhile");
            drop(other);
            assert_eq!(widens.join().expect("it ends"), Widened::Done);
        });
        assert!(turns.take_within(Script, NOW).is_none());
        assert_eq!(turns.widen_within(&mut one, NOW), Widened::Done, "it has all already");
        drop(one);
        assert!(turns.take_within(All, NOW).is_some());
    }

    #[test]
    fn a_thread_between_shards_takes_further_turns_beside_a_waiting_one() {
        let turns = Turns::default();
        let first = turns.take_within(Each, NOW).expect("free");
        std::thread::scope(|scope| {
            let all = scope.spawn(|| turns.take_within(All, Duration::MAX).is_some());
            while turns.state.lock().waiting[All as usize] == 0 {
                std::thread::yield_now();
            }
            drop(turns.take_each_again());
            drop(first);
            assert!(all.join().expect("it ends"));
        });
    }
}
