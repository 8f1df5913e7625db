//! Judging: from the measurements to the causes that hold the program up. Pure functions, one for each cause, with its limits
//! beside it.
//!
//! Each cause has a weight from 0 to 1: as far as that can be said, the share of the program's time, or of the server's, that
//! it takes. Causes in the program or its commands come before causes in the machine, because the former often make the
//! latter.

mod cluster;
mod commands;
pub mod figures;
mod finding;
mod machine;
mod sending;

use super::evidence::Evidence;
pub use cluster::{ClusterEvidence, Told};
pub use finding::Finding;

/// Returns all causes, the likeliest first; `cluster` is there if the server is a node of one.
pub fn judge(evidence: &Evidence, cluster: Option<&ClusterEvidence>) -> Vec<Finding> {
    let specific = [
        sending::connection_per_command,
        sending::round_trips,
        sending::starved_executor,
        commands::big_values,
        commands::slow_commands,
        commands::hot_key,
        machine::fork,
        machine::fsync,
        machine::swapping,
        machine::cpu,
        machine::network,
    ];
    let mut findings = cluster.map(cluster::judge).unwrap_or_default();
    if evidence.traffic.commands > 0 {
        findings.extend(specific.iter().filter_map(|cause| cause(evidence)));
    }
    findings
        .sort_by(|a, b| a.cause.is_general().cmp(&b.cause.is_general()).then_with(|| b.weight.total_cmp(&a.weight)));
    findings
}

#[cfg(test)]
mod tests;
