//! Shared memory into which the other side writes arbitrary words between any two steps of this side. Each step returns bytes
//! or an error.
//!
//! Each step has four bytes: the action of this side, the number of bytes of that action, the word of the memory that the
//! other side writes, and the word's new value.

#![no_main]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use libfuzzer_sys::fuzz_target;
use sleeve_rings::side::{Role, ends, words_for};

/// The capacity of a ring in bytes. It is small, so that the ring is often full.
const CAPACITY: usize = 64;

fuzz_target!(|data: &[u8]| {
    let memory: Arc<[AtomicU64]> = (0..words_for(CAPACITY)).map(|_| AtomicU64::new(0)).collect();
    let (mut writer, mut reader) = ends(Arc::clone(&memory), Role::Server);
    let mut room = [0; 2 * CAPACITY];
    for step in data.chunks_exact(4) {
        let [action, count, word, number] = [0, 1, 2, 3].map(|index| usize::from(step[index]));
        let word = &memory[word % memory.len()];
        // Values slightly above the present one are plausible, so that checks may accept them.
        let planted = if number < 200 { word.load(Ordering::Relaxed).wrapping_add(number as u64) } else { u64::MAX << (number % 64) };
        word.store(planted, Ordering::Relaxed);
        let count = count % room.len();
        match action % 6 {
            0 => {
                let written = writer.write(&room[..count]).unwrap_or(0);
                assert!(written <= count.min(CAPACITY), "more was written than there is room for");
                writer.must_ring();
            }
            1 => {
                let read = reader.read(&mut room[..count]).unwrap_or(0);
                assert!(read <= count.min(CAPACITY), "more was read than a ring holds");
                reader.must_ring();
            }
            2 => _ = reader.fall_asleep(),
            3 => reader.wake_up(),
            4 => _ = writer.wait_for_room(),
            _ => _ = reader.has_bytes(),
        }
    }
});
