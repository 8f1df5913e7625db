//! Passing over the parts of all values without reading their contents: the lengths that stand there lead from part to part.
//!
//! One thread at a time cuts a file into records, and several read them. A value that cannot be measured so is no error here:
//! the bytes may end too soon, or be of an unknown type, and the code that reads them properly reports the fault. Plain
//! functions, any thread.

use super::bad::Bad;
use super::scan::{Input, Source};

/// Passes over a string.
pub(super) fn string(input: &mut Input<'_>) -> Result<(), Bad> {
    input.stored().map(|_| ())
}

/// Passes over a length.
pub(super) fn length(input: &mut Input<'_>) -> Result<(), Bad> {
    input.length().map(|_| ())
}

/// Passes over so many bytes.
pub(super) fn bytes(input: &mut Input<'_>, count: usize) -> Result<(), Bad> {
    input.take(count).map(|_| ())
}

/// Passes over as many parts as the length in front of them says. Each part has at least one byte, so the bytes bound their
/// number.
pub(super) fn each(input: &mut Input<'_>, part: impl Fn(&mut Input<'_>) -> Result<(), Bad>) -> Result<(), Bad> {
    for _ in 0..input.length()? {
        input.count_part()?;
        part(input)?;
    }
    Ok(())
}
