//! What started servers take in memory: after their start, for a connection that does nothing, and for a key.

use crate::bench::cases::select;
use crate::bench::generator;
use crate::bench::lane::Share;
use crate::bench::template::Numbers;
use crate::endpoint::cannot_connect;
use crate::interrupt::Interrupt;

use super::contender::Contender;

/// Connections that do nothing.
const IDLE: usize = 1000;

/// Bytes of the values that keys are measured with.
pub const VALUE_BYTES: [usize; 3] = [16, 200, 1024];

/// Bytes of resident memory.
#[derive(Clone, Debug)]
pub struct Memory {
    /// The server's name.
    pub server: String,
    /// Soon after its start.
    pub start: f64,
    /// What it grows by for a connection that does nothing.
    pub connection: f64,
    /// What it grows by for a key of 16 bytes with a value of [`VALUE_BYTES`].
    pub key: [f64; VALUE_BYTES.len()],
}

/// Measures one that was started here, and leaves it empty; `None` for others, whose data are not ours.
///
/// # Errors
/// A sentence for the user.
pub fn measure(contender: &Contender, keys: u64, interrupt: &Interrupt) -> Result<Option<Memory>, String> {
    let Some(meter) = contender.meter.as_ref().filter(|_| contender.is_ours) else { return Ok(None) };
    let resident = || meter.resident_bytes().unwrap_or_default() as f64;
    let start = resident();
    let idle: Result<Vec<_>, _> = (0..IDLE).map(|_| contender.login.connect(&contender.endpoint)).collect();
    let idle = idle.map_err(|error| cannot_connect(&contender.endpoint, &error))?;
    // Whoever is asked behind them has taken them all.
    contender.ask(&["PING"])?;
    let connection = (resident() - start) / IDLE as f64;
    drop(idle);
    let mut key = [0.0; VALUE_BYTES.len()];
    for (bytes, of_key) in VALUE_BYTES.iter().zip(&mut key) {
        contender.ask(&["FLUSHALL"])?;
        let before = resident();
        fill(contender, *bytes, keys, interrupt)?;
        *of_key = (resident() - before) / keys as f64;
    }
    contender.ask(&["FLUSHALL"])?;
    Ok(Some(Memory { server: contender.name.clone(), start, connection, key }))
}

/// Writes each key once.
fn fill(contender: &Contender, value_bytes: usize, keys: u64, interrupt: &Interrupt) -> Result<(), String> {
    let set = select(Some("set")).ok().and_then(|cases| cases.first().copied()).ok_or("there is no test 'set'")?;
    let share = Share {
        endpoint: contender.endpoint.clone(),
        login: contender.login.clone(),
        clients: 4,
        requests: keys,
        duration: None,
        rate: None,
        pipeline: 64,
        keep_alive: true,
        request: set.request(&vec![b'x'; value_bytes]),
        numbers: Numbers::Sequence { next: 0 },
    };
    let outcome = generator::run(&share, 1, || None, interrupt, |_| {});
    outcome.map(drop).map_err(|error| format!("{}: {error}", contender.name))
}
