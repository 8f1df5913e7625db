//! A part of a long list: a pack, or the same pack compressed while it lies far from both ends (`list-compress-depth`).
//!
//! A reader finds a pack in any case. A pack that a reader has unpacked stays so until the list changes next: a counter that
//! all nodes of a list share says that there is one to close. Only `nodes` changes one. Plain data; nodes may be read by
//! several threads at once.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use super::limit::ListLimit;
use super::lzf;
use crate::packed::listpack::Packed;
use crate::packed::pack::Pack;
use crate::value::ValueRef;
use crate::value::capture::open_value::Part;

/// Packs below this size stay as they are, as in Redis: there is little to gain.
const COMPRESSED_FROM_BYTES: usize = 48;

/// The number of compressed nodes of a list that readers have unpacked.
pub(crate) type Opened = Arc<AtomicUsize>;

/// A pack of a long list, compressed or not.
pub(crate) struct Node {
    /// The elements; empty while they are compressed.
    pack: Pack,
    /// The number of its elements, so that looking for an index reads no pack.
    count: usize,
    rest: Rest,
}

/// The state of the pack's compressed form.
enum Rest {
    /// The pack was not compressed since its last change.
    Unknown,
    /// The compressed form would not be smaller.
    Useless,
    /// The compressed form.
    Compressed(Box<Compressed>),
}

struct Compressed {
    bytes: Box<[u8]>,
    /// The length of the unpacked pack, in bytes.
    len: usize,
    open: OnceLock<Pack>,
    opened: Opened,
}

impl Compressed {
    fn unpack(&self) -> Pack {
        Pack::from_bytes(lzf::unpack(&self.bytes, self.len).expect("these bytes were compressed here"))
    }

    fn open(&self) -> &Pack {
        self.open.get_or_init(|| {
            self.opened.fetch_add(1, Ordering::Relaxed);
            self.unpack()
        })
    }
}

impl Node {
    pub(crate) fn new(pack: Pack) -> Self {
        let count = pack.len();
        Self { pack, count, rest: Rest::Unknown }
    }

    /// Returns a copy for another list, without the unpacked form.
    pub(crate) fn copy(&self, opened: &Opened) -> Self {
        let rest = match &self.rest {
            Rest::Unknown => Rest::Unknown,
            Rest::Useless => Rest::Useless,
            Rest::Compressed(compressed) => {
                let Compressed { bytes, len, .. } = &**compressed;
                let (bytes, opened) = (bytes.clone(), Arc::clone(opened));
                Rest::Compressed(Box::new(Compressed { bytes, len: *len, open: OnceLock::new(), opened }))
            }
        };
        Self { pack: self.pack.clone(), count: self.count, rest }
    }

    /// Returns the bytes as they are stored, compressed or not.
    pub(crate) fn to_part(&self) -> Part {
        match &self.rest {
            Rest::Compressed(compressed) => Part { bytes: compressed.bytes.clone(), unpacked_len: compressed.len },
            Rest::Unknown | Rest::Useless => Part { bytes: self.pack.as_bytes().into(), unpacked_len: 0 },
        }
    }

    /// Returns the number of elements.
    #[inline]
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Returns the elements.
    #[inline]
    pub(crate) fn as_packed(&self) -> Packed<'_> {
        match &self.rest {
            Rest::Compressed(compressed) => compressed.open().as_packed(),
            Rest::Unknown | Rest::Useless => self.pack.as_packed(),
        }
    }

    /// Returns the bytes that the node has allocated, without those of unpacked forms for readers.
    #[inline]
    pub(crate) fn memory_bytes(&self) -> usize {
        let compressed = match &self.rest {
            Rest::Compressed(compressed) => size_of::<Compressed>() + compressed.bytes.len(),
            Rest::Unknown | Rest::Useless => 0,
        };
        self.pack.memory_bytes() + compressed
    }

    /// Changes the elements.
    #[inline]
    pub(crate) fn edit<R>(&mut self, change: impl FnOnce(&mut Pack) -> R) -> R {
        self.decompress();
        let result = change(&mut self.pack);
        self.count = self.pack.len();
        result
    }

    /// Returns the elements as a pack.
    pub(crate) fn into_pack(mut self) -> Pack {
        self.decompress();
        self.pack
    }

    /// Returns whether the pack has room for `value`.
    pub(crate) fn takes(&self, value: ValueRef<'_>, limit: ListLimit) -> bool {
        !limit.is_large(value) && !self.is_alone(limit) && limit.takes(self.as_packed(), self.count, value)
    }

    /// Returns whether the pack holds a single element that is too large to share a pack.
    pub(crate) fn is_alone(&self, limit: ListLimit) -> bool {
        self.count == 1 && self.as_packed().first().is_some_and(|first| limit.is_large(first))
    }

    /// Returns whether the elements are compressed.
    pub(crate) fn is_compressed(&self) -> bool {
        matches!(self.rest, Rest::Compressed(_))
    }

    /// Keeps the elements compressed, if that is smaller.
    pub(crate) fn compress(&mut self, opened: &Opened) {
        if !matches!(self.rest, Rest::Unknown) {
            return;
        }
        let (bytes, len) = (self.pack.as_bytes(), self.pack.as_bytes().len());
        let smaller = if len < COMPRESSED_FROM_BYTES { None } else { lzf::pack(bytes) };
        self.rest = match smaller.filter(|smaller| smaller.len() + size_of::<Compressed>() < len) {
            None => Rest::Useless,
            Some(smaller) => {
                self.pack = Pack::new();
                let (bytes, opened) = (smaller.into_boxed_slice(), Arc::clone(opened));
                Rest::Compressed(Box::new(Compressed { bytes, len, open: OnceLock::new(), opened }))
            }
        };
    }

    /// Releases the unpacked form that a reader has made.
    pub(crate) fn close(&mut self) {
        if let Rest::Compressed(compressed) = &mut self.rest
            && compressed.open.take().is_some()
        {
            compressed.opened.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Unpacks the elements for good.
    #[inline]
    pub(crate) fn decompress(&mut self) {
        if !matches!(self.rest, Rest::Unknown) {
            self.forget_rest();
        }
    }

    fn forget_rest(&mut self) {
        if let Rest::Compressed(compressed) = std::mem::replace(&mut self.rest, Rest::Unknown) {
            self.take_open(*compressed);
        }
    }

    fn take_open(&mut self, mut compressed: Compressed) {
        self.pack = match compressed.open.take() {
            Some(pack) => {
                compressed.opened.fetch_sub(1, Ordering::Relaxed);
                pack
            }
            None => compressed.unpack(),
        };
    }
}

/// Gives back the spare room of a pack that will not grow, if it is worth a copy.
pub(crate) fn give_back_spare(pack: &mut Pack) {
    let used = pack.as_bytes().len();
    if pack.memory_bytes() - used > used / 32 {
        pack.shrink_to_fit();
    }
}
