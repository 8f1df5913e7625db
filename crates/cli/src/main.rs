//! The binary `sleeve`: argument parsing and printing only, and the load generator.
fn main() {}
