//! Empty outputs with room in them, to be used again: an output that is sent later than it is passed on would need new room
//! each time. One thread at a time.

use crate::request::output::Output;

/// The most empty outputs that are kept.
const SPARE_OUTPUTS_MAX: usize = 64;

/// The greatest length of a buffer that is kept.
const SPARE_BYTES_MAX: usize = 16 * 1024;

/// Empty outputs.
#[derive(Debug, Default)]
pub struct SpareOutputs(Vec<Output>);

impl SpareOutputs {
    /// Keeps an output that was sent.
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
