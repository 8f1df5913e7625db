//! TO as a replica of FROM: from the first word to the moment when it has nearly everything.

use std::time::{Duration, Instant};

use super::server::{Fault, Server};
use crate::interrupt::Interrupt;
use crate::output;
use crate::replies::info::Info;

/// The lag of TO in bytes below which the handover may begin: the writers are then held while TO receives the remaining
/// bytes.
const LAG_MAX: u64 = 1 << 20;

/// The interval between two looks.
const LOOK: Duration = Duration::from_millis(50);

/// The interval between two printed lines.
const LINE: Duration = Duration::from_secs(1);

/// The number of synchronizations that may fail.
const FAILURES_MAX: u32 = 3;

/// The stage that TO has reached.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Stage {
    /// TO has no link yet.
    Connecting,
    /// FROM sends the dump to TO; the total is 0 if it is not known.
    Receiving { bytes: u64, total: u64 },
    /// TO loads the dump.
    Loading { percent: f64 },
    /// TO follows FROM from this offset on.
    Following { offset: u64 },
}

impl Stage {
    fn of(info: &Info) -> Self {
        if info.number("loading") != 0 {
            return Self::Loading { percent: info.text("loading_loaded_perc").parse().unwrap_or(0.0) };
        }
        if info.number("master_sync_in_progress") != 0 {
            let total = info.text("master_sync_total_bytes").parse().unwrap_or(0);
            return Self::Receiving { bytes: info.number("master_sync_read_bytes"), total };
        }
        match info.text("master_link_status") {
            "up" => Self::Following { offset: info.number("slave_repl_offset") },
            _ => Self::Connecting,
        }
    }

    fn is_syncing(self) -> bool {
        matches!(self, Self::Receiving { .. } | Self::Loading { .. })
    }
}

/// Makes TO follow the server at a host and a port.
pub fn follow(to: &Server, (host, port): &(String, u16)) -> Result<(), Fault> {
    to.ask(&["REPLICAOF", host, &port.to_string()])
}

/// Waits until TO lacks little; prints the progress.
pub fn catch_up(from: &Server, to: &Server, interrupt: &Interrupt) -> Result<(), Fault> {
    let mut watched = Watched { connecting_since: None, was_syncing: false, failures: 0, printed: None };
    loop {
        let end = from.info()?.number("master_repl_offset");
        let info = to.info()?;
        if !info.is_replica() {
            return Err(Fault::refused(format!("{to} follows nobody any more: somebody else has changed that")));
        }
        let stage = Stage::of(&info);
        watched.print(stage, end);
        if matches!(stage, Stage::Following { offset } if end.saturating_sub(offset) <= LAG_MAX) {
            return Ok(());
        }
        watched.check(stage, to)?;
        if !interrupt.sleep(LOOK) {
            return Err(Fault::Interrupted);
        }
    }
}

/// The observations so far.
#[derive(Debug)]
struct Watched {
    connecting_since: Option<Instant>,
    was_syncing: bool,
    failures: u32,
    printed: Option<(Instant, std::mem::Discriminant<Stage>)>,
}

impl Watched {
    /// Prints a line when something has changed, and once a second.
    fn print(&mut self, stage: Stage, end: u64) {
        let kind = std::mem::discriminant(&stage);
        if self.printed.is_some_and(|(then, before)| before == kind && then.elapsed() < LINE) {
            return;
        }
        self.printed = Some((Instant::now(), kind));
        let mega = |bytes: u64| bytes as f64 / 1e6;
        match stage {
            Stage::Connecting => output::line(format_args!("link: TO connects")),
            Stage::Receiving { bytes, total: 0 } => output::line(format_args!("dump: {:.1} MB", mega(bytes))),
            Stage::Receiving { bytes, total } => {
                let percent = bytes as f64 * 100.0 / total as f64;
                output::line(format_args!("dump: {:.1} of {:.1} MB, {percent:.0} %", mega(bytes), mega(total)));
            }
            Stage::Loading { percent } => output::line(format_args!("dump: TO loads it, {percent:.0} %")),
            Stage::Following { offset } => {
                let lag = end.saturating_sub(offset);
                output::line(format_args!("lag:  {lag} bytes, at offset {offset} of {end}"));
            }
        }
        output::flush();
    }

    /// Refuses to wait for a link or a full sync that does not succeed.
    fn check(&mut self, stage: Stage, to: &Server) -> Result<(), Fault> {
        if stage == Stage::Connecting {
            self.failures += u32::from(std::mem::take(&mut self.was_syncing));
            let since = *self.connecting_since.get_or_insert_with(Instant::now);
            if self.failures >= FAILURES_MAX {
                return Err(Fault::refused(format!(
                    "{to} could not be synchronized {FAILURES_MAX} times; its log says why"
                )));
            }
            if since.elapsed() > to.patience {
                return Err(Fault::refused(format!(
                    "{to} gets no link to FROM: its log says why, and --from-address where FROM is to be found from there"
                )));
            }
        } else {
            self.connecting_since = None;
            self.was_syncing = stage.is_syncing();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stage_is_read_from_info() {
        let stage = |text: &str| Stage::of(&Info::parse(text));
        assert_eq!(stage("master_link_status:down\nmaster_sync_in_progress:0"), Stage::Connecting);
        let receiving =
            "master_link_status:down\nmaster_sync_in_progress:1\nmaster_sync_read_bytes:7\nmaster_sync_total_bytes:-1";
        assert_eq!(stage(receiving), Stage::Receiving { bytes: 7, total: 0 });
        assert_eq!(stage("loading:1\nloading_loaded_perc:12.50"), Stage::Loading { percent: 12.5 });
        assert_eq!(stage("loading:0\nmaster_link_status:up\nslave_repl_offset:9"), Stage::Following { offset: 9 });
    }
}
