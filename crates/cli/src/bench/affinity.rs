//! On which CPUs the generator may run. Nothing is pinned unless `--cpu` asks for it.

use rustix::thread::{CpuSet, sched_setaffinity};

/// Confines this thread, and those that it starts later, to a list such as `1` or `0,2-3`.
pub fn confine(list: &str) -> Result<(), String> {
    let mut set = CpuSet::new();
    for cpu in parse(list).ok_or_else(|| format!("'{list}' is not a list of CPUs"))? {
        set.set(cpu);
    }
    sched_setaffinity(None, &set).map_err(|error| format!("cannot run on CPUs {list}: {error}"))
}

fn parse(list: &str) -> Option<Vec<usize>> {
    let mut cpus = Vec::new();
    for part in list.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (usize, usize) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        if first > last || last >= CpuSet::MAX_CPU {
            return None;
        }
        cpus.extend(first..=last);
    }
    Some(cpus)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_and_ranges() {
        assert_eq!(parse("1"), Some(vec![1]));
        assert_eq!(parse("0,2-4"), Some(vec![0, 2, 3, 4]));
        for bad in ["", "x", "3-1", "0,", "99999"] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }
}
