//! `reshard`: a number of slots moves to a node.

use super::super::check;
use super::super::console::{Console, Reported, complain};
use super::super::manager::Manager;
use super::super::mover::{Manner, Move};
use super::super::plan::reshard::{Source, pick};
use super::super::slots::SLOTS;
use super::super::view::View;
use crate::output;

/// Moves slots, after questions for all that the options do not say.
pub fn run(manager: &mut Manager) -> Result<(), Reported> {
    manager.load_by_words()?;
    if check::check(manager, false)?.errors > 0 {
        return complain(format_args!("*** Please fix your cluster problems before resharding"));
    }
    let console = manager.console;
    let options = manager.options.moves.clone();
    let slots = match options.slots {
        Some(slots) if slots > 0 => slots,
        _ => ask_slots(console)?,
    };
    let target = match options.to {
        Some(id) => id,
        None => ask_target(console)?,
    };
    let target = primary(&manager.view, console, &target)?;
    let sources = match &options.from {
        Some(ids) => listed_sources(&manager.view, console, target, ids)?,
        None => ask_sources(&manager.view, console, target)?,
    };
    if sources.is_empty() {
        return complain(format_args!("*** No source nodes given, operation aborted."));
    }
    output::line(format_args!("\nReady to move {slots} slots.\n  Source nodes:"));
    for source in &sources {
        output::line(format_args!("{}", manager.view.describe(*source, 4)));
    }
    output::line(format_args!("  Destination node:\n{}", manager.view.describe(target, 4)));
    let give = |number: &usize| Source { node: *number, slots: &manager.view.members[*number].node.slots };
    let plan = pick(&sources.iter().map(give).collect::<Vec<_>>(), usize::from(slots));
    output::line(format_args!("  Resharding plan:"));
    for (source, slot) in &plan {
        output::line(format_args!("    Moving slot {slot} from {}", manager.view.members[*source].node.id));
    }
    let question = "Do you want to proceed with the proposed reshard plan (yes/no)? ";
    if !options.yes && console.ask(format_args!("{question}"))? != "yes" {
        return Err(Reported);
    }
    let mover = manager.mover();
    for (source, slot) in plan {
        mover.move_slot(&mut manager.view, Move { source, target, slot }, Manner::default())?;
    }
    Ok(())
}

fn ask_slots(console: Console) -> Result<u16, Reported> {
    loop {
        let answer = console.ask(format_args!("How many slots do you want to move (from 1 to {SLOTS})? "))?;
        if let Some(slots) = answer.trim().parse().ok().filter(|slots| (1..=SLOTS).contains(slots)) {
            return Ok(slots);
        }
    }
}

fn ask_target(console: Console) -> Result<String, Reported> {
    loop {
        let answer = console.ask(format_args!("What is the receiving node ID? "))?;
        if !answer.is_empty() {
            return Ok(answer);
        }
    }
}

/// Returns the number of a primary.
fn primary(view: &View, console: Console, id: &str) -> Result<usize, Reported> {
    match view.find(id).filter(|number| !view.members[*number].node.is_replica()) {
        Some(number) => Ok(number),
        None => console.fail(format_args!("*** The specified node ({id}) is not known or not a master, please retry.")),
    }
}

/// Adds a primary to the sources; the target itself is passed over, with a line.
fn add(view: &View, console: Console, target: usize, id: &str, sources: &mut Vec<usize>) -> Result<(), Reported> {
    let number = primary(view, console, id)?;
    if number == target {
        console.error(format_args!("*** It is not possible to use the target node as source node."));
    } else if !sources.contains(&number) {
        sources.push(number);
    }
    Ok(())
}

/// Returns all primaries but the target.
fn all_but(view: &View, target: usize) -> Vec<usize> {
    view.primaries().into_iter().filter(|number| *number != target).collect()
}

/// Returns the sources of a list of ids with commas between them; `all` stands for every other primary.
fn listed_sources(view: &View, console: Console, target: usize, ids: &str) -> Result<Vec<usize>, Reported> {
    let mut sources = Vec::new();
    for id in ids.split(',').filter(|id| !id.is_empty()) {
        if id == "all" {
            return Ok(all_but(view, target));
        }
        add(view, console, target, id, &mut sources)?;
    }
    Ok(sources)
}

fn ask_sources(view: &View, console: Console, target: usize) -> Result<Vec<usize>, Reported> {
    output::line(format_args!(
        "Please enter all the source node IDs.\n  Type 'all' to use all the nodes as source nodes for the hash slots.\n  Type \
         'done' once you entered all the source nodes IDs."
    ));
    let mut sources = Vec::new();
    loop {
        match console.ask(format_args!("Source node #{}: ", sources.len() + 1))?.as_str() {
            "done" => return Ok(sources),
            "all" => return Ok(all_but(view, target)),
            id => add(view, console, target, id, &mut sources)?,
        }
    }
}
