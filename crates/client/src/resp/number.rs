//! The numbers that a command takes, whole or with a fraction: an increment, a radius, a degree.
//!
//! A parameter of type [`ToArg`] would take a text by mistake, and one of type `f64` would refuse `15`. Any thread.

use crate::resp::request::ToArg;

/// A number that may have a fraction: any of Rust's types of numbers.
///
/// ```
/// # #[cfg(feature = "embedded")] {
/// use sleeve::{Client, prelude::*};
///
/// let client = Client::embedded();
/// assert_eq!(client.zincrby("scores", 15, "ann").wait()?, 15.0);
/// assert_eq!(client.zincrby("scores", 0.5, "ann").wait()?, 15.5);
/// # }
/// # Ok::<(), sleeve::Error>(())
/// ```
#[diagnostic::on_unimplemented(message = "`{Self}` is no number: this argument takes any integer, f32 or f64")]
pub trait Number: ToArg + sealed::Sealed {
    /// Returns the nearest double.
    #[doc(hidden)]
    fn to_f64(self) -> f64;
}

mod sealed {
    /// A seal: only this file defines the number types.
    pub trait Sealed {}
}

macro_rules! numbers {
    ($($type:ty),*) => { $(
        impl sealed::Sealed for $type {}
        impl Number for $type {
            fn to_f64(self) -> f64 {
                self as f64
            }
        }
    )* };
}

numbers!(i8, i16, i32, i64, i128, isize, u8, u16, u32, u64, u128, usize, f32, f64);
