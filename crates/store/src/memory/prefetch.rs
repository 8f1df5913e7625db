//! A hint to the processor: this line will be read soon. A wrong address is harmless. Callable from anywhere.

/// A step towards an entry. Each prefetches the memory that the next one reads, so each is taken for many entries before the
/// next is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PrefetchStep {
    /// The segment, which says where the bucket is.
    Segment,
    /// The bucket where the entry should be.
    Bucket,
    /// The entry itself, most probably.
    Entry,
}

/// Asks for the cache line that contains `address`.
#[inline(always)]
pub(crate) fn prefetch(address: *const u8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: SSE belongs to every x86-64 processor, and a prefetch of any address has no effect that can be seen.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(address.cast());
    }
    #[cfg(all(target_arch = "aarch64", not(miri)))]
    // SAFETY: a prefetch of any address has no effect that can be seen.
    unsafe {
        std::arch::asm!("prfm pldl1keep, [{0}]", in(reg) address, options(nostack, preserves_flags, readonly));
    }
    #[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
    let _ = address;
}
