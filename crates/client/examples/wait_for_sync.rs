//! Waiting until a replica's disk has the writes, as chapter 4 of "Redis in Action" does it by polling two servers.
//!
//! There a token is written to the primary, looked for on the replica until it exists, and then the replica is asked for its
//! state until its file is synced. Here the reply of the write itself reports that, and nothing is polled.
//!
//! `cargo run --example wait_for_sync -- redis://127.0.0.1:6379` with a Sleeve that has a replica with `appendonly yes`.

use std::time::Duration;

use sleeve::{Client, Error, prelude::*};

/// Returns when a replica has synced all writes of which this client has the replies.
///
/// # Errors
/// If it takes longer than `timeout`, or the connection is lost: then it is unknown whether the writes are synced.
pub fn wait_for_sync(client: &Client, timeout: Duration) -> Result<(), Error> {
    client.set("sync:wait", "").synced_on(1).wait_for(timeout)
}

#[allow(dead_code, reason = "the tests use what is above")]
fn main() -> Result<(), Error> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "redis://127.0.0.1:6379".to_owned());
    let client = Client::connect(&url)?;
    client.incr("sold").wait()?;
    wait_for_sync(&client, Duration::from_secs(5))?;
    println!("a replica has it on its disk");
    Ok(())
}
