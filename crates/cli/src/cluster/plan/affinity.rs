//! Anti-affinity: a replica on the host of its primary, or of another replica of it, is lost together with it. Replicas are
//! exchanged at random until no exchange is needed, or for as long as is reasonable.

use std::collections::BTreeMap;

/// The score of a replica on the host of its primary.
const WITH_PRIMARY: usize = 10_000;

/// The number of exchanges that are tried for each node.
const TRIALS_PER_NODE: usize = 500;

/// The hosts and primaries of all nodes, by their numbers.
#[derive(Clone, Debug)]
pub struct Layout<'a> {
    /// The host of each node.
    pub hosts: &'a [&'a str],
    /// The primary of each node; `None` for a primary.
    pub primary_of: Vec<Option<usize>>,
}

/// The result of the exchanges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Affinity {
    /// Nodes with the same data are on different hosts.
    Perfect,
    /// Some replicas share a host with their primary.
    WithPrimary,
    /// Some replicas share a host with another replica of their primary.
    WithReplica,
}

impl Layout<'_> {
    /// Returns the score, which is 0 if all is well, and one replica of each pair on one host that should not be there.
    fn judge(&self) -> (usize, Vec<usize>) {
        // For each host and primary: whether the primary itself is there, and the number of its nodes there.
        let mut groups: BTreeMap<(&str, usize), (bool, usize)> = BTreeMap::new();
        for (node, (host, primary)) in self.hosts.iter().zip(&self.primary_of).enumerate() {
            let group = groups.entry((host, primary.unwrap_or(node))).or_default();
            group.0 |= primary.is_none();
            group.1 += 1;
        }
        let (mut score, mut offenders) = (0, Vec::new());
        for ((host, primary), (with_primary, count)) in groups.into_iter().filter(|(_, (_, count))| *count > 1) {
            score += if with_primary { WITH_PRIMARY * (count - 1) } else { count };
            let nodes = self.hosts.iter().zip(&self.primary_of);
            offenders.extend(
                nodes
                    .enumerate()
                    .find_map(|(node, (there, of))| (*there == host && *of == Some(primary)).then_some(node)),
            );
        }
        (score, offenders)
    }

    /// Returns whether all is well.
    pub fn is_perfect(&self) -> bool {
        self.judge().0 == 0
    }

    /// Exchanges the primaries of replicas. `chance` returns a number below the one that it is given.
    pub fn optimize(&mut self, mut chance: impl FnMut(usize) -> usize) -> Affinity {
        for _ in 0..TRIALS_PER_NODE * self.hosts.len() {
            let (score, offenders) = self.judge();
            if score == 0 || offenders.is_empty() {
                break;
            }
            let first = offenders[chance(offenders.len())];
            let others: Vec<usize> =
                (0..self.hosts.len()).filter(|node| *node != first && self.primary_of[*node].is_some()).collect();
            if others.is_empty() {
                break;
            }
            let second = others[chance(others.len())];
            self.primary_of.swap(first, second);
            // An exchange that changes nothing stays: the best layout may need several.
            if self.judge().0 > score {
                self.primary_of.swap(first, second);
            }
        }
        match self.judge().0 {
            0 => Affinity::Perfect,
            WITH_PRIMARY.. => Affinity::WithPrimary,
            _ => Affinity::WithReplica,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a source of numbers that is the same in every run.
    fn chance() -> impl FnMut(usize) -> usize {
        let mut state = 1_u64;
        move |below| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize % below
        }
    }

    #[test]
    fn replicas_are_exchanged_until_none_is_on_its_primarys_host() {
        let hosts = ["a", "b", "c", "a", "b", "c"];
        let mut layout = Layout { hosts: &hosts, primary_of: vec![None, None, None, Some(0), Some(1), Some(2)] };
        assert!(!layout.is_perfect());
        assert_eq!(layout.optimize(chance()), Affinity::Perfect);
        assert!(layout.is_perfect());
        let mut primaries: Vec<_> = layout.primary_of.iter().flatten().collect();
        primaries.sort_unstable();
        assert_eq!(primaries, [&0, &1, &2]);
    }

    #[test]
    fn hosts_that_are_too_few_are_reported() {
        let mut one = Layout { hosts: &["a"; 4], primary_of: vec![None, None, Some(0), Some(1)] };
        assert_eq!(one.optimize(chance()), Affinity::WithPrimary);
        let mut two = Layout { hosts: &["a", "b", "b"], primary_of: vec![None, Some(0), Some(0)] };
        assert_eq!(two.optimize(chance()), Affinity::WithReplica);
    }
}
