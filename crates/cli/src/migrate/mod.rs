//! `sleeve migrate`: a server's data and its role move to another while clients go on.
//!
//! TO becomes a replica of FROM, and when it has nearly everything FROM hands its role over by FAILOVER. From top to bottom:
//! here (the order of steps, and the way back from each) → `handover` → `plan` (the objections to it) → `settings` (the
//! options that one needs to follow the other), `release` (which dumps it loads), `following` (how far TO is) → `server`
//! (asking), `options`.

mod following;
mod handover;
pub mod options;
mod plan;
mod release;
mod server;
mod settings;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use crate::interrupt::{INTERRUPTED, Interrupt};
use crate::output;
use handover::Outcome;
use options::MigrateOptions;
use plan::Plan;
use server::{Fault, Server};
use settings::Settings;

/// The exit code if it is not known which server is the primary.
const UNKNOWN: u8 = 2;

/// The interval between two looks whether FROM follows TO.
const LOOK: Duration = Duration::from_millis(50);

/// Runs the migration with these options.
pub fn run(options: &MigrateOptions) -> ExitCode {
    match try_run(options) {
        Ok(code) => code,
        Err(fault) => {
            output::flush();
            eprintln!("{fault}\nNothing was changed.");
            ExitCode::from(code_of(&fault))
        }
    }
}

fn code_of(fault: &Fault) -> u8 {
    if matches!(fault, Fault::Interrupted) { INTERRUPTED } else { 1 }
}

/// Looks at both servers, and migrates; the error is one of looking.
fn try_run(options: &MigrateOptions) -> Result<ExitCode, Fault> {
    let is_secure = [&options.from, &options.to].iter().any(|url| url.starts_with("rediss://"));
    options.tls_options.check(is_secure).map_err(Fault::Refused)?;
    let interrupt = Interrupt::watch().map_err(|error| Fault::Refused(error.to_string()))?;
    let from = Server::connect("FROM", &options.from, options)?;
    let to = Server::connect("TO", &options.to, options)?;
    let plan = plan::look(&from, &to, options)?;
    plan.print(&from, &to)?;
    if options.dry_run {
        plan.print_steps(&from, &to, options)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut migration = Migration { from, to, plan, options, settings: Settings::default(), is_told_to_follow: false };
    Ok(match migration.advance(&interrupt) {
        Ok(held) => migration.finish(held),
        Err(Failure::Before(fault)) => migration.undo(&fault),
        Err(Failure::Amid(fault)) => migration.settle(&fault),
    })
}

/// The reason why TO is not the primary.
enum Failure {
    /// A step failed while FROM was still the primary.
    Before(Fault),
    /// The connection to FROM was lost during the handover.
    Amid(Fault),
}

impl From<Fault> for Failure {
    fn from(fault: Fault) -> Self {
        Self::Before(fault)
    }
}

/// A migration under way.
struct Migration<'o> {
    from: Server,
    to: Server,
    plan: Plan,
    options: &'o MigrateOptions,
    settings: Settings,
    /// True if this migration has told TO to follow FROM.
    is_told_to_follow: bool,
}

