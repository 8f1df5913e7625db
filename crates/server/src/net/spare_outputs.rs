//! Empty outputs with room in them, to be used again: an output that leaves later than it is handed over would need room anew
//! each time. One thread at a time.

use crate::request::output::Output;

/// Empty outputs that are kept, to be used again.
const SPARE_OUTPUTS_MAX: usize = 64;

/// Longer buffers are not kept.
const SPARE_BYTES_MAX: usize = 16 * 1024;

/// Empty outputs.
#[derive(Debug, Default)]
pub struct SpareOutputs(Vec<Output>);

impl SpareOutputs {
    /// Keeps an output after its bytes have left.
    #[inline]
    pub fn keep(&mut self, mut output: Output) {
        if self.0.len() < SPARE_OUTPUTS_MAX {
            output.clear();
            output.bytes.shrink_to(SPARE_BYTES_MAX);
            self.0.push(output);
        }
    }

    /// Gives an empty output room, if it has none.
    #[inline]
    pub fn refill(&mut self, output: &mut Output) {
        if output.is_empty()
            && output.bytes.capacity() == 0
            && let Some(spare) = self.0.pop()
        {
            *output = spare;
        }
    }
}
