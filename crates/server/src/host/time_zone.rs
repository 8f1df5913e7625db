//! The difference between local time and universal time, as the machine or the environment (`TZ`) sets it.
//!
//! The C library reads the rules of the zone once, at its first call. Code that may not call it (the report of a crash, which
//! must take no lock) uses the result of the last call. Any thread.

use std::sync::atomic::{AtomicI64, Ordering};

static LATEST_S: AtomicI64 = AtomicI64::new(0);

/// Returns the seconds to be added to universal time to get local time, at the moment `time_s`, in seconds since 1970.
pub fn offset_s(time_s: i64) -> i64 {
    let time: libc::time_t = time_s;
    // SAFETY: a `tm` consists of plain numbers and a pointer, for all of which zero is a value.
    let mut local: libc::tm = unsafe { std::mem::zeroed() };
    // SAFETY: both point to values of this frame, and the function writes to the second alone.
    let made = unsafe { libc::localtime_r(&raw const time, &raw mut local) };
    // A time beyond the calendar is shown without an offset.
    let offset_s = if made.is_null() { 0 } else { local.tm_gmtoff };
    LATEST_S.store(offset_s, Ordering::Relaxed);
    offset_s
}

/// Returns the last result of [`offset_s`].
pub fn latest_offset_s() -> i64 {
    LATEST_S.load(Ordering::Relaxed)
}
