//! The slots that leave their nodes when a number of slots is moved to another node.

use super::super::slots::SlotSet;

/// A node that gives slots away.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a> {
    /// The node.
    pub node: usize,
    /// Its slots.
    pub slots: &'a SlotSet,
}

/// Returns so many slots with their nodes, from each node in proportion to the slots that it has, the lowest first. The node
/// with the most slots gives the part that rounding leaves over, so that a few slots fewer than wanted may be returned, as with
/// redis-cli.
pub fn pick(sources: &[Source<'_>], wanted: usize) -> Vec<(usize, u16)> {
    let mut sources = sources.to_vec();
    sources.sort_by_key(|source| std::cmp::Reverse(source.slots.len()));
    let total: usize = sources.iter().map(|source| source.slots.len()).sum();
    let mut picked = Vec::new();
    for (number, source) in sources.iter().enumerate() {
        let part = f64::from(wanted as f32 / total as f32 * source.slots.len() as f32);
        let part = if number == 0 { part.ceil() } else { part.floor() } as usize;
        let left = wanted.saturating_sub(picked.len());
        picked.extend(source.slots.iter().take(part.min(left)).map(|slot| (source.node, slot)));
    }
    picked
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_give_in_proportion_to_what_they_have() {
        let (large, small, empty): (SlotSet, SlotSet, SlotSet) =
            ((0..300).collect(), (300..400).collect(), SlotSet::default());
        let sources = [(0, &small), (1, &large), (2, &empty)].map(|(node, slots)| Source { node, slots });
        let picked = pick(&sources, 40);
        assert_eq!(picked.iter().filter(|(node, _)| *node == 1).count(), 30);
        assert_eq!(picked.iter().filter(|(node, _)| *node == 0).count(), 10);
        assert_eq!((picked[0], picked[30]), ((1, 0), (0, 300)));
        assert_eq!(pick(&sources, 1), [(1, 0)]);
        assert_eq!(pick(&sources, 1000).len(), 400);
        assert_eq!(pick(&sources[2..], 5), []);
    }
}
