//! Counts the first words of the lines of all files in a folder. It may be killed at any time, and started again.

mod progress;

use std::error::Error;
use std::path::Path;

use progress::process_logs;
use sleeve::Client;
use sleeve::prelude::*;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [url, folder] = arguments.as_slice() else { return Err("usage: logs URL FOLDER".into()) };
    let client = Client::connect(url)?;
    process_logs(&client, Path::new(folder), || println!("."))?;
    let mut counters: Vec<String> = client.keys("count:*").wait()?;
    counters.sort();
    for counter in counters {
        println!("{counter} {}", client.get::<i64>(&counter).wait()?);
    }
    Ok(())
}
