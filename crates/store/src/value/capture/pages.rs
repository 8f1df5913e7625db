//! Long strings, which are captured page by page while they are changed in place.
//!
//! The store never changes a buffer with another owner: it copies it first, which for hundreds of megabytes takes too long.
//! So a snapshot refers to no long buffer that is still in the store. It notes which pages are pending, a writer that is
//! about to change bytes captures their pages, and the walk captures the rest. A buffer that the store releases does not
//! change any more and is kept whole. One [`Strings`] watches the buffers of one table, under the lock of its shard.

use std::any::Any;
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use super::open_value::{OpenValue, Outline, Part};
use super::source::{Budget, CaptureSource};
use crate::memory::heap::Watch;

/// The length in bytes beyond which a string is captured page by page.
pub const PAGED_FROM_BYTES: usize = 1 << 20;

/// The bytes of a page.
const PAGE_BYTES: usize = 64 << 10;

/// Returns the outline of a string of so many bytes.
pub fn outline(length: usize) -> Outline {
    Outline { parts: length.div_ceil(PAGE_BYTES), walks: 1, extra: Some(Box::new(Length(length))) }
}

/// The length of a long string in bytes, as it was captured.
#[derive(Clone, Copy, Debug)]
pub struct Length(pub usize);

/// The pages of one string.
#[derive(Debug)]
struct Pages {
    open_value: Arc<OpenValue>,
    /// The address of the string's buffer.
    buffer: *const Vec<u8>,
    length: usize,
    /// The first page that may be pending.
    at: usize,
    /// Pages behind `at` that have been captured early.
    early: BTreeSet<usize>,
    left: usize,
}

// SAFETY: the address of the buffer is only compared with others.
unsafe impl Send for Pages {}

impl Pages {
    fn deliver(&mut self, bytes: &[u8], page: usize) -> usize {
        self.left -= 1;
        let start = page * PAGE_BYTES;
        let bytes = &bytes[start..self.length.min(start + PAGE_BYTES)];
        if !self.open_value.is_aborted() {
            self.open_value.deliver_part(page as u128, Part { bytes: bytes.into(), unpacked_len: 0 });
        }
        bytes.len()
    }

    /// Captures the pages in which these bytes lie.
    fn take(&mut self, bytes: &[u8], touched: Range<usize>) {
        let end = touched.end.min(self.length).div_ceil(PAGE_BYTES);
        for page in (touched.start / PAGE_BYTES).max(self.at)..end {
            if self.early.insert(page) {
                self.deliver(bytes, page);
            }
        }
    }

    /// Captures pages from the first on. Returns true when that was the last.
    fn capture_more(&mut self, bytes: &[u8], budget: &mut Budget) -> bool {
        while self.left > 0 && !budget.is_spent() {
            let page = self.at;
            let copied = if self.early.remove(&page) { 0 } else { self.deliver(bytes, page) };
            self.at += 1;
            self.open_value.reach(page as u128);
            budget.spend(copied);
        }
        if self.left == 0 {
            self.open_value.finish();
        }
        self.left == 0
    }
}

/// The long strings of one table that are open.
#[derive(Debug, Default)]
pub struct Strings(Vec<Pages>);

impl Strings {
    /// Begins the capture: from now on the pages of this buffer are captured before they change.
    pub fn open(&mut self, buffer: &Arc<Vec<u8>>, open_value: &Arc<OpenValue>) {
        self.0.push(Pages {
            open_value: Arc::clone(open_value),
            buffer: Arc::as_ptr(buffer),
            length: buffer.len(),
            at: 0,
            early: BTreeSet::new(),
            left: open_value.parts_len(),
        });
    }

    /// Captures more of this buffer, if it is the opened one, and returns whether it is.
    pub fn capture_more(&mut self, buffer: &Arc<Vec<u8>>, open_value: &Arc<OpenValue>, budget: &mut Budget) -> bool {
        let is_it = |pages: &Pages| pages.buffer == Arc::as_ptr(buffer) && Arc::ptr_eq(&pages.open_value, open_value);
        let Some(at) = self.0.iter().position(is_it) else { return false };
        if self.0[at].capture_more(buffer, budget) {
            self.0.swap_remove(at);
        }
        true
    }

    /// Returns whether no string is open.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Watch for Strings {
    fn change(&mut self, buffer: &Arc<Vec<u8>>, touched: Range<usize>) {
        let Some(at) = self.0.iter().position(|pages| pages.buffer == Arc::as_ptr(buffer)) else { return };
        if Arc::strong_count(buffer) > 1 {
            // The change will be made in a copy, because the buffer has another owner. This buffer stays as it is.
            return self.let_go(buffer);
        }
        self.0[at].take(buffer, touched);
        if self.0[at].left == 0 {
            self.0.swap_remove(at).open_value.finish();
        }
    }

    fn let_go(&mut self, buffer: &Arc<Vec<u8>>) {
        if let Some(at) = self.0.iter().position(|pages| pages.buffer == Arc::as_ptr(buffer)) {
            Rest { pages: Some(self.0.swap_remove(at)), buffer: Arc::clone(buffer) }.give_back();
        }
    }

    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}

/// A string that the store has released.
#[derive(Debug)]
struct Rest {
    /// The pages; none if no page is pending.
    pages: Option<Pages>,
    buffer: Arc<Vec<u8>>,
}

impl Rest {
    /// Gives the pending pages to the snapshot's unfinished copy of the string.
    fn give_back(mut self) {
        if let Some(pages) = self.pages.take() {
            let open_value = Arc::clone(&pages.open_value);
            if open_value.is_aborted() {
                return open_value.finish();
            }
            open_value.adopt(Box::new(Self { pages: Some(pages), buffer: Arc::clone(&self.buffer) }));
        }
    }
}

impl CaptureSource for Rest {
    fn capture_more(&mut self, budget: &mut Budget) {
        self.pages.take_if(|pages| pages.capture_more(&self.buffer, budget));
    }
}

impl Drop for Rest {
    fn drop(&mut self) {
        if self.pages.is_some() {
            Self { pages: self.pages.take(), buffer: Arc::clone(&self.buffer) }.give_back();
        }
    }
}
