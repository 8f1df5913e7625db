//! The plan of a new cluster: which nodes become primaries, with which slots, and which node replicates which.

use super::super::slots::SLOTS;

/// The least number of primaries of a cluster: with fewer no majority can outvote one that fails.
pub const PRIMARIES_MIN: usize = 3;

/// A node that gets slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// The node.
    pub node: usize,
    /// The first slot.
    pub first: u16,
    /// The last slot.
    pub last: u16,
}

/// The roles of all nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Allocation {
    /// The nodes that become primaries, in the order of their slots.
    pub primaries: Vec<Share>,
    /// The nodes that become replicas, each with its primary, in the order in which they were chosen.
    pub replicas: Vec<(usize, usize)>,
    /// The number of replicas that were asked for. Those behind them are nodes that were left over.
    pub regular: usize,
}

/// Distributes the slots over the nodes on these hosts, so that each primary gets so many replicas, on another host where
/// possible. Nodes of different hosts take turns to become primaries.
pub fn allocate(hosts: &[&str], replicas: usize) -> Allocation {
    let turns = take_turns(hosts);
    let count = hosts.len() / (replicas + 1);
    let (primaries, rest) = turns.split_at(count.min(turns.len()));
    let mut allocation = Allocation { primaries: share_out(primaries), ..Allocation::default() };
    // The next node in turn is often on the host of the first primary.
    let mut rest = rest.to_vec();
    if !rest.is_empty() {
        rest.rotate_left(1);
    }
    for primary in primaries {
        for _ in 0..replicas {
            allocation.assign(*primary, &mut rest, hosts);
        }
    }
    allocation.regular = allocation.replicas.len();
    while !rest.is_empty() && !primaries.is_empty() {
        for primary in primaries {
            allocation.assign(*primary, &mut rest, hosts);
        }
    }
    allocation
}

impl Allocation {
    /// Gives a primary a replica: the first node on another host, or else the first.
    fn assign(&mut self, primary: usize, rest: &mut Vec<usize>, hosts: &[&str]) {
        let elsewhere = rest.iter().position(|node| hosts.get(*node) != hosts.get(primary));
        if !rest.is_empty() {
            self.replicas.push((rest.remove(elsewhere.unwrap_or(0)), primary));
        }
    }

    /// Returns the primary of each node.
    pub fn primary_of(&self, nodes: usize) -> Vec<Option<usize>> {
        (0..nodes).map(|node| self.replicas.iter().find(|(replica, _)| *replica == node).map(|pair| pair.1)).collect()
    }
}

/// Returns the nodes in an order in which the hosts take turns.
fn take_turns(hosts: &[&str]) -> Vec<usize> {
    let mut rows: Vec<(&str, Vec<usize>)> = Vec::new();
    for (node, host) in hosts.iter().enumerate() {
        match rows.iter_mut().find(|(name, _)| name == host) {
            Some((_, nodes)) => nodes.push(node),
            None => rows.push((host, vec![node])),
        }
    }
    let longest = rows.iter().map(|(_, nodes)| nodes.len()).max().unwrap_or(0);
    (0..longest).flat_map(|turn| rows.iter().filter_map(move |(_, nodes)| nodes.get(turn).copied())).collect()
}

/// Gives each primary a range of slots. The ranges are rounded as redis-cli rounds them, in numbers of 32 bits.
fn share_out(primaries: &[usize]) -> Vec<Share> {
    let each = f32::from(SLOTS) / primaries.len() as f32;
    let (mut first, mut cursor) = (0_u16, 0_f32);
    let mut shares = Vec::new();
    for (number, node) in primaries.iter().enumerate() {
        let end = f64::from(cursor + each - 1.0).round();
        let is_last = number + 1 == primaries.len();
        let last = if is_last { SLOTS - 1 } else { (end as u16).min(SLOTS - 1) }.max(first);
        shares.push(Share { node: *node, first, last });
        first = last.saturating_add(1).min(SLOTS - 1);
        cursor += each;
    }
    shares
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_primaries_share_the_slots_as_with_redis_cli() {
        let plan = allocate(&["h"; 6], 1);
        let slots: Vec<_> = plan.primaries.iter().map(|share| (share.node, share.first, share.last)).collect();
        assert_eq!(slots, [(0, 0, 5460), (1, 5461, 10922), (2, 10923, 16383)]);
        assert_eq!((plan.replicas.as_slice(), plan.regular), (&[(4, 0), (5, 1), (3, 2)][..], 3));
    }

    #[test]
    fn replicas_stand_on_other_hosts_than_their_primaries() {
        let hosts = ["a", "a", "b", "b", "c", "c"];
        let plan = allocate(&hosts, 1);
        assert_eq!(plan.primaries.iter().map(|share| hosts[share.node]).collect::<Vec<_>>(), ["a", "b", "c"]);
        assert!(plan.replicas.iter().all(|(replica, primary)| hosts[*replica] != hosts[*primary]));
        assert_eq!(plan.primary_of(6).iter().flatten().count(), 3);
    }

    #[test]
    fn nodes_that_are_left_over_become_replicas_too() {
        let plan = allocate(&["h"; 8], 1);
        assert_eq!((plan.primaries.len(), plan.replicas.len(), plan.regular), (4, 4, 4));
        let plan = allocate(&["h"; 11], 2);
        assert_eq!((plan.primaries.len(), plan.replicas.len(), plan.regular), (3, 8, 6));
        let plan = allocate(&["h"; 4], 0);
        assert_eq!((plan.primaries.len(), plan.replicas.len()), (4, 0));
    }

    #[test]
    fn every_slot_has_one_primary_with_any_number_of_nodes() {
        for count in 1..=200 {
            let shares = allocate(&vec!["h"; count], 0).primaries;
            assert_eq!((shares[0].first, shares[count - 1].last), (0, SLOTS - 1));
            assert!(shares.windows(2).all(|pair| pair[0].last + 1 == pair[1].first), "{count}");
        }
    }
}
