//! Engines in this process by number: a reply that was answered by its call keeps a number, which costs nothing, and not a
//! counted pointer. Any thread.

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
    /// The number of no driver.
    pub(crate) const NONE: Self = Self(0);

    /// Takes the next number, for this driver; to be given back with [`remove`](DriverNumber::remove).
    #[cfg_attr(not(feature = "embedded"), expect(dead_code, reason = "only engines have numbers"))]
    pub(crate) fn enter(driver: Weak<dyn Driver>) -> Self {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        DRIVERS.lock().insert(number, driver);
        Self(number)
    }

    /// Its driver is no more.
    #[cfg_attr(not(feature = "embedded"), expect(dead_code, reason = "only engines have numbers"))]
    pub(crate) fn remove(self) {
        DRIVERS.lock().remove(&self.0);
    }

    /// Its driver, if that is still there.
    pub(crate) fn driver(self) -> Option<Arc<dyn Driver>> {
        DRIVERS.lock().get(&self.0).and_then(Weak::upgrade)
    }
}
