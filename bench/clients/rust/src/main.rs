//! One workload through one client library for Rust: `clients LIBRARY HOST PORT WORKLOAD RUNTIME`.
//!
//! Prints one line of JSON: calls, seconds, seconds of CPU of this process, and, where calls are awaited one by one, the
//! latency in microseconds that one in a hundred exceeds. `bench/clients/README.md` describes the workloads and the runtimes.
//! From top to bottom: here → `workload` → a file for each library → `blocking`. The callers of kevy's client, which blocks,
//! are threads in any case.

mod blocking;
mod fred;
mod kevy;
mod redis_rs;
mod rustis;
mod sleeve;
mod workload;

use std::process::ExitCode;

use workload::{Library, Measured, Workload};

const USAGE: &str = "usage: clients sleeve|redis-rs|fred|rustis|kevy HOST PORT WORKLOAD 1|2|smol|block-on|threads";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match run(&words) {
        Ok(measured) => {
            println!("{}", measured.into_json());
            ExitCode::SUCCESS
        }
        Err(reason) => {
            eprintln!("{reason}");
            ExitCode::FAILURE
        }
    }
}

fn run(words: &[String]) -> Result<Measured, String> {
    let [library, host, port, workload, runtime] = words else { return Err(USAGE.to_owned()) };
    let workload = Workload::parse(workload)?;
    let url = format!("redis://{host}:{port}");
    if library == "kevy" {
        return kevy::measure(&url, workload);
    }
    match (runtime.as_str(), library.as_str()) {
        ("threads", "sleeve") => sleeve::in_threads(&url, workload),
        ("threads", "redis-rs") => redis_rs::in_threads(&url, workload),
        ("smol", "sleeve") => smol::block_on(measure::<sleeve::Sleeve>(url, workload)),
        ("block-on", "sleeve") => pollster::block_on(measure::<sleeve::Sleeve>(url, workload)),
        ("threads" | "smol" | "block-on", _) => Err(format!("{library} is not measured with {runtime}")),
        (threads, "sleeve") => on_tokio::<sleeve::Sleeve>(threads, url, workload),
        (threads, "redis-rs") => on_tokio::<redis_rs::RedisRs>(threads, url, workload),
        (threads, "fred") => on_tokio::<fred::Fred>(threads, url, workload),
        (threads, "rustis") => on_tokio::<rustis::Rustis>(threads, url, workload),
        _ => Err(USAGE.to_owned()),
    }
}

/// Runs a workload on tokio: on its current-thread runtime for one thread, on its multi-thread runtime for more.
fn on_tokio<L: Library>(threads: &str, url: String, workload: Workload) -> Result<Measured, String> {
    let mut builder = match threads.parse() {
        Ok(1) => tokio::runtime::Builder::new_current_thread(),
        Ok(threads @ 2..) => {
            let mut builder = tokio::runtime::Builder::new_multi_thread();
            builder.worker_threads(threads);
            builder
        }
        _ => return Err(USAGE.to_owned()),
    };
    let runtime = builder.enable_all().build().map_err(|error| error.to_string())?;
    if !workload.is_one_task() {
        return runtime.block_on(measure::<L>(url, workload));
    }
    // The main thread is no worker of the runtime: a task of a program runs on one.
    let task = runtime.spawn(measure::<L>(url, workload));
    runtime.block_on(task).map_err(|error| error.to_string())?
}

async fn measure<L: Library>(url: String, workload: Workload) -> Result<Measured, String> {
    let library = L::connect(&url).await?;
    library.prepare().await?;
    workload.run(library).await
}
