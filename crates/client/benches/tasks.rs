//! The cost of a call that a task awaits: CPU time of this process, all threads together, per GET.
//!
//! `cargo bench -p sleeve --bench tasks -- redis://127.0.0.1:6379`. Alone, and with 64 and 512 tasks on one connection, each
//! of which awaits one answer before it asks again. Wall-clock times of a busy machine say little; CPU time says more.

use std::time::{Duration, Instant};

use sleeve::Client;
use sleeve::prelude::*;

/// The kernel's unit for CPU time in /proc.
const TICKS_PER_SECOND: u64 = 100;

fn main() {
    let Some(url) = std::env::args().find(|argument| argument.contains("://")) else {
        // `cargo test --benches` gives none, and measures nothing.
        return println!("give a URL: cargo bench -p sleeve --bench tasks -- redis://127.0.0.1:6379");
    };
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    let client = Client::connect(&url).expect("a server");
    client.set("key", "a value of some length").wait().expect("it is set");
    for tasks in [1, 64, 512] {
        let calls = if tasks == 1 { 60_000 } else { 800_000 };
        let (cpu, wall) = runtime.block_on(measure(&client, tasks, calls));
        let micros = |time: Duration| time.as_secs_f64() * 1e6 / calls as f64;
        println!("{tasks:>4} tasks: {:6.2} us CPU a call, {:6.2} us by the clock", micros(cpu), micros(wall));
    }
}

async fn measure(client: &Client, tasks: usize, calls: usize) -> (Duration, Duration) {
    let (before, since) = (cpu_time(), Instant::now());
    let work = (0..tasks).map(|_| {
        let client = client.clone();
        tokio::spawn(async move {
            for _ in 0..calls / tasks {
                let value: String = client.get("key").await.expect("an answer");
                assert_eq!(value.len(), 22);
            }
        })
    });
    for task in work.collect::<Vec<_>>() {
        task.await.expect("it ends");
    }
    (cpu_time() - before, since.elapsed())
}

/// User and system time of this process.
fn cpu_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("Linux");
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks: u64 = fields.get(11..13).unwrap_or_default().iter().filter_map(|field| field.parse::<u64>().ok()).sum();
    Duration::from_millis(ticks * 1000 / TICKS_PER_SECOND)
}
