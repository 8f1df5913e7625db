//! The memory that started servers take: after their start, for an idle connection, and for a key.

use crate::bench::cases::select;
use crate::bench::generator;
use crate::bench::lane::Share;
use crate::bench::template::Numbers;
use crate::endpoint::cannot_connect;
use crate::interrupt::Interrupt;

use super::contender::Contender;

/// The number of idle connections.
const IDLE: usize = 1000;

/// The sizes in bytes of the values with which keys are measured.
pub const VALUE_BYTES: [usize; 3] = [16, 200, 1024];

/// The resident memory of a server in bytes.
#[derive(Clone, Debug)]
pub struct Memory {
    /// The server's name.
    pub server: String,
    /// The memory soon after the start.
    pub start: f64,
    /// The growth for an idle connection.
    pub connection: f64,
    /// The growth for a key of 16 bytes with a value of [`VALUE_BYTES`].
    pub key: [Option<f64>; VALUE_BYTES.len()],
}

/// Measures a server that the sweep starts, once for each size of values. Returns `None` for a server that already runs,
/// because the sweep must not change its data.
///
/// Each size has a process of its own. An allocator keeps memory that a process has freed. After a FLUSHALL the next keys
/// would lie in that memory, and seem to take less than they do.
///
/// # Errors
/// A sentence for the user.
pub fn measure(
    words: &str,
    (cpus, keys): (Option<&str>, u64),
    interrupt: &Interrupt,
) -> Result<Option<Memory>, String> {
    let started = Contender::start(words, cpus)?;
    if !started.is_ours {
        return Ok(None);
    }
    let Some(start) = resident(&started) else { return Ok(None) };
    let idle: Result<Vec<_>, _> = (0..IDLE).map(|_| started.login.connect(&started.endpoint)).collect();
    let idle = idle.map_err(|error| cannot_connect(&started.endpoint, &error))?;
    // If the server answers a client that connected after the others, it has accepted them all.
    started.ask(&["PING"])?;
    let connection = (resident(&started).unwrap_or_default() - start) / IDLE as f64;
    drop(idle);
    let mut memory = Memory { server: started.name.clone(), start, connection, key: [None; VALUE_BYTES.len()] };
    drop(started);
    for (bytes, of_key) in VALUE_BYTES.iter().zip(&mut memory.key) {
        if interrupt.is_heard() {
            break;
        }
        *of_key = of_keys(&Contender::start(words, cpus)?, *bytes, keys, interrupt)?;
    }
    Ok(Some(memory))
}

/// Returns the growth for each key of a server that has just started.
fn of_keys(fresh: &Contender, bytes: usize, keys: u64, interrupt: &Interrupt) -> Result<Option<f64>, String> {
    let before = resident(fresh);
    fill(fresh, bytes, keys, interrupt)?;
    let after = resident(fresh);
    Ok(before.zip(after).filter(|_| !interrupt.is_heard()).map(|(before, after)| (after - before) / keys as f64))
}

/// Returns the resident memory in bytes.
fn resident(contender: &Contender) -> Option<f64> {
    contender.meter.as_ref()?.resident_bytes().map(|bytes| bytes as f64)
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
