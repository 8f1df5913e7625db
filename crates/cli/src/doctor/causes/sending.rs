//! Causes in the way the program uses its connections.

use super::figures::{percent, time};
use super::finding::{COMMANDS_MIN, Cause, DEPTH_MIN, Finding, SHARE_MIN};
use crate::doctor::evidence::{Bursts, Evidence};

/// The number of commands of a connection below which opening it costs more than they do: connecting and logging in take two
/// round trips or three, and work in the server's kernel.
const COMMANDS_OF_CONNECTION_MIN: f64 = 10.0;

/// The number of new connections beyond which they are not just the start of a program.
const CONNECTS_MIN: u64 = 20;

/// The number of round trips beyond which a request may be made with fewer; a look and a change are two, a lock around them
/// four.
const ROUND_TRIPS_MAX: f64 = 4.0;

/// The smallest share of the time between bursts for which they are requests. Below it, the gaps come from other work of the
/// machine.
const PAUSE_SHARE_MIN: f64 = 0.2;

/// The number of bursts that make a habit.
const BURSTS_MIN: usize = 8;

/// The share of bursts of similar length below which the similarity is chance: of random lengths, a sixth are near the
/// median.
const ALIKE_SHARE_MIN: f64 = 0.4;

/// The share of looks with unread replies below which the reader was only late.
const LEFT_LYING_MIN: f64 = 0.5;

/// The number of looks that make a measurement.
const LOOKS_MIN: u64 = 6;

/// Judges whether connections serve for a command or two.
pub fn connection_per_command(evidence: &Evidence) -> Option<Finding> {
    let each = evidence.traffic.commands as f64 / evidence.traffic.connects.max(1) as f64;
    if evidence.traffic.connects < CONNECTS_MIN || each >= COMMANDS_OF_CONNECTION_MIN {
        return None;
    }
    let path = &evidence.path;
    let of_program = evidence
        .traffic
        .share_of_time(evidence.traffic.connects as f64 * path.connect_us / evidence.traffic.clients.max(1.0));
    // Connecting takes its part of the server's time too.
    let connecting = path.connect_us / (path.connect_us + each * path.round_trip_us.p10).max(1.0);
    let of_server = connecting * evidence.server.busy_share.unwrap_or_default().min(1.0);
    let weight = of_program.max(of_server);
    (weight >= SHARE_MIN).then(|| Finding {
        cause: Cause::ConnectionPerCommand,
        weight,
        numbers: vec![
            format!("{} connections were opened for {} commands", evidence.traffic.connects, evidence.traffic.commands),
            format!("opening one takes {}, a command {}", time(path.connect_us), time(path.round_trip_us.p50)),
        ],
        remedy: "Open one connection when the program starts and keep it: a client that many callers share, or a pool."
            .to_owned(),
    })
}

/// Judges whether the program waits for the reply to each command before it sends the next: all the time, or within each
/// request.
pub fn round_trips(evidence: &Evidence) -> Option<Finding> {
    let waiting = evidence.waiting_share();
    if evidence.traffic.commands < COMMANDS_MIN || evidence.traffic.depth() >= DEPTH_MIN {
        return None;
    }
    let bursts = evidence.sample.as_ref().and_then(|sample| sample.bursts.as_ref()).filter(|bursts| {
        let is_habit = bursts.count >= BURSTS_MIN && bursts.alike_share >= ALIKE_SHARE_MIN;
        is_habit && bursts.pause_share >= PAUSE_SHARE_MIN && bursts.round_trips >= ROUND_TRIPS_MAX
    });
    let finding = match bursts {
        Some(bursts) => within_requests(evidence, bursts),
        None => all_the_time(evidence),
    };
    (waiting >= SHARE_MIN && finding.weight >= SHARE_MIN).then_some(finding)
}

fn within_requests(evidence: &Evidence, bursts: &Bursts) -> Finding {
    let round_trip_us = evidence.path.round_trip_us.p50;
    Finding {
        cause: Cause::RoundTripsPerRequest,
        weight: evidence.waiting_share() * (1.0 - 1.0 / bursts.round_trips),
        numbers: vec![
            format!(
                "{:.0} round trips between two pauses, {} each, {} together; {} of them most of all",
                bursts.round_trips,
                time(round_trip_us),
                time(bursts.round_trips * round_trip_us),
                bursts.command
            ),
            format!("{:.1} commands a round trip", evidence.traffic.depth()),
        ],
        remedy: match many(&bursts.command) {
            Some(many) => {
                format!("Ask for all of it at once: {many} instead of {} after another, or a pipeline.", bursts.command)
            }
            None => {
                "Send the commands of a request together: a pipeline, a transaction, or a script if one needs what \
                     another brings."
                    .to_owned()
            }
        },
    }
}

/// Returns the command that does many calls of another one at once.
fn many(command: &str) -> Option<String> {
    let into = sleeve_wire::commands::find(command.as_bytes())?.sharing.merge?.into.row().full_name.to_uppercase();
    Some(if into == command { format!("{into} with many members") } else { into })
}

fn all_the_time(evidence: &Evidence) -> Finding {
    let path = &evidence.path;
    Finding {
        cause: Cause::NoPipelining,
        weight: evidence.waiting_share(),
        numbers: vec![
            format!(
                "{:.1} commands a round trip of {}; connections spend {} of the time on them",
                evidence.traffic.depth(),
                time(path.round_trip_us.p50),
                percent(evidence.waiting_share())
            ),
            format!(
                "one connection can do {:.0} commands a second one at a time, {:.0} without waiting",
                path.alone_per_second, path.together_per_second
            ),
        ],
        remedy: "Send before the last reply is here: a pipeline, commands for many (MGET, MSET), or one client that many callers \
                 share and that does not wait."
            .to_owned(),
    }
}

/// Finds replies that have arrived and lie unread, because the thread or the task that reads them is busy or asleep.
pub fn starved_executor(evidence: &Evidence) -> Option<Finding> {
    let sockets = evidence.sockets.filter(|sockets| sockets.looks >= LOOKS_MIN)?;
    let weight = sockets.left_lying as f64 / sockets.looks as f64;
    if weight < LEFT_LYING_MIN || evidence.traffic.commands == 0 {
        return None;
    }
    let mut numbers = vec![format!(
        "in {} of {} looks replies lay unread in the program's sockets for milliseconds; a round trip takes {}",
        sockets.left_lying,
        sockets.looks,
        time(evidence.path.round_trip_us.p50)
    )];
    if let Some(program) = evidence.program {
        numbers.push(format!("the program's busiest thread has a processor for {}", percent(program.busiest_share)));
    }
    Some(Finding {
        cause: Cause::StarvedExecutor,
        weight,
        numbers,
        remedy: "Keep blocking calls and long computations off the threads that read replies (spawn_blocking, a pool of their \
                 own), or give the executor more threads."
            .to_owned(),
    })
}
