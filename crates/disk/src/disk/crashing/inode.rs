//! One file of the crashing disk: its durable bytes, its readable bytes, and the part of the difference that a power cut
//! leaves.

use super::chance::Chance;

/// Bytes that a disk writes at once: a write is torn between two of these, never inside one.
const SECTOR_BYTES: u64 = 512;

#[derive(Clone, Debug)]
enum Change {
    Write { at: u64, bytes: Vec<u8> },
    Truncate { length: u64 },
}

/// A file of the crashing disk.
#[derive(Clone, Debug, Default)]
pub(super) struct Inode {
    visible: Vec<u8>,
    durable: Vec<u8>,
    /// The changes since the last sync, in order.
    changes: Vec<Change>,
}

impl Inode {
    pub(super) fn len(&self) -> u64 {
        self.visible.len() as u64
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.visible
    }

    pub(super) fn append(&mut self, bytes: Vec<u8>) {
        let at = self.len();
        self.visible.extend_from_slice(&bytes);
        self.changes.push(Change::Write { at, bytes });
    }

    pub(super) fn truncate(&mut self, length: u64) {
        self.visible.resize(length as usize, 0);
        self.changes.push(Change::Truncate { length });
    }

    pub(super) fn sync(&mut self) {
        for change in std::mem::take(&mut self.changes) {
            match change {
                Change::Write { at, bytes } => write(&mut self.durable, at, &bytes),
                Change::Truncate { length } => self.durable.resize(length as usize, 0),
            }
        }
    }

    /// Excludes the present changes from all later syncs: they stay readable and will never be durable.
    pub(super) fn fail_to_sync(&mut self) {
        self.changes.clear();
    }

    /// Returns the file as a power cut leaves it.
    pub(super) fn survivor(&self, chance: &mut Chance) -> Inode {
        let mut bytes = self.durable.clone();
        let manner = chance.below(4);
        let kept = chance.below(self.changes.len() as u64 + 1) as usize;
        for (index, change) in self.changes.iter().enumerate() {
            match manner {
                0 => {}
                1 => apply(&mut bytes, change),
                2 if index < kept => apply(&mut bytes, change),
                2 if index == kept => tear(&mut bytes, change, chance, true),
                2 => {}
                _ => tear(&mut bytes, change, chance, false),
            }
        }
        Inode { visible: bytes.clone(), durable: bytes, changes: Vec::new() }
    }
}

fn apply(durable: &mut Vec<u8>, change: &Change) {
    match change {
        Change::Write { at, bytes } => write(durable, *at, bytes),
        Change::Truncate { length } => durable.resize(*length as usize, 0),
    }
}

/// Writes bytes. A write behind the end of the file leaves a hole of zeros, as files do.
fn write(durable: &mut Vec<u8>, at: u64, bytes: &[u8]) {
    let (at, end) = (at as usize, at as usize + bytes.len());
    if durable.len() < end {
        durable.resize(end, 0);
    }
    durable[at..end].copy_from_slice(bytes);
}

/// Applies a part of a change: the first sectors of a write (`in_order`), or any of its sectors; now and then a sector holds
/// garbage.
fn tear(durable: &mut Vec<u8>, change: &Change, chance: &mut Chance, in_order: bool) {
    let Change::Write { at, bytes } = change else {
        if chance.below(2) == 0 {
            apply(durable, change);
        }
        return;
    };
    let mut start = *at;
    let end = at + bytes.len() as u64;
    while start < end {
        let sector_end = ((start / SECTOR_BYTES + 1) * SECTOR_BYTES).min(end);
        let part = &bytes[(start - at) as usize..(sector_end - at) as usize];
        match chance.below(8) {
            0 | 1 if in_order => return,
            0..=2 if !in_order => {}
            3 if !in_order => {
                let garbage: Vec<u8> = part.iter().map(|_| chance.bits() as u8).collect();
                write(durable, start, &garbage);
            }
            _ => write(durable, start, part),
        }
        start = sector_end;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn survivors(inode: &Inode) -> Vec<Vec<u8>> {
        let mut all: Vec<Vec<u8>> = (0..200).map(|seed| inode.survivor(&mut Chance::new(seed)).visible).collect();
        all.sort();
        all.dedup();
        all
    }

    #[test]
    fn what_was_synced_is_always_there_and_the_rest_in_every_state() {
        let mut inode = Inode::default();
        inode.append(b"synced ".to_vec());
        inode.sync();
        assert_eq!(survivors(&inode), [b"synced ".to_vec()]);
        inode.append(b"one ".to_vec());
        inode.append(b"two".to_vec());
        let all = survivors(&inode);
        assert!(all.iter().all(|bytes| bytes.starts_with(b"synced ")));
        let hole = [b"synced ".as_slice(), &[0; 4], b"two"].concat();
        for wanted in [b"synced ".as_slice(), b"synced one ", b"synced one two", &hole] {
            assert!(all.iter().any(|bytes| bytes == wanted), "{:?}", String::from_utf8_lossy(wanted));
        }
    }

    #[test]
    fn a_failed_sync_takes_what_it_should_have_kept() {
        let mut inode = Inode::default();
        inode.append(b"lost".to_vec());
        inode.fail_to_sync();
        inode.append(b"kept".to_vec());
        inode.sync();
        assert_eq!(inode.bytes(), b"lostkept");
        assert_eq!(survivors(&inode), [b"\0\0\0\0kept".to_vec()]);
    }

    #[test]
    fn long_writes_are_torn_between_sectors() {
        let mut inode = Inode::default();
        inode.append(vec![b'x'; 2_000]);
        let is_torn = |bytes: &Vec<u8>| bytes.iter().any(|&byte| byte != b'x') && bytes.contains(&b'x');
        assert!(survivors(&inode).iter().any(is_torn));
        assert!(survivors(&inode).iter().any(|bytes| bytes.len() == 1_024));
    }
}
