//! An operator moves slots, as redis-cli does, while the cluster lives.

use crate::admin::{self, SlotMove};
use crate::simulation::World;
use crate::simulation::network::Place;
use crate::slots::Slot;
use crate::state::ClusterState;

/// The attempts of a step at a server that is down, before the operator gives the move up.
const ATTEMPTS_MAX: u32 = 40;

/// The pause between two attempts in milliseconds.
const PAUSE_MS: u64 = 100;

/// The longest time in milliseconds that the keys of a slot take.
const KEYS_MS: u64 = 3_000;

/// A move of a slot.
#[derive(Debug, Clone)]
pub(crate) struct Move {
    pub slot: Slot,
    pub source: Place,
    pub target: Place,
    /// The steps that are done: the target imports, the source migrates, the target owns, the source gives away.
    pub steps: usize,
    attempts: u32,
    due_ms: u64,
}

impl World {
    /// Begins to move a slot to a server from the one that owns it.
    pub fn begin_move(&mut self, slot: Slot, target: Place) {
        let Some(state) = &self.servers[target].state else { return };
        let Some(source) = state.slots.owner(slot).and_then(|owner| self.place(owner)) else { return };
        self.watch.moved.insert(slot);
        self.moves.push(Move { slot, source, target, steps: 0, attempts: 0, due_ms: self.now });
    }

    /// Does the steps that are due. The operator gives a move up if a server refuses a step, or stays down.
    pub fn advance_moves(&mut self) {
        let mut moves = std::mem::take(&mut self.moves);
        moves.retain_mut(|one| one.due_ms > self.now || self.advance_move(one));
        moves.append(&mut self.moves);
        self.moves = moves;
    }

    /// Does a step of a move. Returns whether there is another.
    fn advance_move(&mut self, one: &mut Move) -> bool {
        let at = if one.steps.is_multiple_of(2) { one.target } else { one.source };
        let id = |place: Place| self.servers[place].last_id.to_string();
        let (source, target) = (id(one.source), id(one.target));
        let step = match one.steps {
            0 => SlotMove::Importing(source.as_bytes()),
            1 => SlotMove::Migrating(target.as_bytes()),
            _ => SlotMove::Node(target.as_bytes()),
        };
        let slot = one.slot.to_string();
        let done = self.command(at, |state, now, host| {
            let mut operation = admin::Operation { state, now, host };
            admin::set_slot(&mut operation, slot.as_bytes(), Some(step)).is_ok()
        });
        one.due_ms = self.now + PAUSE_MS;
        let Some(is_done) = done else {
            one.attempts += 1;
            // The slot is the target's once it owns it, and the operator is content.
            return one.attempts < ATTEMPTS_MAX;
        };
        if is_done && one.steps >= 2 {
            self.watch.handed_over.insert(one.slot);
        }
        one.steps += 1;
        // The keys of the slot move meanwhile.
        one.due_ms += self.chance.below(KEYS_MS);
        is_done && one.steps < 4
    }

    /// Gives slots that no node claims to a primary, as `redis-cli --cluster fix` does. Only slots that an operator has handed
    /// over can need that. Returns whether there were any.
    ///
    /// A target takes its epoch without a vote. If it is cut off, that epoch can be below the one of the source, of which an
    /// old claim then takes the slot from the target, after the source has given it away. So it is in Redis.
    pub fn repair_slots(&mut self) -> bool {
        let is_claimed = |slot: &Slot| self.states().any(|state| state.slots.owner(*slot) == Some(state.id()));
        let slots: Vec<Slot> = self.watch.handed_over.iter().copied().filter(|slot| !is_claimed(slot)).collect();
        let is_voter =
            |place: &Place| self.servers[*place].state.as_ref().is_some_and(|state| state.myself().is_voter());
        let Some(place) = (0..self.servers.len()).find(is_voter) else { return false };
        for slot in &slots {
            self.command(place, |state: &mut ClusterState, now, host| {
                let mut operation = admin::Operation { state, now, host };
                // The node may know no owner already.
                _ = admin::delete_slots(&mut operation, [Ok((*slot, *slot))]);
                admin::add_slots(&mut operation, [Ok((*slot, *slot))]).expect("the slot is free");
                admin::bump_epoch(&mut operation).expect("a primary takes an epoch");
            });
        }
        !slots.is_empty()
    }
}
