//! The check of a cluster: agreement, open slots, coverage, and slots with several owners. `fix` repairs on the way.

use std::collections::BTreeSet;

use super::console::Reported;
use super::fix::{coverage, open_slot, owners};
use super::manager::Manager;
use super::node::OpenSlot;
use super::peer::Answer;
use super::slots::SLOTS;
use crate::output;

/// The result of a check.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// True if the cluster is in order, or was brought into order.
    pub is_sound: bool,
    /// The number of errors that were found.
    pub errors: usize,
}

impl Verdict {
    /// Returns the end of a command that depends on a sound cluster.
    pub fn must_be_sound(self) -> Result<(), Reported> {
        if self.is_sound { Ok(()) } else { Err(Reported) }
    }
}

/// Prints the keys, slots and replicas of each primary.
pub fn print_summary(manager: &mut Manager) {
    let (mut primaries, mut keys) = (0, 0);
    for number in manager.view.primaries() {
        let Ok(Answer::Number(size)) = manager.peer(number).ask(&["DBSIZE"]) else { return };
        let node = &manager.view.members[number].node;
        output::line(format_args!(
            "{} ({}...) -> {size} keys | {} slots | {} slaves.",
            node.address,
            node.short_id(),
            node.slots.len(),
            manager.view.replicas_of(&node.id)
        ));
        primaries += 1;
        keys += size;
    }
    manager.console.success(format_args!("[OK] {keys} keys in {primaries} masters."));
    output::line(format_args!("{:.2} keys per slot on average.", keys as f64 / f64::from(SLOTS)));
}

/// Checks the cluster; `quiet` leaves the list of nodes out. An error that ends a repair is printed.
pub fn check(manager: &mut Manager, quiet: bool) -> Result<Verdict, Reported> {
    let console = manager.console;
    let mut verdict = Verdict { is_sound: true, errors: 0 };
    let Some(first) = manager.view.members.first() else { return Ok(Verdict::default()) };
    console.step(format_args!(">>> Performing Cluster Check (using node {})", first.node.address));
    if !quiet {
        manager.view.print();
    }
    if manager.view.is_consistent() {
        console.success(format_args!("[OK] All nodes agree about slots configuration."));
    } else {
        console.error(format_args!("[ERR] Nodes don't agree about configuration!"));
        verdict = Verdict { is_sound: false, errors: 1 };
    }
    check_open_slots(manager, &mut verdict)?;
    check_coverage(manager, &mut verdict)?;
    if manager.options.checks.search_multiple_owners {
        check_owners(manager, &mut verdict)?;
    }
    Ok(verdict)
}

fn check_open_slots(manager: &mut Manager, verdict: &mut Verdict) -> Result<(), Reported> {
    let console = manager.console;
    console.step(format_args!(">>> Check for open slots..."));
    let mut open = BTreeSet::new();
    for node in manager.view.members.iter().map(|member| &member.node) {
        for (state, slots) in [("migrating", &node.migrating), ("importing", &node.importing)] {
            if slots.is_empty() {
                continue;
            }
            let names = list(slots.iter().map(|open: &OpenSlot| open.slot));
            console.error(format_args!("[WARNING] Node {} has slots in {state} state {names}.", node.address));
            verdict.errors += 1;
            open.extend(slots.iter().map(|open| open.slot));
        }
    }
    if open.is_empty() {
        return Ok(());
    }
    verdict.is_sound = false;
    console.error(format_args!("[WARNING] The following slots are open: {}.", list(open.iter().copied())));
    if manager.is_fix {
        must_reach_primaries(manager, "open slots")?;
        for slot in open {
            verdict.is_sound = open_slot::fix(manager, slot).is_ok();
            if !verdict.is_sound {
                break;
            }
        }
    }
    Ok(())
}

fn check_coverage(manager: &mut Manager, verdict: &mut Verdict) -> Result<(), Reported> {
    let console = manager.console;
    console.step(format_args!(">>> Check slots coverage..."));
    let covered = manager.view.covered();
    if covered.len() == usize::from(SLOTS) {
        console.success(format_args!("[OK] All {SLOTS} slots covered."));
        return Ok(());
    }
    console.error(format_args!("[ERR] Not all {SLOTS} slots are covered by nodes.\n"));
    *verdict = Verdict { is_sound: false, errors: verdict.errors + 1 };
    if manager.is_fix {
        must_reach_primaries(manager, "slots coverage")?;
        let missing: Vec<u16> = covered.missing().collect();
        verdict.is_sound = coverage::fix(manager, &missing).is_ok_and(|fixed| fixed > 0);
    }
    Ok(())
}

/// Looks for slots that several nodes serve or have keys of.
fn check_owners(manager: &mut Manager, verdict: &mut Verdict) -> Result<(), Reported> {
    let console = manager.console;
    console.step(format_args!(">>> Check for multiple slot owners..."));
    let all: Vec<u16> = (0..SLOTS).collect();
    let mut owners_of: Vec<Vec<usize>> = vec![Vec::new(); all.len()];
    for number in manager.view.primaries() {
        let member = &mut manager.view.members[number];
        let counts = member.count_keys_of(&all).unwrap_or_default();
        for slot in &all {
            let has_keys = counts.get(usize::from(*slot)).is_some_and(|count| *count > 0);
            if member.node.slots.contains(*slot) || has_keys {
                owners_of[usize::from(*slot)].push(number);
            }
        }
    }
    let mut left = 0;
    for (slot, nodes) in all.into_iter().zip(owners_of).filter(|(_, nodes)| nodes.len() > 1) {
        verdict.is_sound = false;
        left += 1;
        console.error(format_args!("[WARNING] Slot {slot} has {} owners:", nodes.len()));
        for number in &nodes {
            console.error(format_args!("    {}", manager.view.members[*number].node.address));
        }
        if manager.is_fix {
            verdict.is_sound = owners::fix(manager, slot, &nodes).is_ok();
            if !verdict.is_sound {
                console.error(format_args!("Failed to fix multiple owners for slot {slot}"));
                break;
            }
            left -= 1;
        }
    }
    if left == 0 {
        console.success(format_args!("[OK] No multiple owners found."));
    }
    Ok(())
}

/// Refuses to repair while primaries cannot be reached, unless the options allow it.
fn must_reach_primaries(manager: &Manager, what: &str) -> Result<(), Reported> {
    let missing = manager.view.unreachable_primaries;
    if missing == 0 || manager.options.checks.fix_with_unreachable {
        return Ok(());
    }
    manager.console.warn(format_args!(
        "*** Fixing {what} with {missing} unreachable masters is dangerous: sleeve cli will assume that slots about masters that \
         are not reachable are not covered, and will try to reassign them to the reachable nodes. This can cause data loss and is \
         rarely what you want to do. If you really want to proceed use the --cluster-fix-with-unreachable-masters option."
    ));
    Err(Reported)
}

fn list(slots: impl Iterator<Item = u16>) -> String {
    slots.map(|slot| slot.to_string()).collect::<Vec<_>>().join(",")
}
