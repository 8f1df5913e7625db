//! The memory that an entry owns outside of its block: a long string's buffer, or a collection. After it is taken out of an
//! entry, it goes to another entry or is freed, on any thread.

use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::sync::Arc;

use crate::memory::heap::block_bytes;
use crate::value::collection::Object;

/// The bytes of a shared buffer besides its contents: two counts, and the vector's three words.
const SHARED_BYTES: usize = 40;

/// Memory that an entry owns outside of its block.
#[derive(Debug, Default)]
pub(crate) enum Outside {
    #[default]
    Nothing,
    Buffer(Arc<Vec<u8>>),
    Object(Object),
}

/// A buffer that an entry owns, lent: it can be read, and its reference count raised, while the entry keeps its own
/// reference.
pub(crate) struct SharedRef<'a>(ManuallyDrop<Arc<Vec<u8>>>, PhantomData<&'a Arc<Vec<u8>>>);

impl SharedRef<'_> {
    /// # Safety
    /// `address` is from [`Arc::into_raw`], and the owner of that count keeps it for as long as the result is used.
    #[inline]
    pub(super) unsafe fn at(address: usize) -> Self {
        // SAFETY: as the caller promises. The count is not given back here.
        let buffer = unsafe { Arc::from_raw(std::ptr::with_exposed_provenance(address)) };
        Self(ManuallyDrop::new(buffer), PhantomData)
    }

    /// Takes over the reference that was lent.
    ///
    /// # Safety
    /// The former owner gives up its reference, and reads the address no more.
    #[inline]
    pub(super) unsafe fn take(self) -> Arc<Vec<u8>> {
        ManuallyDrop::into_inner(self.0)
    }
}

impl Deref for SharedRef<'_> {
    type Target = Arc<Vec<u8>>;

    #[inline]
    fn deref(&self) -> &Arc<Vec<u8>> {
        &self.0
    }
}

/// Returns the bytes that a shared buffer takes.
pub(crate) fn shared_bytes(buffer: &Arc<Vec<u8>>) -> usize {
    block_bytes(SHARED_BYTES) + block_bytes(buffer.capacity())
}
