//! The role goes from FROM to TO by FAILOVER, which FROM itself carries out: it holds writers, waits until TO has everything,
//! and makes TO the primary and itself TO's replica. FROM takes no write between the moment in which TO has everything and
//! the end, however it ends, so no write that was answered is lost.
//!
//! FAILOVER's own TIMEOUT bounds the wait for TO, so that writers go on even where this program dies. FAILOVER ABORT bounds
//! the phase behind that. Redis and Valkey wait until TO acknowledges its offset, which it does once a second, so this
//! program sends FAILOVER just before that.

use std::time::{Duration, Instant};

use super::plan::target;
use super::release::Release;
use super::server::{Fault, Server};
use crate::interrupt::Interrupt;
use crate::replies::info::{Info, Replica};

/// The interval at which a replica acknowledges its offset.
const ACKNOWLEDGEMENT_PERIOD: Duration = Duration::from_secs(1);

/// The longest time for which writers are held before the next acknowledgement is due.
const LEAD_MAX: Duration = Duration::from_millis(150);

/// The interval between two looks.
const LOOK: Duration = Duration::from_millis(5);

/// The result of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// TO is the primary, and FROM its replica; the longest time for which writers were held.
    Done(Duration),
    /// FROM is the primary, as before; the longest time for which writers were held.
    NotYet(Duration),
}

/// Waits until FROM lists TO among its replicas that have received their snapshot.
pub fn wait_for_target(from: &Server, to: &Server, interrupt: &Interrupt) -> Result<Replica, Fault> {
    let begun = Instant::now();
    loop {
        if let Some(replica) = target(from, to)?.filter(|replica| replica.is_online) {
            return Ok(replica);
        }
        if begun.elapsed() > from.patience {
            return Err(Fault::refused(format!(
                "{from} does not list {to} among its replicas, by replica-announce-ip and replica-announce-port or port"
            )));
        }
        if !interrupt.sleep(LOOK) {
            return Err(Fault::Interrupted);
        }
    }
}

/// Waits for the moment at which FROM will soon get TO's acknowledgement, or knows that TO has everything.
pub fn wait_for_moment(
    (from, release): (&Server, &Release),
    target: &Replica,
    pause: Duration,
    interrupt: &Interrupt,
) -> Result<(), Fault> {
    if release.asks_replicas() {
        return Ok(());
    }
    let (begun, mut first) = (Instant::now(), None);
    // If no acknowledgement arrives within two periods, the handover is tried all the same: it may fail, and harms no client.
    while begun.elapsed() < ACKNOWLEDGEMENT_PERIOD * 2 {
        let info = from.info()?;
        let Some(offset) = acknowledged(&info, target) else { return Ok(()) };
        if offset == info.number("master_repl_offset") {
            return Ok(());
        }
        if *first.get_or_insert(offset) != offset {
            let lead = LEAD_MAX.min(patience(pause) / 2);
            return if interrupt.sleep(ACKNOWLEDGEMENT_PERIOD - lead) { Ok(()) } else { Err(Fault::Interrupted) };
        }
        if !interrupt.sleep(LOOK) {
            return Err(Fault::Interrupted);
        }
    }
    Ok(())
}

fn acknowledged(info: &Info, target: &Replica) -> Option<u64> {
    let is_target = |replica: &Replica| (&replica.ip, replica.port) == (&target.ip, target.port);
    info.replicas().into_iter().find(is_target).map(|replica| replica.offset)
}

/// Returns the time that FROM may wait for TO; the rest of the pause is for TO's answer.
fn patience(pause: Duration) -> Duration {
    pause - (pause / 4).min(Duration::from_millis(250))
}

/// Hands over once. Ctrl-C has to wait: the attempt takes no longer than the pause.
///
/// An error that is no refusal of FROM's leaves open which server is the primary.
pub fn hand_over(from: &Server, target: &Replica, pause: Duration) -> Result<Outcome, Fault> {
    let (port, timeout_ms) = (target.port.to_string(), patience(pause).as_millis().max(1).to_string());
    let begun = Instant::now();
    from.ask::<()>(&["FAILOVER", "TO", &target.ip, &port, "TIMEOUT", &timeout_ms])?;
    let mut is_aborted = false;
    loop {
        let info = from.info()?;
        if info.text("master_failover_state") == "no-failover" {
            let held = begun.elapsed();
            return Ok(if info.is_replica() { Outcome::Done(held) } else { Outcome::NotYet(held) });
        }
        if !is_aborted && begun.elapsed() >= pause {
            is_aborted = true;
            match from.ask::<()>(&["FAILOVER", "ABORT"]) {
                // The failover may just have ended.
                Ok(()) | Err(Fault::Refused(_)) => {}
                Err(fault) => return Err(fault),
            }
        }
        std::thread::sleep(LOOK);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn from_waits_for_less_than_the_pause() {
        let patience_ms = |pause| patience(Duration::from_millis(pause)).as_millis();
        assert_eq!([20, 200, 1_000, 10_000].map(patience_ms), [15, 150, 750, 9_750]);
    }
}
