//! Faults of a cluster: they cost a program errors and waits, whatever its own habits are.

use std::collections::BTreeMap;

use super::finding::{Cause, Finding};
use crate::cluster::node::{Line, OpenSlot};
use crate::cluster::slots::{SLOTS, SlotSet};

/// The load of the busiest primary, as a multiple of the mean, from which on the load is uneven.
const UNEVEN_MIN: f64 = 2.0;

/// The commands a second of the busiest primary below which its load does not matter.
const LOAD_MIN: f64 = 1_000.0;

/// The weight of a fault that makes commands fail.
const FAILS: f64 = 1.0;
/// The weight of a fault that makes commands slower, or will make them fail.
const DELAYS: f64 = 0.3;
/// The weight of a risk.
const RISKS: f64 = 0.1;

/// The facts about one node that only the node itself tells.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Told {
    /// The address.
    pub address: String,
    /// The slots that leave the node, and those that come to it.
    pub open: Vec<OpenSlot>,
    /// The commands that it executes a second.
    pub per_second: f64,
    /// True for a primary with slots.
    pub is_primary: bool,
}

/// A cluster, as one of its nodes sees it, with the facts of each node that could be asked.
#[derive(Clone, Debug, Default)]
pub struct ClusterEvidence {
    /// The nodes.
    pub lines: Vec<Line>,
    /// The facts that nodes tell about themselves.
    pub told: Vec<Told>,
}

/// Returns all faults of a cluster.
pub fn judge(evidence: &ClusterEvidence) -> Vec<Finding> {
    let parts = [uncovered, failed, open, colliding, uneven, unreplicated];
    parts.iter().flat_map(|part| part(evidence)).collect()
}

fn finding(cause: Cause, weight: f64, numbers: Vec<String>, remedy: &str) -> Finding {
    Finding { cause, weight, numbers, remedy: remedy.to_owned() }
}

/// Reports each range of slots that no node serves.
fn uncovered(evidence: &ClusterEvidence) -> Vec<Finding> {
    let covered: SlotSet = evidence.lines.iter().flat_map(|line| line.node.slots.iter()).collect();
    let missing: SlotSet = covered.missing().collect();
    let report = |(first, last): (u16, u16)| {
        let slots = if first == last { format!("slot {first} is") } else { format!("slots {first} to {last} are") };
        let share = f64::from(last - first + 1) / f64::from(SLOTS) * 100.0;
        let numbers = vec![format!("{slots} served by no node: {share:.2} % of all keys cannot be used")];
        let remedy = "Bring the node back that had them, or give them to others: sleeve cli --cluster fix.";
        finding(Cause::UncoveredSlots, FAILS, numbers, remedy)
    };
    missing.ranges().into_iter().map(report).collect()
}

/// Reports each node that the cluster believes to have failed.
fn failed(evidence: &ClusterEvidence) -> Vec<Finding> {
    let has_failed = |line: &&Line| ["fail", "fail?", "noaddr"].iter().any(|flag| line.node.has_flag(flag));
    let report = |line: &Line| {
        let node = &line.node;
        let role = if node.is_replica() { "replica" } else { "primary" };
        let slots = node.slots.len();
        let numbers = vec![format!(
            "the {role} {} ({}...) is marked {}, with {slots} slots",
            node.address,
            node.short_id(),
            node.flags.join(",")
        )];
        let remedy = "Start it again, or look at the way to it and to the port of its bus. If it is gone for good, promote a \
                      replica (CLUSTER FAILOVER TAKEOVER) and let the others forget it (CLUSTER FORGET).";
        finding(Cause::FailedNode, if slots > 0 { FAILS } else { DELAYS }, numbers, remedy)
    };
    evidence.lines.iter().filter(has_failed).map(report).collect()
}

/// Reports each slot that is on its way, with the nodes that say so.
fn open(evidence: &ClusterEvidence) -> Vec<Finding> {
    let mut slots: BTreeMap<u16, Vec<&str>> = BTreeMap::new();
    for told in &evidence.told {
        told.open.iter().for_each(|open| slots.entry(open.slot).or_default().push(&told.address));
    }
    let report = |(slot, nodes): (u16, Vec<&str>)| {
        let numbers = vec![format!("slot {slot} is open at {}", nodes.join(" and "))];
        let remedy = "If no resharding is in progress, one was interrupted: sleeve cli --cluster fix completes it.";
        finding(Cause::OpenSlot, DELAYS, numbers, remedy)
    };
    slots.into_iter().map(report).collect()
}

