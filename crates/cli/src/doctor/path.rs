//! Measures the way to the server: its round trip, the rate that one connection reaches over it, the cost of a new
//! connection, and its bandwidth. It takes about a second and touches no data.

use std::io;
use std::time::{Duration, Instant};

use super::evidence::{Path, Times};
use super::session::{Fault, Session, Tally};
use crate::endpoint::{Endpoint, Login, encode, exchange};
use crate::replies::info::Info;
use crate::workload::raw::{Raw, Requests};

/// The most PINGs, one after the other.
const PINGS_MAX: usize = 2_000;
/// The fewest PINGs, however long they take.
const PINGS_MIN: usize = 5;
/// The number of new connections.
const CONNECTS: usize = 9;
/// The number of PINGs that are sent without waiting.
const TOGETHER: usize = 20_000;
/// The duration of each of the measurements, if it can be ended.
const TIME: Duration = Duration::from_millis(400);
/// The echoed payloads, in bytes, one after the other: enough for the bandwidth to count more than the round trip.
const ECHOED: [usize; 4] = [16 << 10, 64 << 10, 256 << 10, 1 << 20];
/// The number of echoes of each length. The shortest time counts, because others include waits for a processor.
const ECHOES: usize = 3;
/// The duration of an echo, in microseconds, from which on it is not repeated.
const LONG_ECHO_US: f64 = 100_000.0;
/// The number of round trips from which on the duration of an echo shows the bandwidth.
const ROUND_TRIPS_OF_ECHO: f64 = 20.0;

/// Measures it all.
pub fn measure(session: &mut Session, endpoint: &Endpoint, login: &Login, tally: &Tally) -> Result<Path, Fault> {
    let round_trip_us = pings(session)?;
    let mean_us = round_trip_us.1;
    let together_per_second = together(session, endpoint, login)?;
    let connect_us = connect(endpoint, login, tally)?;
    let bytes_per_second = width(session, round_trip_us.0.p10)?;
    Ok(Path {
        round_trip_us: round_trip_us.0,
        alone_per_second: 1e6 / mean_us,
        together_per_second,
        connect_us,
        bytes_per_second,
    })
}

/// Sends PINGs one after the other; returns their durations, and the mean.
fn pings(session: &mut Session) -> Result<(Times, f64), Fault> {
    let (begun, mut times) = (Instant::now(), Vec::new());
    while times.len() < PINGS_MIN || times.len() < PINGS_MAX && begun.elapsed() < TIME {
        times.push(timed(|| session.ask(&["PING"]))?);
    }
    let mean = times.iter().sum::<f64>() / times.len().max(1) as f64;
    Ok((Times::of(times), mean))
}

/// Returns the duration of some work in microseconds.
fn timed<T>(work: impl FnOnce() -> Result<T, Fault>) -> Result<f64, Fault> {
    let begun = Instant::now();
    work().map(|_| begun.elapsed().as_secs_f64() * 1e6)
}

/// Returns the commands a second while PINGs are sent without waiting: the PINGs, and the commands of others in that time.
fn together(session: &mut Session, endpoint: &Endpoint, login: &Login) -> Result<f64, Fault> {
    let lost = |error: io::Error| Fault::Lost(format!("{endpoint}: {error}"));
    let (mut requests, mut ping) = (Requests::default(), Vec::new());
    encode(&["PING"], &mut ping);
    for _ in 0..TOGETHER {
        requests.push(&ping, 1);
    }
    let mut raw = Raw::connect(endpoint, login).map_err(lost)?;
    let mut executed =
        || session.ask_text(&["INFO", "stats"]).map(|text| Info::parse(&text).number("total_commands_processed"));
    let (before, begun) = (executed()?, Instant::now());
    raw.together(&requests).map_err(lost)?;
    let seconds = begun.elapsed().as_secs_f64();
    let after = executed()?;
    Ok(after.saturating_sub(before).max(TOGETHER as u64) as f64 / seconds)
}

/// Returns the median time of a new connection until its first reply.
fn connect(endpoint: &Endpoint, login: &Login, tally: &Tally) -> Result<f64, Fault> {
    let mut ping = Vec::new();
    encode(&["PING"], &mut ping);
    let lost = |error: io::Error| Fault::Lost(format!("{endpoint}: {error}"));
    let (begun, mut times) = (Instant::now(), Vec::new());
    while times.is_empty() || times.len() < CONNECTS && begun.elapsed() < TIME {
        times.push(timed(|| {
            let stream = login.connect(endpoint).map_err(lost)?;
            exchange(&stream, &ping, 1).map_err(lost)
        })?);
        tally.borrow_mut().count += 1;
    }
    Ok(Times::of(times).p50)
}

/// Returns the bytes a second in one direction, by echoes, which go both ways; the best echo counts. Returns `None` if the
/// server refuses them.
fn width(session: &mut Session, round_trip_us: f64) -> Result<Option<f64>, Fault> {
    let mut best: Option<f64> = None;
    for length in ECHOED {
        let (payload, mut shortest_us) = ("x".repeat(length), f64::MAX);
        for _ in 0..ECHOES {
            match timed(|| session.ask(&["ECHO", &payload])) {
                Ok(time_us) => shortest_us = shortest_us.min(time_us),
                Err(Fault::Refused(_)) => return Ok(best),
                Err(fault) => return Err(fault),
            }
            if shortest_us > LONG_ECHO_US {
                break;
            }
        }
        let moving_us = (shortest_us - round_trip_us).max(shortest_us / 10.0);
        let found = 2.0 * length as f64 / moving_us * 1e6;
        best = Some(best.map_or(found, |best| best.max(found)));
        if shortest_us > round_trip_us * ROUND_TRIPS_OF_ECHO && shortest_us > LONG_ECHO_US / 10.0 {
            break;
        }
    }
    Ok(best)
}
