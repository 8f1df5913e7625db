//! The micro-benchmarks whose instructions `cargo xtask counts` counts and holds to what is recorded.
//!
//! Each file has those of one crate; [`counting`] says how they are run. What is printed are their names in the order of what
//! callgrind writes, each with how many operations it did. Nothing here depends on chance, time or threads, so two runs of one
//! build count the same.

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
