//! `rebalance`: every primary gets its share of the slots.

use super::super::check;
use super::super::console::Reported;
use super::super::manager::Manager;
use super::super::mover::{Manner, Move};
use super::super::plan::rebalance::{Load, Transfer, balances, transfers};
use super::super::plan::reshard::{Source, pick};
use crate::output;

/// Moves slots until every node has its share.
pub fn run(manager: &mut Manager) -> Result<(), Reported> {
    manager.load_by_words()?;
    let console = manager.console;
    let loads = weigh(manager)?;
    if check::check(manager, true)?.errors > 0 {
        return console.fail(format_args!("*** Please fix your cluster problems before rebalancing"));
    }
    let options = manager.options.rebalance.clone();
    let Some(balances) = balances(&loads, options.threshold) else {
        console.warn(format_args!(
            "*** No rebalancing needed! All nodes are within the {:.2}% threshold.",
            options.threshold
        ));
        return Ok(());
    };
    let total: f32 = loads.iter().map(|load| load.weight).sum();
    console.step(format_args!(">>> Rebalancing across {} nodes. Total weight = {total:.2}", loads.len()));
    if options.verbose {
        for balance in &balances {
            let address = &manager.view.members[balance.node].node.address;
            output::line(format_args!("{address} balance is {} slots", balance.surplus));
        }
    }
    transfers(balances).into_iter().try_for_each(|transfer| carry_out(manager, transfer, options.simulate))
}

/// Returns the primaries that take part, with their weights.
fn weigh(manager: &Manager) -> Result<Vec<Load>, Reported> {
    let (view, console) = (&manager.view, manager.console);
    let options = &manager.options.rebalance;
    let mut weights = vec![1.0; view.members.len()];
    for word in options.weights() {
        let weight = word.split_once('=').and_then(|(id, weight)| Some((id, weight.parse::<f32>().ok()?)));
        let Some((id, weight)) = weight.filter(|(_, weight)| weight.is_finite() && *weight >= 0.0) else {
            return console.fail(format_args!("*** invalid input {word}"));
        };
        let Some(number) = view.find_abbreviated(id) else {
            return console.fail(format_args!("*** No such master node {id}"));
        };
        weights[number] = weight;
    }
    let load =
        |number: usize| Load { node: number, slots: view.members[number].node.slots.len(), weight: weights[number] };
    let loads = view.primaries().into_iter().map(load);
    let loads: Vec<Load> = loads.filter(|load| options.use_empty_masters || load.slots > 0).collect();
    if loads.iter().all(|load| load.weight == 0.0) {
        return console.fail(format_args!("*** invalid input: no node with slots has a weight above 0"));
    }
    Ok(loads)
}

fn carry_out(manager: &mut Manager, transfer: Transfer, is_simulation: bool) -> Result<(), Reported> {
    let Transfer { source, target, slots } = transfer;
    let members = &manager.view.members;
    let (from, to) = (&members[source].node.address, &members[target].node.address);
    output::line(format_args!("Moving {slots} slots from {from} to {to}"));
    let plan = pick(&[Source { node: source, slots: &members[source].node.slots }], slots);
    let mover = manager.mover();
    for (_, slot) in plan {
        if !is_simulation {
            let manner = Manner { quiet: true, keys_only: false };
            mover.move_slot(&mut manager.view, Move { source, target, slot }, manner)?;
        }
        manager.console.part(format_args!("#"));
    }
    output::line(format_args!(""));
    Ok(())
}