/// Reports primaries with slots that have the same configuration epoch.
fn colliding(evidence: &ClusterEvidence) -> Vec<Finding> {
    let mut epochs: BTreeMap<u64, Vec<String>> = BTreeMap::new();
    for node in evidence.lines.iter().map(|line| &line.node) {
        if !node.is_replica() && node.slots.len() > 0 {
            epochs.entry(node.epoch).or_default().push(node.address.to_string());
        }
    }
    let report = |(epoch, nodes): (u64, Vec<String>)| {
        let numbers = vec![format!("epoch {epoch} is that of {}", nodes.join(" and "))];
        let remedy = "Nodes that reach each other end this by themselves within seconds. If it stays, look at the ports of \
                      their buses, or send CLUSTER BUMPEPOCH to one of them.";
        finding(Cause::EpochCollision, DELAYS, numbers, remedy)
    };
    epochs.into_iter().filter(|(_, nodes)| nodes.len() > 1).map(report).collect()
}

/// Reports a primary that has much more to do than the mean of all.
fn uneven(evidence: &ClusterEvidence) -> Vec<Finding> {
    let primaries: Vec<&Told> = evidence.told.iter().filter(|told| told.is_primary).collect();
    let mean = primaries.iter().map(|told| told.per_second).sum::<f64>() / primaries.len().max(1) as f64;
    let busiest = primaries.iter().max_by(|a, b| a.per_second.total_cmp(&b.per_second));
    let is_uneven = |told: &&&Told| told.per_second >= LOAD_MIN && told.per_second >= UNEVEN_MIN * mean;
    let report = |told: &&Told| {
        let numbers = vec![format!(
            "{} executes {:.0} commands a second, the mean of all primaries is {mean:.0}",
            told.address, told.per_second
        )];
        let remedy = "Move slots away from it (sleeve cli --cluster rebalance). If one key or one hash tag is the reason, no \
                      move of slots helps: use more than one of them.";
        finding(Cause::UnevenLoad, 1.0 - mean / told.per_second, numbers, remedy)
    };
    busiest.into_iter().filter(is_uneven).map(report).collect()
}

/// Reports each primary with slots that has no replica in order.
fn unreplicated(evidence: &ClusterEvidence) -> Vec<Finding> {
    let is_well = |line: &&Line| !line.node.has_flag("fail") && !line.node.has_flag("noaddr");
    let has_replica = |id: &str| {
        let mut replicas = evidence.lines.iter().filter(is_well);
        replicas.any(|line| line.node.primary.as_deref() == Some(id))
    };
    let primaries = evidence.lines.iter().filter(|line| !line.node.is_replica() && line.node.slots.len() > 0);
    let report = |line: &Line| {
        let node = &line.node;
        let numbers = vec![format!("{} serves {} slots and has no replica", node.address, node.slots.len())];
        let remedy = "Add one (sleeve cli --cluster add-node --cluster-slave): if the primary fails, its slots are lost with it.";
        finding(Cause::NoReplica, RISKS, numbers, remedy)
    };
    primaries.filter(|line| !has_replica(&line.node.id)).map(report).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn causes(lines: &[&str], told: &[Told]) -> Vec<(&'static str, String)> {
        let lines = lines.iter().map(|line| Line::read(line).unwrap()).collect();
        let findings = judge(&ClusterEvidence { lines, told: told.to_vec() });
        findings.into_iter().map(|finding| (finding.cause.name(), finding.numbers.concat())).collect()
    }

    #[test]
    fn a_cluster_in_order_has_no_finding() {
        let told = Told { address: "h:1".to_owned(), per_second: 9000.0, is_primary: true, ..Told::default() };
        let lines = [
            "aa h:1@2 myself,master - 0 0 1 connected 0-8191",
            "bb h:3@4 master - 0 0 2 connected 8192-16383",
            "cc h:5@6 slave aa 0 0 1 connected",
            "dd h:7@8 slave bb 0 0 2 connected",
        ];
        assert_eq!(causes(&lines, &[told.clone(), told]), []);
    }

    #[test]
    fn each_fault_is_a_finding_of_its_own() {
        let lines = [
            "aa h:1@2 myself,master - 0 0 1 connected 0-99 102-8191",
            "bb h:3@4 master,fail - 0 0 1 disconnected 8192-16382",
            "cc h:5@6 slave aa 0 0 1 connected",
        ];
        let told =
            |address: &str, per_second, open| Told { address: address.to_owned(), open, per_second, is_primary: true };
        let open = vec![OpenSlot { slot: 5, peer: "bb".to_owned() }];
        let found = causes(
            &lines,
            &[told("h:1", 9000.0, open.clone()), told("h:3", 10.0, open), told("h:9", 10.0, Vec::new())],
        );
        let names: Vec<_> = found.iter().map(|(name, _)| *name).collect();
        assert_eq!(
            names,
            [
                "uncovered slots",
                "uncovered slots",
                "a failed node",
                "an open slot",
                "an epoch collision",
                "uneven load",
                "a primary without a replica"
            ]
        );
        assert!(found[0].1.starts_with("slots 100 to 101 are") && found[1].1.starts_with("slot 16383 is"), "{found:?}");
        assert_eq!(found[3].1, "slot 5 is open at h:1 and h:3");
    }
}
