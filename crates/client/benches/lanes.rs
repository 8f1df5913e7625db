//! How long a small call takes beside large replies: over the same connection, with priority, and with lanes.
//!
//! `TARGET/release/deps/lanes-… redis://127.0.0.1:6379 100 10`: values of so many MiB, for so many seconds a line. One thread
//! asks for them one after the other, another sends PINGs, 1 ms apart, and waits for them: itself, or as the one task of a
//! runtime, with a connection that shares its thread with the large replies'. It prints the times of the PINGs, by share. It
//! writes the keys `lanes:1` to `lanes:3`.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use sleeve::prelude::*;
use sleeve::{Client, Error, Reply};

/// The pause between two PINGs.
const PAUSE: Duration = Duration::from_millis(1);

fn main() {
    let mut arguments = std::env::args().filter(|argument| argument != "--bench").skip(1);
    let (Some(url), Some(mebibytes), Some(seconds)) = (arguments.next(), arguments.next(), arguments.next()) else {
        // `cargo test --benches` gives none, and measures nothing.
        return println!("give a URL, MiB and seconds: lanes redis://127.0.0.1:6379 100 10");
    };
    let length = mebibytes.parse::<usize>().expect("a number of MiB") << 20;
    let time = Duration::from_secs(seconds.parse().expect("a number of seconds"));
    measure(&url, length, time).expect("a server");
}

fn measure(url: &str, length: usize, time: Duration) -> Result<(), Error> {
    let client = Client::connect(url)?;
    let value = vec![b'x'; length];
    for number in 1..=3 {
        client.set(format!("lanes:{number}"), &value).wait()?;
    }
    let (priority, lanes) = (client.priority()?, client.lanes()?);
    // The first reply teaches.
    lanes.get::<Vec<u8>>("lanes:1").wait()?;
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let plain = |number: usize| client.get::<Vec<u8>>(format!("lanes:{}", number % 3 + 1)).wait().map(drop);
    let laned = |number: usize| lanes.get::<Vec<u8>>(format!("lanes:{}", number % 3 + 1)).wait().map(drop);
    for (who, is_task) in [("thread", false), ("task", true)] {
        let wait = |ping: Reply<()>| if is_task { runtime.block_on(ping) } else { ping.wait() };
        let report =
            |name: &str, ping: Call<'_>, large: Large<'_>| report(&format!("{who}, {name}"), time, ping, large);
        report("alone", &|| wait(client.cmd("PING").send()), None);
        report("same connection", &|| wait(client.cmd("PING").send()), Some(&plain));
        report("priority", &|| wait(priority.cmd("PING").send()), Some(&plain));
        report("lanes", &|| wait(lanes.cmd("PING").send()), Some(&laned));
    }
    Ok(())
}

type Call<'a> = &'a dyn Fn() -> Result<(), Error>;
type Large<'a> = Option<&'a (dyn Fn(usize) -> Result<(), Error> + Sync)>;

/// Sends PINGs beside the large calls, and prints a line.
fn report(name: &str, time: Duration, ping: Call<'_>, large: Large<'_>) {
    let is_over = AtomicBool::new(false);
    let (mut took, count) = thread::scope(|scope| {
        let beside = scope.spawn(|| {
            let Some(large) = large else { return 0 };
            let calls = (0..).take_while(|_| !is_over.load(Ordering::Relaxed));
            calls.map(|number| large(number).expect("an answer")).count()
        });
        let (until, mut took) = (Instant::now() + time, Vec::new());
        while Instant::now() < until {
            let since = Instant::now();
            ping().expect("an answer");
            took.push(since.elapsed());
            thread::sleep(PAUSE);
        }
        is_over.store(true, Ordering::Relaxed);
        (took, beside.join().expect("it ends"))
    });
    took.sort_unstable();
    let share = |share: f64| took[((took.len() - 1) as f64 * share) as usize];
    println!(
        "{name:>23}: {:>5} PINGs beside {count:>4} large replies: p50 {:>8.1?} p90 {:>8.1?} p99 {:>8.1?} max {:>8.1?}",
        took.len(),
        share(0.5),
        share(0.9),
        share(0.99),
        share(1.0)
    );
}
