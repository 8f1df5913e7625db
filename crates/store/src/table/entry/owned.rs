//! What an entry owns outside of its block: a long string's buffer, or a collection. Taken out of an entry, it goes to another
//! or is freed, wherever it suits.

use std::sync::Arc;

use crate::memory::heap::block_bytes;
use crate::value::collection::Object;

/// What a shared buffer takes besides its bytes: two counts, and the vector's three words.
const SHARED_BYTES: usize = 40;

/// What an entry owns outside of its block.
#[derive(Debug, Default)]
pub(crate) enum Outside {
    #[default]
    Nothing,
    Buffer(Arc<Vec<u8>>),
    Object(Object),
}

/// The bytes that a shared buffer takes.
pub(crate) fn shared_bytes(buffer: &Arc<Vec<u8>>) -> usize {
    block_bytes(SHARED_BYTES) + block_bytes(buffer.capacity())
}
