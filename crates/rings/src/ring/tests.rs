//! Tests of the ring: against a naive model, against a hostile side, and with two threads that sleep.

use std::collections::VecDeque;
use std::sync::Arc;

use proptest::prelude::*;

use super::*;

type Plain = Arc<[AtomicU64]>;

fn ring(count: usize) -> (Writer<Plain>, Reader<Plain>) {
    let memory: Plain = (0..HEAD_WORDS + count).map(|_| AtomicU64::new(0)).collect();
    (Writer::new(Arc::clone(&memory), 0, count), Reader::new(memory, 0, count))
}

/// A step of one of the two sides.
#[derive(Debug, Clone)]
enum Step {
    Write(usize),
    Read(usize),
    FallAsleep,
    WakeUp,
    WaitForRoom,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (0..100_usize).prop_map(Step::Write),
        (0..100_usize).prop_map(Step::Read),
        Just(Step::FallAsleep),
        Just(Step::WakeUp),
        Just(Step::WaitForRoom),
    ]
}

proptest! {
    #[test]
    fn bytes_come_as_they_went_and_who_sleeps_is_rung(
        exponent in 0..5_u32,
        steps in prop::collection::vec(step(), 1..200),
    ) {
        let capacity = (1 << exponent) * WORD;
        let (mut writer, mut reader) = ring(1 << exponent);
        let (mut twin, mut next) = (VecDeque::new(), 0_u8);
        let (mut sleeps, mut waits) = (false, false);
        for step in steps {
            match step {
                Step::Write(count) => {
                    let bytes: Vec<u8> = (0..count).map(|index| next.wrapping_add(index as u8)).collect();
                    let written = writer.write(&bytes).expect("both keep to the rules");
                    prop_assert_eq!(written, count.min(capacity - twin.len()));
                    twin.extend(&bytes[..written]);
                    next = next.wrapping_add(written as u8);
                    prop_assert_eq!(writer.must_ring(), sleeps);
                    sleeps = false;
                }
                Step::Read(count) => {
                    let mut room = vec![0; count];
                    let read = reader.read(&mut room).expect("both keep to the rules");
                    prop_assert_eq!(read, count.min(twin.len()));
                    let expected: Vec<u8> = twin.drain(..read).collect();
                    prop_assert_eq!(&room[..read], &expected[..]);
                    // The bell may come too early: bytes written since the reader's last look were not counted, but are read
                    // next.
                    let (rings, is_stale) = (reader.must_ring(), reader.written != writer.written);
                    prop_assert!(rings == waits || (waits && (is_stale || twin.len() > capacity / 2)));
                    waits &= !rings;
                }
                Step::FallAsleep if !reader.is_asleep => {
                    let falls = reader.fall_asleep().expect("both keep to the rules");
                    prop_assert_eq!(falls, twin.is_empty());
                    prop_assert!(!falls || !waits, "both would sleep");
                    prop_assert!(!reader.take_ring(), "nobody wrote meanwhile");
                    sleeps = falls;
                }
                Step::FallAsleep => {}
                Step::WakeUp => {
                    let was_asleep = reader.is_asleep;
                    reader.wake_up();
                    prop_assert_eq!(reader.take_ring(), was_asleep && !sleeps);
                    sleeps = false;
                }
                Step::WaitForRoom => {
                    waits = writer.wait_for_room().expect("both keep to the rules");
                    prop_assert_eq!(waits, twin.len() > capacity / 2);
                }
            }
        }
    }

    /// A hostile side leaves any number in any word between any two steps.
    #[test]
    fn whatever_the_other_side_leaves_there_ends_in_bytes_or_an_error(
        exponent in 0..5_u32,
        steps in prop::collection::vec((step(), 0..HEAD_WORDS, any::<u64>(), any::<bool>()), 1..200),
    ) {
        let (mut writer, mut reader) = ring(1 << exponent);
        for (step, word, number, is_near) in steps {
            let word = reader.place.head(&reader.memory, word);
            word.store(if is_near { word.load(Relaxed).wrapping_add(number % 16) } else { number }, Relaxed);
            match step {
                Step::Write(count) => _ = writer.write(&vec![1; count]).map(|_| writer.must_ring()),
                Step::Read(count) => _ = reader.read(&mut vec![0; count]).map(|_| reader.must_ring()),
                Step::FallAsleep => _ = reader.fall_asleep(),
                Step::WakeUp => reader.wake_up(),
                Step::WaitForRoom => _ = writer.wait_for_room(),
            }
        }
    }
}

#[test]
fn positions_that_cannot_be_are_refused() {
    let (mut writer, mut reader) = ring(4);
    assert_eq!(writer.write(&[7; 40]), Ok(32));
    writer.place.head(&writer.memory, TAKEN).store(33, Relaxed);
    assert_eq!(writer.write(b"x"), Err(Broken));
    assert_eq!(reader.read(&mut [0; 8]), Ok(8));
    writer.place.head(&writer.memory, WRITTEN).store(41, Relaxed);
    assert_eq!(reader.read(&mut [0; 64]), Err(Broken), "more than fits");
    writer.place.head(&writer.memory, WRITTEN).store(31, Relaxed);
    assert_eq!(reader.read(&mut [0; 64]), Err(Broken), "less than before");
}

/// Runs two threads that sleep only when they may: if a bell were lost, the test would never end.
#[test]
fn nobody_sleeps_beside_bytes_or_room() {
    let total = if cfg!(miri) { 200 } else { 300_000_u32 };
    let (mut writer, mut reader) = ring(4);
    let (ring_reader, reader_bell) = std::sync::mpsc::channel();
    let (ring_writer, writer_bell) = std::sync::mpsc::channel();
    let producer = std::thread::spawn(move || {
        for number in 0..total {
            let bytes = number.to_le_bytes();
            let mut left = &bytes[..];
            while !left.is_empty() {
                let count = writer.write(left).expect("the reader keeps to the rules");
                left = &left[count..];
                if writer.must_ring() {
                    ring_reader.send(()).expect("it reads until the end");
                }
                if !left.is_empty() && writer.wait_for_room().expect("the reader keeps to the rules") {
                    writer_bell.recv().expect("the reader rings");
                }
            }
        }
    });
    let mut got = Vec::new();
    while got.len() < total as usize * 4 {
        let mut room = [0; 24];
        let count = reader.read(&mut room).expect("the writer keeps to the rules");
        got.extend_from_slice(&room[..count]);
        if reader.must_ring() {
            // The writer may have written its last bytes and ended.
            _ = ring_writer.send(());
        }
        if count == 0 && reader.fall_asleep().expect("the writer keeps to the rules") {
            reader_bell.recv().expect("the writer rings");
            reader.wake_up();
        }
    }
    producer.join().expect("it does not panic");
    let (numbers, _) = got.as_chunks::<4>();
    assert!(numbers.iter().enumerate().all(|(index, bytes)| u32::from_le_bytes(*bytes) == index as u32));
}
