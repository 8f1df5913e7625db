//! The micro-benchmarks with the instructions that `cargo xtask counts` counts and compares with the recorded counts.
//!
//! Each file has those of one crate; [`counting`] says how they are run. The program prints their names in the order in which
//! callgrind writes the counts, each with its number of operations. Nothing here depends on chance, time or threads, so two
//! runs of one build count the same.

mod client;
mod counting;
mod server;
mod store;
mod wire;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    wire::run();
    store::run();
    server::run();
    client::run();
}
