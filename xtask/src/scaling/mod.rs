//! `cargo xtask scaling`: what more processors than this machine has would bring, by a simulation of workers that share locks.
//!
//! [`figures`] has what was measured, [`simulation`] how workers wait for each other, [`keys`] which keys they want. Nothing is
//! measured here, and the same seed gives the same table again: docs/scaling.md shows it and says what it rests on.

mod figures;
mod keys;
mod simulation;

use figures::{Command, HAND_OVER, HAND_OVER_MAX};
use keys::Keys;
use simulation::{Outcome, Setting, simulate};

/// How many workers are simulated.
const WORKERS: [usize; 7] = [1, 2, 4, 8, 16, 32, 64];

/// Shards for each of several workers, and all of them at most, as the server makes them; one worker has one.
const SHARDS: Shards = Shards { each: 8, most: 256 };

/// How many shards there are.
#[derive(Clone, Copy)]
struct Shards {
    each: usize,
    most: usize,
}

/// What there might be.
const MORE_SHARDS: Shards = Shards { each: 32, most: 2_048 };

/// Prints a table for each command: a row for each distribution of keys, a column for each number of workers.
///
/// # Errors
/// None; chores have a result.
pub fn run() -> Result<(), String> {
    let all_keys = Keys::all();
    let (_, spread) = &all_keys[0];
    println!("Millions of commands a second, and the percentage of as many times one worker:\n");
    for command in figures::COMMANDS {
        println!("### {}\n\n{}", command.name, heading());
        for (name, keys) in &all_keys {
            println!("{}", row(name, &command, keys, SHARDS, HAND_OVER));
        }
        println!("{}", row("spread, a hand-over of 330 ns", &command, spread, SHARDS, HAND_OVER_MAX));
        println!("{}\n", row("spread, 32 shards a worker, up to 2,048", &command, spread, MORE_SHARDS, HAND_OVER));
    }
    println!("Two workers, CPU time of a command in percent of one worker's: keys spread, and one key alone:\n");
    let (_, one) = &all_keys[all_keys.len() - 1];
    for command in figures::COMMANDS {
        let rate = |workers, keys| outcome(workers, &command, keys, SHARDS, HAND_OVER).rate;
        let share = |keys| 200.0 * rate(1, keys) / rate(2, keys);
        println!("{}: {:.0} %, {:.0} %", command.name, share(spread), share(one));
    }
    Ok(())
}

fn heading() -> String {
    let columns = WORKERS.map(|workers| format!(" {workers} |")).concat();
    format!("| keys |{columns} waiting at 64 |\n| --- |{} ---: |", " ---: |".repeat(WORKERS.len()))
}

fn row(name: &str, command: &Command, keys: &Keys, shards: Shards, hand_over_ns: u64) -> String {
    let outcomes = WORKERS.map(|workers| outcome(workers, command, keys, shards, hand_over_ns));
    let alone = outcomes[0].rate;
    let cell = |(outcome, workers): (&Outcome, usize)| {
        format!(" {:.1}, {:.0} % |", outcome.rate / 1e6, 100.0 * outcome.rate / alone / workers as f64)
    };
    let cells: String = outcomes.iter().zip(WORKERS).map(cell).collect();
    format!("| {name} |{cells} {:.0} % |", 100.0 * outcomes[WORKERS.len() - 1].waiting)
}

fn outcome(workers: usize, command: &Command, keys: &Keys, shards: Shards, hand_over_ns: u64) -> Outcome {
    let shards = if workers == 1 { 1 } else { (workers * shards.each).next_power_of_two().min(shards.most) };
    simulate(&Setting { workers, shards, command, keys, hand_over_ns, spin_ns: figures::SPIN, wake_ns: figures::WAKE })
}