impl Migration<'_> {
    /// Takes all steps until TO is the primary; returns the time for which writers were held.
    fn advance(&mut self, interrupt: &Interrupt) -> Result<Duration, Failure> {
        if !self.plan.is_following {
            self.settings.prepare(&self.to, &self.from)?;
            self.is_told_to_follow = true;
            following::follow(&self.to, &self.place_of_from())?;
        }
        for attempt in 1..=self.options.attempts {
            // An attempt that was given up late may have left TO a primary.
            if attempt > 1 && !self.to.info()?.is_replica() {
                following::follow(&self.to, &self.place_of_from())?;
            }
            following::catch_up(&self.from, &self.to, interrupt)?;
            let target = handover::wait_for_target(&self.from, &self.to, interrupt)?;
            self.settings.prepare(&self.from, &self.to)?;
            let pause = self.options.pause();
            handover::wait_for_moment((&self.from, &self.plan.from), &target, pause, interrupt)?;
            match handover::hand_over(&self.from, &target, pause) {
                Ok(Outcome::Done(held)) => return Ok(held),
                Ok(Outcome::NotYet(held)) => output::line(format_args!(
                    "attempt {attempt}: writers were held for {} ms, and TO did not catch up: FROM goes on as the primary",
                    held.as_millis()
                )),
                Err(fault @ Fault::Lost(_)) => return Err(Failure::Amid(fault)),
                Err(fault) => return Err(Failure::Before(fault)),
            }
            output::flush();
            if interrupt.is_heard() {
                return Err(Failure::Before(Fault::Interrupted));
            }
        }
        let why =
            "TO did not catch up within the pause: give more time (--pause) or tries (--attempts), or fewer writes";
        Err(Failure::Before(Fault::refused(why)))
    }

    fn place_of_from(&self) -> (String, u16) {
        self.options.from_address.clone().unwrap_or_else(|| self.from.place())
    }

    /// Takes the remaining steps once TO is the primary. If one fails now, nothing is reverted, and the failure is reported.
    fn finish(&mut self, held: Duration) -> ExitCode {
        let (from, to) = (&self.from, &self.to);
        output::line(format_args!("{to} is the primary now; writers were held for {} ms at most", held.as_millis()));
        if !self.options.keep_clients {
            match from.ask::<i64>(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]) {
                Ok(count) => {
                    output::line(format_args!("clients of FROM that were closed, to look for the new primary: {count}"))
                }
                Err(fault) => output::line(format_args!("the clients of FROM are still connected: {fault}")),
            }
        }
        if let Err(fault) = self.settings.restore(to) {
            output::line(format_args!("TO keeps what it needed to follow: {fault}"));
        }
        match wait_for_link(from) {
            Ok(()) if self.plan.has_way_back => {
                output::line(format_args!("FROM follows TO: `sleeve migrate TO FROM` is the way back"));
            }
            Ok(()) => output::line(format_args!("FROM follows TO, as long as its connection lasts")),
            Err(fault) => output::line(format_args!("FROM does not follow TO, so there is no way back yet: {fault}")),
        }
        let changed = self.settings.changed(from);
        if !changed.is_empty() {
            output::line(format_args!("{} of FROM was set, as it needs to follow TO", changed.join(", ")));
        }
        output::line(format_args!(
            "FROM must not be started again as a primary: CONFIG REWRITE on both, or their configuration files, keep the roles"
        ));
        output::flush();
        ExitCode::SUCCESS
    }

    /// Restores TO, except for its data, and reports it. FROM is still the primary.
    fn undo(&mut self, fault: &Fault) -> ExitCode {
        output::flush();
        eprintln!("{fault}");
        match self.settings.restore(&self.from).and_then(|()| self.from.info()) {
            Ok(info) if info.is_replica() => eprintln!("{} is a replica: somebody else has changed that.", self.from),
            Ok(_) => eprintln!("{} is the primary and takes writes, as before.", self.from),
            Err(fault) => {
                eprintln!("{} was left as the primary. {}", self.from, sentence(&fault, &self.settings, &self.from));
            }
        }
        match self.release_to() {
            Ok(text) => eprintln!("{text}"),
            Err(fault) => eprintln!(
                "{} may still follow FROM: REPLICAOF NO ONE ends that. {}",
                self.to,
                sentence(&fault, &self.settings, &self.to)
            ),
        }
        ExitCode::from(code_of(fault))
    }

    /// Restores TO to its former state; returns a sentence about it.
    fn release_to(&mut self) -> Result<String, Fault> {
        let to = &self.to;
        if !self.is_told_to_follow {
            if self.plan.is_following && !to.info()?.is_replica() {
                following::follow(to, &self.place_of_from())?;
            }
            self.settings.restore(to)?;
            return Ok(if self.plan.is_following {
                format!("{to} follows FROM, as before.")
            } else {
                format!("{to} is as before.")
            });
        }
        let before = to.info()?;
        to.ask::<()>(&["REPLICAOF", "NO", "ONE"])?;
        self.settings.restore(to)?;
        let has_all = before.is_replica() && before.text("master_link_status") == "up" && before.number("loading") == 0;
        Ok(format!(
            "{to} follows nobody, and has {} (keys: {}). --replace begins anew.",
            match has_all {
                true => format!("what FROM had at offset {}", before.number("slave_repl_offset")),
                false => "not all that FROM has".to_owned(),
            },
            to.info()?.keys()
        ))
    }

    /// Finds out which server is the primary, after the connection to FROM was lost during the handover.
    fn settle(&mut self, fault: &Fault) -> ExitCode {
        output::flush();
        let begun = Instant::now();
        while let Ok(info) = self.from.info() {
            if info.text("master_failover_state") == "no-failover" {
                return if info.is_replica() { self.finish(self.options.pause()) } else { self.undo(fault) };
            }
            // FROM refuses if the failover has just ended, which the next look shows.
            _ = self.from.ask::<()>(&["FAILOVER", "ABORT"]);
            if begun.elapsed() > self.from.patience {
                break;
            }
            std::thread::sleep(LOOK);
        }
        eprintln!("{fault}");
        match self.to.info() {
            Ok(info) if info.is_replica() => eprintln!(
                "{} still follows FROM, and has everything up to offset {}. If FROM does not come back, REPLICAOF NO ONE makes it \
                 the primary.",
                self.to,
                info.number("slave_repl_offset")
            ),
            Ok(_) => eprintln!(
                "{} is the primary, and has all that FROM had. When FROM comes back it has to follow TO (REPLICAOF) before anybody \
                 writes to it.",
                self.to
            ),
            Err(other) => eprintln!("{other}\nWhich of them is the primary, ROLE says when they can be reached."),
        }
        ExitCode::from(UNKNOWN)
    }
}

/// Returns a sentence about the reason why a server could not be restored.
fn sentence(fault: &Fault, settings: &Settings, server: &Server) -> String {
    let changed = settings.changed(server);
    match changed.as_slice() {
        [] => format!("{fault}"),
        _ => format!("{fault}. Its {} was changed", changed.join(", ")),
    }
}

/// Waits until FROM follows.
fn wait_for_link(from: &Server) -> Result<(), Fault> {
    let begun = Instant::now();
    while from.info()?.text("master_link_status") != "up" {
        if begun.elapsed() > from.patience {
            return Err(Fault::refused("its link is down, its log says why"));
        }
        std::thread::sleep(LOOK);
    }
    Ok(())
}
