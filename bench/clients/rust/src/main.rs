//! One workload through one client library for Rust: `clients LIBRARY HOST PORT WORKLOAD THREADS`.
//!
//! Prints one line of JSON: calls, seconds, seconds of CPU of this process, and, where calls are awaited one by one, the
//! latency in microseconds that one in a hundred exceeds. `bench/clients/README.md` describes the workloads. From top to
//! bottom: here → `workload` → a file for each library. kevy's client blocks, so its callers are threads, and it needs no
//! runtime.

mod fred;
mod kevy;
mod redis_rs;
mod rustis;
mod sleeve;
mod workload;

use std::process::ExitCode;

use workload::{Library, Measured, Workload};

const USAGE: &str = "usage: clients sleeve|redis-rs|fred|rustis|kevy HOST PORT WORKLOAD THREADS";

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
    let [library, host, port, workload, threads] = words else { return Err(USAGE.to_owned()) };
    let workload = Workload::parse(workload)?;
    let threads: usize = threads.parse().map_err(|_| USAGE.to_owned())?;
    let url = format!("redis://{host}:{port}");
    if library == "kevy" {
        return kevy::measure(&url, workload);
    }
    let mut builder = match threads {
        1 => tokio::runtime::Builder::new_current_thread(),
        _ => tokio::runtime::Builder::new_multi_thread(),
    };
    if threads > 1 {
        builder.worker_threads(threads);
    }
    let runtime = builder.enable_all().build().map_err(|error| error.to_string())?;
    match library.as_str() {
        "sleeve" => runtime.block_on(measure::<sleeve::Sleeve>(&url, workload)),
        "redis-rs" => runtime.block_on(measure::<redis_rs::RedisRs>(&url, workload)),
        "fred" => runtime.block_on(measure::<fred::Fred>(&url, workload)),
        "rustis" => runtime.block_on(measure::<rustis::Rustis>(&url, workload)),
        _ => Err(USAGE.to_owned()),
    }
}

async fn measure<L: Library>(url: &str, workload: Workload) -> Result<Measured, String> {
    let library = L::connect(url).await?;
    library.prepare().await?;
    workload.run(library).await
}
