//! The transfers that give each node its share of the slots, by weight.

use super::super::slots::SLOTS;

/// A node that takes part.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Load {
    /// The node.
    pub node: usize,
    /// The number of slots that it has.
    pub slots: usize,
    /// Its weight.
    pub weight: f32,
}

/// A node and the number of slots that it has too many, or too few if negative.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Balance {
    /// The node.
    pub node: usize,
    /// The number of slots.
    pub surplus: i64,
}

/// A number of slots that goes from one node to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// The node that gives.
    pub source: usize,
    /// The node that receives.
    pub target: usize,
    /// The number of slots.
    pub slots: usize,
}

/// Returns the balance of each node, those that receive first; `None` if every node is within so many percent of its share.
pub fn balances(loads: &[Load], threshold: f32) -> Option<Vec<Balance>> {
    let total: f32 = loads.iter().map(|load| load.weight).sum();
    let share = |load: &Load| (f32::from(SLOTS) / total * load.weight) as i64;
    if !loads.iter().any(|load| is_beyond(load.slots, share(load), threshold)) {
        return None;
    }
    let surplus = |load: &Load| Balance { node: load.node, surplus: load.slots as i64 - share(load) };
    let mut balances: Vec<Balance> = loads.iter().map(surplus).collect();
    // Shares are rounded down. The slots that are left over go to nodes that give none away.
    let mut left: i64 = balances.iter().map(|balance| balance.surplus).sum();
    while left > 0 && balances.iter().any(|balance| balance.surplus <= 0) {
        for balance in balances.iter_mut().filter(|balance| balance.surplus <= 0) {
            if left > 0 {
                balance.surplus -= 1;
                left -= 1;
            }
        }
    }
    balances.sort_by_key(|balance| balance.surplus);
    Some(balances)
}

/// Returns whether a node is further from its share than the threshold. A threshold of 0 or less disables the rule, and with it
/// every transfer.
fn is_beyond(slots: usize, share: i64, threshold: f32) -> bool {
    if threshold <= 0.0 {
        return false;
    }
    match slots {
        0 => share > 1,
        slots => (100.0 - 100.0 * share as f64 / slots as f64).abs() as f32 > threshold,
    }
}

/// Returns the transfers that bring all balances to 0. The node that lacks most receives from the one with the most first.
pub fn transfers(mut balances: Vec<Balance>) -> Vec<Transfer> {
    let mut transfers = Vec::new();
    let (mut target, mut source) = (0, balances.len().saturating_sub(1));
    while target < source {
        let slots = balances[target].surplus.abs().min(balances[source].surplus.abs());
        if slots > 0 {
            let (source, target) = (balances[source].node, balances[target].node);
            transfers.push(Transfer { source, target, slots: slots as usize });
        }
        balances[target].surplus += slots;
        balances[source].surplus -= slots;
        if balances[target].surplus == 0 {
            target += 1;
        }
        if balances[source].surplus == 0 {
            source = source.saturating_sub(1);
        }
    }
    transfers
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loads(of: &[(usize, f32)]) -> Vec<Load> {
        of.iter().enumerate().map(|(node, (slots, weight))| Load { node, slots: *slots, weight: *weight }).collect()
    }

    #[test]
    fn an_empty_node_receives_from_all_others() {
        let balances = balances(&loads(&[(5461, 1.0), (5462, 1.0), (5461, 1.0), (0, 1.0)]), 2.0).unwrap();
        assert_eq!(balances.iter().map(|balance| balance.surplus).sum::<i64>(), 0);
        let transfers = transfers(balances);
        assert!(transfers.iter().all(|transfer| transfer.target == 3), "{transfers:?}");
        assert_eq!(transfers.iter().map(|transfer| transfer.slots).sum::<usize>(), 4096);
    }

    #[test]
    fn nodes_within_the_threshold_stay_as_they_are() {
        assert_eq!(balances(&loads(&[(5461, 1.0), (5462, 1.0), (5461, 1.0)]), 2.0), None);
        assert_eq!(balances(&loads(&[(8300, 1.0), (8084, 1.0)]), 2.0), None);
        assert!(balances(&loads(&[(8400, 1.0), (7984, 1.0)]), 2.0).is_some());
        assert_eq!(balances(&loads(&[(16384, 1.0), (0, 1.0)]), 0.0), None);
    }

    #[test]
    fn a_weight_of_zero_empties_a_node() {
        let moved = transfers(balances(&loads(&[(5461, 0.0), (5462, 1.0), (5461, 1.0)]), 2.0).unwrap());
        assert!(moved.iter().all(|transfer| transfer.source == 0), "{moved:?}");
        assert_eq!(moved.iter().map(|transfer| transfer.slots).sum::<usize>(), 5461);
    }

    #[test]
    fn odd_balances_come_to_an_end() {
        for balances in
            [vec![], vec![(0, 3)], vec![(0, 2), (1, 3)], vec![(0, -1), (1, -1)], vec![(0, -3), (1, 0), (2, 2)]]
        {
            let of = |(node, surplus)| Balance { node, surplus };
            transfers(balances.into_iter().map(of).collect());
        }
    }
}
