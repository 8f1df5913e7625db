//! Memory that processes share: an anonymous file, sealed so that neither process can shrink it under the other.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, fstat, ftruncate, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use crate::ring::Words;
use crate::side::{capacity_of, words_for};

/// The largest rings that a client accepts from a server, in bytes. The client maps the size that the server names.
const CAPACITY_MAX: usize = 64 * 1024 * 1024;

/// The seals of the file: its size is fixed, and no seals can be added.
const SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::SEAL);

/// Fresh memory for two rings, and the descriptor by which it is handed on.
pub type Fresh = (Memory, OwnedFd);

/// A mapping of shared memory, undone when the last handle goes.
#[derive(Clone)]
pub struct Memory(Arc<Mapping>);

struct Mapping {
    start: NonNull<AtomicU64>,
    words: usize,
}

// SAFETY: the memory stays mapped until this value is dropped, and it consists of atomics.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the memory was mapped with this length, and no reference to it is left, because references borrow from this
        // value.
        let unmapped = unsafe { munmap(self.start.as_ptr().cast(), self.words * size_of::<u64>()) };
        debug_assert!(unmapped.is_ok(), "it is mapped");
    }
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Memory({} words)", self.0.words)
    }
}

impl Words for Memory {
    #[inline]
    fn words(&self) -> &[AtomicU64] {
        // SAFETY: this many words are mapped for as long as `self` lives, at the beginning of a page, and the size is sealed.
        // Atomics may change at any time, also by another process.
        unsafe { std::slice::from_raw_parts(self.0.start.as_ptr(), self.0.words) }
    }
}

impl Memory {
    /// Creates memory for two rings of `capacity` bytes each, a power of two of at least 8, with the descriptor by which it
    /// is handed on.
    ///
    /// # Errors
    /// The kernel's: out of memory, or too many open files.
    pub fn create(capacity: usize) -> io::Result<Fresh> {
        let words = words_for(capacity);
        let file = memfd_create("sleeve-rings", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        ftruncate(&file, (words * size_of::<u64>()) as u64)?;
        fcntl_add_seals(&file, SEALS)?;
        Ok((Self::map(&file, words)?, file))
    }

    /// Maps memory that another process has handed out.
    ///
    /// # Errors
    /// If the memory was not made by [`Memory::create`]: its size could change, or is not that of two rings. Or if the kernel
    /// refuses.
    pub fn open(file: &OwnedFd) -> io::Result<Self> {
        let refused =
            |what| io::Error::new(io::ErrorKind::InvalidData, format!("the shared memory of the server {what}"));
        if !fcntl_get_seals(file)?.contains(SealFlags::SHRINK) {
            return Err(refused("could become smaller"));
        }
        let length = usize::try_from(fstat(file)?.st_size).unwrap_or(0);
        let words = length / size_of::<u64>();
        match capacity_of(words) {
            Some(capacity) if capacity <= CAPACITY_MAX && length.is_multiple_of(size_of::<u64>()) => {}
            _ => return Err(refused(&format!("has {length} bytes, which are no two rings"))),
        }
        Self::map(file, words)
    }

    fn map(file: impl AsFd, words: usize) -> io::Result<Self> {
        let length = words * size_of::<u64>();
        // SAFETY: the kernel chooses where; nothing that is there is replaced.
        let start = unsafe {
            mmap(std::ptr::null_mut(), length, ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED, file, 0)
        }?;
        let start = NonNull::new(start.cast()).ok_or_else(|| io::Error::other("memory was mapped at zero"))?;
        Ok(Self(Arc::new(Mapping { start, words })))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use rustix::fs::ftruncate;

    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "needs files without a name")]
    fn both_see_the_same_and_neither_can_take_it_away() {
        let (here, file) = Memory::create(4096).expect("memory");
        let there = Memory::open(&file).expect("the same memory");
        assert_eq!((here.words().len(), there.words().len()), (words_for(4096), words_for(4096)));
        here.words()[3].store(7, Ordering::Relaxed);
        assert_eq!(there.words()[3].load(Ordering::Relaxed), 7);
        assert!(ftruncate(&file, 0).is_err(), "its size is sealed");
        drop(here);
        assert_eq!(there.words()[3].load(Ordering::Relaxed), 7);
    }

    #[test]
    #[cfg_attr(miri, ignore = "needs files without a name")]
    fn other_files_are_refused() {
        let unsealed = memfd_create("unsealed", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).expect("a file");
        ftruncate(&unsealed, words_for(4096) as u64 * 8).expect("room");
        let error = Memory::open(&unsealed).expect_err("it could shrink");
        assert!(error.to_string().contains("could become smaller"), "{error}");
        for length in [0, 8, 4096, words_for(4096) as u64 * 8 + 1, words_for(1 << 40) as u64 * 8] {
            let file = memfd_create("odd", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).expect("a file");
            ftruncate(&file, length).expect("room");
            fcntl_add_seals(&file, SEALS).expect("it may be sealed");
            assert!(Memory::open(&file).is_err(), "{length} bytes");
        }
        let pipe = io::pipe().expect("a pipe").0.into();
        assert!(Memory::open(&pipe).is_err(), "a pipe");
    }
}
