//! kevy's client: blocking, a connection for each thread that wants one, and pipelines that are sent and read as a whole.

use kevy_client::{Connection, PipelineBuf, Reply};

use crate::blocking;
use crate::workload::{
    COUNTER, DATABASES, Done, KEY, MASS_VALUE, Measured, PIPELINE, VALUE, Watch, Workload, expect, mass_key,
};

fn told(error: std::io::Error) -> String {
    error.to_string()
}

/// Runs a workload; callers are threads.
///
/// # Errors
/// When a call fails or gives something wrong.
pub fn measure(url: &str, workload: Workload) -> Result<Measured, String> {
    let mut connections = Vec::new();
    for database in 0..DATABASES {
        connections.push(Connection::open(&format!("{url}/{database}")).map_err(told)?);
    }
    connections[0].set(KEY.as_bytes(), VALUE.as_bytes()).map_err(told)?;
    get(&mut connections[0])?;
    let watch = Watch::start();
    let calls = workload.calls();
    match workload {
        Workload::Callers(_) => {
            return blocking::measure(workload, || {
                let mut connection = Connection::open(url).map_err(told)?;
                Ok(move || get(&mut connection))
            });
        }
        Workload::PingsAwaited => {
            for _ in 0..calls {
                all(&mut connections[0], 1, |_, batch| _ = batch.cmd(&[b"PING"]), |_| Ok(()))?;
            }
        }
        Workload::Pings => {
            for _ in 0..calls / 1_000 {
                all(&mut connections[0], 1_000, |_, batch| _ = batch.cmd(&[b"PING"]), |_| Ok(()))?;
            }
        }
        Workload::Increments => {
            let each = 5_000 / u64::from(DATABASES);
            for _ in 0..calls / 5_000 {
                for connection in &mut connections {
                    all(connection, each, |_, batch| _ = batch.cmd(&[b"INCR", COUNTER.as_bytes()]), |_| Ok(()))?;
                }
            }
        }
        Workload::FanOut => {
            let (get, read) = (|_, batch: &mut PipelineBuf| _ = batch.cmd(&[b"GET", KEY.as_bytes()]), read);
            for _ in 0..calls / PIPELINE {
                all(&mut connections[0], PIPELINE, get, read)?;
            }
        }
        Workload::MassSet => {
            for first in (0..calls).step_by(PIPELINE as usize) {
                let set = |number, batch: &mut PipelineBuf| {
                    _ = batch.cmd(&[b"SET", mass_key(first + number).as_bytes(), MASS_VALUE.as_bytes()]);
                };
                all(&mut connections[0], PIPELINE.min(calls - first), set, |_| Ok(()))?;
            }
        }
    }
    Ok(watch.stop(calls, Vec::new()))
}

fn get(connection: &mut Connection) -> Done {
    expect(&String::from_utf8_lossy(&connection.get(KEY.as_bytes()).map_err(told)?.unwrap_or_default()))
}

fn read(reply: &Reply) -> Done {
    match reply {
        Reply::Bulk(value) => expect(&String::from_utf8_lossy(value)),
        other => Err(format!("GET gave {other:?}")),
    }
}

/// Sends one pipeline of so many commands; no reply may be an error.
fn all(
    connection: &mut Connection,
    count: u64,
    mut command: impl FnMut(u64, &mut PipelineBuf),
    read: impl Fn(&Reply) -> Done,
) -> Done {
    let replies = connection.pipeline(|batch| (0..count).for_each(|number| command(number, batch))).map_err(told)?;
    for reply in &replies {
        if let Reply::Error(text) = reply {
            return Err(String::from_utf8_lossy(text).into_owned());
        }
        read(reply)?;
    }
    if replies.len() as u64 == count { Ok(()) } else { Err(format!("{} replies for {count} commands", replies.len())) }
}
