//! How a benchmark is run: once so that buffers have their size, and then inside of [`counted`].
//!
//! Callgrind counts in that function and nowhere else, and writes a file whenever [`finished`] is left: `cargo xtask counts`
//! names both of them to it.

use std::hint::black_box;

/// Runs a benchmark of so many operations twice, and has the second time counted.
pub fn bench(name: &str, operations: usize, mut run: impl FnMut()) {
    bench_rounds(name, operations, 1, &mut (), |()| (), |()| run());
}

/// As [`bench`], in rounds of so many operations each, with something before each round that does not count.
pub fn bench_rounds<T>(
    name: &str,
    operations: usize,
    rounds: usize,
    state: &mut T,
    mut prepare: impl FnMut(&mut T),
    mut run: impl FnMut(&mut T),
) {
    for _ in 0..rounds {
        prepare(state);
        run(state);
    }
    for _ in 0..rounds {
        prepare(state);
        counted(&mut || run(state));
    }
    finished(name, operations * rounds);
}

/// The function that callgrind looks for by its name. The black boxes keep the compiler from taking it apart.
#[inline(never)]
fn counted(run: &mut dyn FnMut()) {
    black_box(run)();
    black_box(());
}

/// Marks the end of a count: the instructions since the last return from here belong to this name.
#[inline(never)]
fn finished(name: &str, operations: usize) {
    println!("{name} {operations}");
}

/// Returns the request of these words as a client sends it.
pub fn request(words: &[&str]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len());
    for word in words {
        bytes += &format!("${}\r\n{word}\r\n", word.len());
    }
    bytes.into_bytes()
}

/// Returns the name of a key by its number: 16 bytes.
pub fn key(number: usize) -> String {
    format!("key:{number:012}")
}
