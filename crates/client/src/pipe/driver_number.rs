//! The numbers of engines in this process. A reply that was answered by its call keeps such a number, which costs nothing,
//! instead of a counted pointer. Any thread.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Weak};

use super::slot::Driver;
use crate::sys::lock::Mutex;

/// The number of an engine's client, never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DriverNumber(u64);

static NEXT: AtomicU64 = AtomicU64::new(1);
static DRIVERS: LazyLock<Mutex<HashMap<u64, Weak<dyn Driver>>>> = LazyLock::new(Mutex::default);

impl DriverNumber {
    /// A number that stands for no driver.
    pub(crate) const NONE: Self = Self(0);

    /// Registers a driver under the next number; [`remove`](DriverNumber::remove) gives the number back.
    #[cfg_attr(not(feature = "embedded"), expect(dead_code, reason = "only engines have numbers"))]
    pub(crate) fn enter(driver: Weak<dyn Driver>) -> Self {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        DRIVERS.lock().insert(number, driver);
        Self(number)
    }

    /// Removes the driver of this number.
    #[cfg_attr(not(feature = "embedded"), expect(dead_code, reason = "only engines have numbers"))]
    pub(crate) fn remove(self) {
        DRIVERS.lock().remove(&self.0);
    }

    /// Returns the driver of this number, if it still exists.
    pub(crate) fn driver(self) -> Option<Arc<dyn Driver>> {
        DRIVERS.lock().get(&self.0).and_then(Weak::upgrade)
    }
}
