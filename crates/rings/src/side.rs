//! One side of a pair of rings: the ring that it writes and the ring that it reads.

use crate::ring::{HEAD_WORDS, Reader, Words, Writer};

/// The two sides of a pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The side that has created the memory.
    Server,
    /// The side that was given the memory.
    Client,
}

/// Returns the number of words that two rings of `capacity` bytes each take.
pub const fn words_for(capacity: usize) -> usize {
    2 * (HEAD_WORDS + capacity / size_of::<u64>())
}

/// Returns the bytes of each of the two rings in so many words; none if the words cannot be two rings.
pub fn capacity_of(words: usize) -> Option<usize> {
    let count = (words / 2).checked_sub(HEAD_WORDS)?;
    (words.is_multiple_of(2) && count.is_power_of_two()).then_some(count * size_of::<u64>())
}

/// Returns the ends of a pair of rings that belong to one side. The memory is fresh: it holds zeros only.
///
/// # Panics
/// If the length of the memory is not a result of [`words_for`].
pub fn ends<M: Words + Clone>(memory: M, role: Role) -> (Writer<M>, Reader<M>) {
    let all = memory.words().len();
    let count = capacity_of(all).expect("two rings") / size_of::<u64>();
    let (from_client, from_server) = (0, all / 2);
    match role {
        Role::Server => (Writer::new(memory.clone(), from_server, count), Reader::new(memory, from_client, count)),
        Role::Client => (Writer::new(memory.clone(), from_client, count), Reader::new(memory, from_server, count)),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicU64;

    use super::*;

    #[test]
    fn what_one_side_writes_the_other_reads() {
        let memory: Arc<[AtomicU64]> = (0..words_for(64)).map(|_| AtomicU64::new(0)).collect();
        let (mut to_client, mut from_client) = ends(Arc::clone(&memory), Role::Server);
        let (mut to_server, mut from_server) = ends(memory, Role::Client);
        assert_eq!((to_client.write(b"reply"), to_server.write(b"request")), (Ok(5), Ok(7)));
        let mut room = [0; 16];
        assert_eq!(from_client.read(&mut room), Ok(7));
        assert_eq!(&room[..7], b"request");
        assert_eq!(from_server.read(&mut room), Ok(5));
        assert_eq!(&room[..5], b"reply");
    }

    #[test]
    fn only_two_rings_are_two_rings() {
        assert_eq!(capacity_of(words_for(65_536)), Some(65_536));
        assert_eq!(capacity_of(words_for(8)), Some(8));
        for words in [0, 1, 63, 64, 65, words_for(24), words_for(64) + 1] {
            assert_eq!(capacity_of(words), None, "{words}");
        }
    }
}
