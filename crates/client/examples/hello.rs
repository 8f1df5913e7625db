//! A first program: commands without a wait, commands that are waited for, another database, a command that waits on the
//! server.

use std::time::Duration;

use sleeve::{Client, Error, prelude::*};

fn main() -> Result<(), Error> {
    let client = Client::connect("embedded://")?; // or "redis://127.0.0.1:6379", or "unix:///run/sleeve.sock"
    client.set("visits", 0).forget(); // sent; nobody waits
    let visits = client.incr("visits"); // a Reply<i64>, already on its way
    let other = client.db(3).get::<Option<String>>("elsewhere"); // another database on the same connection
    assert_eq!(visits.wait()?, 1); // or visits.await
    assert_eq!(other.wait()?, None);

    let job = client.blpop::<(String, String)>("jobs", Duration::ZERO); // waits on a connection for itself
    client.rpush("jobs", "sweep").forget();
    println!("{} is to be done", job.wait()?.1);
    Ok(())
}
