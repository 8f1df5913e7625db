//! A shop's login cookies, updated one command at a time and in one piece: a measurement of the cost of round trips.

mod sessions;

use std::time::{Duration, Instant};

use sessions::{check_token, clean_sessions, update_token, update_token_pipeline};
use sleeve::prelude::*;
use sleeve::{Client, Error};

/// The time for which each of the two ways is measured.
const DURATION: Duration = Duration::from_secs(1);

type Update = fn(&Client, &str, &str, Option<&str>, f64) -> Result<(), Error>;

fn main() -> Result<(), Error> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "embedded://".to_owned());
    let client = Client::connect(&url)?;
    let ways: [(&str, Update); 2] = [("one by one", update_token), ("in one piece", update_token_pipeline)];
    for (name, update) in ways {
        client.flushdb().wait()?;
        let began = Instant::now();
        let mut count = 0_u32;
        while began.elapsed() < DURATION {
            let item = format!("item{}", count % 100);
            update(&client, &format!("token{}", count % 50), "user", Some(&item), began.elapsed().as_secs_f64())?;
            count += 1;
        }
        println!("{name}: {:.0} updates a second", f64::from(count) / began.elapsed().as_secs_f64());
    }
    let forgotten = clean_sessions(&client, 10)?;
    println!("{forgotten} sessions forgotten; token49 is {:?}'s", check_token(&client, "token49")?.unwrap_or_default());
    Ok(())
}
