//! The part of the journal that a slow replica has still to be sent, in files: pieces of the stream, unchanged.
//!
//! A file has no name once it is open, so nothing is left of it when its bytes have been sent, its replica has disconnected
//! or the process has ended. It is deliberately no AOF: nothing is fsynced, and a replica that reconnects later cannot
//! continue from it. The owner of the replica's feed calls it, from one thread at a time.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use sleeve_disk::disk::File;

/// The number of bytes after which another file begins, so that sent bytes do not take space for long.
const FILE_BYTES: u64 = 16 << 20;

/// The bytes of a replica's stream that wait in files, oldest first.
#[derive(Debug, Default)]
pub struct Spill {
    pieces: VecDeque<SpillFile>,
    /// The sum of the bytes in the files of all replicas.
    total: Arc<AtomicU64>,
}

#[derive(Debug)]
struct SpillFile {
    file: Arc<dyn File>,
    len: u64,
    /// The number of bytes that have been sent.
    read: u64,
    /// An append has failed: the bytes behind `len` are invalid.
    is_torn: bool,
}

impl Spill {
    /// Makes an empty spill. Its bytes are counted in this sum.
    pub fn new(total: &Arc<AtomicU64>) -> Self {
        Self { pieces: VecDeque::new(), total: Arc::clone(total) }
    }

    /// Returns whether no bytes wait.
    pub fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Adds bytes to the end, in a file that `make` begins if one is needed.
    ///
    /// # Errors
    /// Errors of the operating system. Nothing was added then.
    pub fn write(&mut self, bytes: &[u8], make: impl FnOnce() -> io::Result<Arc<dyn File>>) -> io::Result<()> {
        if self.pieces.back().is_none_or(|piece| piece.is_torn || piece.len >= FILE_BYTES) {
            self.pieces.push_back(SpillFile { file: make()?, len: 0, read: 0, is_torn: false });
        }
        let Some(piece) = self.pieces.back_mut() else { return Ok(()) };
        if let Err(error) = piece.file.append(&[IoSlice::new(bytes)]) {
            piece.is_torn = true;
            self.drop_sent();
            return Err(error);
        }
        piece.len += bytes.len() as u64;
        self.total.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        Ok(())
    }

    /// Appends the next bytes to `into`, at most `bytes_max`.
    ///
    /// # Errors
    /// The bytes cannot be read.
    pub fn read(&mut self, bytes_max: usize, into: &mut Vec<u8>) -> io::Result<()> {
        let Some(piece) = self.pieces.front_mut() else { return Ok(()) };
        let (start, count) = (into.len(), bytes_max.min((piece.len - piece.read) as usize));
        into.resize(start + count, 0);
        let read = sleeve_disk::disk::read_full(&*piece.file, piece.read, &mut into[start..])?;
        if read != count {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        piece.read += count as u64;
        self.drop_sent();
        Ok(())
    }

    /// Drops files of which all bytes have been sent.
    fn drop_sent(&mut self) {
        while let Some(piece) = self.pieces.pop_front_if(|piece| piece.read == piece.len) {
            self.total.fetch_sub(piece.len, Ordering::Relaxed);
        }
    }
}

impl Drop for Spill {
    fn drop(&mut self) {
        self.total.fetch_sub(self.pieces.iter().map(|piece| piece.len).sum(), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use sleeve_disk::disk::{Disk, Open, memory::MemoryDisk};

    use super::*;

    #[test]
    fn what_was_written_is_read_in_order_and_what_was_read_takes_no_room() {
        let (disk, total) = (MemoryDisk::default(), Arc::default());
        let mut spill = Spill::new(&total);
        let waits = |spill: &Spill| spill.pieces.iter().map(|piece| piece.len - piece.read).sum::<u64>();
        let (block, mut expected, mut seen) = (vec![7; 1 << 20], 0, Vec::new());
        for number in 0..40_u8 {
            let bytes = [&[number][..], &block].concat();
            spill.write(&bytes, || disk.open(Path::new("piece"), Open::Create)).expect("there is room");
            disk.remove(Path::new("piece")).unwrap_or_default();
            expected += bytes.len();
        }
        assert_eq!((waits(&spill), total.load(Ordering::Relaxed)), (expected as u64, expected as u64));
        while !spill.is_empty() {
            spill.read(100_000, &mut seen).expect("it is there");
            assert!(total.load(Ordering::Relaxed) <= waits(&spill) + FILE_BYTES + (1 << 20) + 1);
        }
        assert_eq!(seen.len(), expected);
        assert!((0..40).all(|number| seen[number * ((1 << 20) + 1)] == number as u8));
        assert_eq!(total.load(Ordering::Relaxed), 0);
        spill.write(b"left", || disk.open(Path::new("piece"), Open::Create)).expect("there is room");
        drop(spill);
        assert_eq!(total.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn where_no_file_can_be_made_nothing_is_taken() {
        let mut spill = Spill::new(&Arc::default());
        assert!(spill.write(b"x", || Err(io::ErrorKind::StorageFull.into())).is_err());
        assert!(spill.is_empty());
    }
}
