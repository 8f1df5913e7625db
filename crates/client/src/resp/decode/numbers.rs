//! Numbers from replies, each in the range of its type.
//!
//! A number arrives as a number or as its text. A number that a type cannot hold exactly is an error that names the type, its
//! range and the received value: nothing is cut, wrapped or rounded in silence. Fractions are the exception: `f32` and `f64`
//! hold the nearest value.
//!
//! Pure functions; any thread.

use std::num::NonZero;

use sleeve_wire::frame::{Frame, parse_double, parse_integer};

use super::{FromReply, mismatch, owned, string, text};
use crate::error::Error;

impl FromReply for i64 {
    #[inline]
    fn from_reply(frame: Frame<'_>) -> Result<Self, Error> {
        match frame {
            Frame::Integer(value) => Ok(value),
            Frame::Boolean(value) => Ok(i64::from(value)),
            Frame::Bulk(text) | Frame::Simple(text) | Frame::BigNumber(text) => {
                parse_integer(text).ok_or_else(|| wide::<Self>(&frame))
            }
            other => Err(mismatch("an integer", &other)),
        }
    }
}

/// Reads an integer that may be too large for `i64`.
fn parsed<T: std::str::FromStr>(frame: Frame<'_>) -> Option<T> {
    match frame {
        Frame::Bulk(text) | Frame::Simple(text) | Frame::BigNumber(text) => {
            std::str::from_utf8(text).ok()?.parse().ok()
        }
        _ => None,
    }
}

/// A type of integers, as errors name it.
trait Integer: std::fmt::Display {
    const NAME: &'static str;
    const LEAST: Self;
    const MOST: Self;
}

/// Returns the error for a number that this type cannot hold.
#[cold]
fn beyond<T: Integer>(value: impl std::fmt::Display) -> Error {
    Error::conversion(format!("expected {}, an integer from {} to {}, got {value}", T::NAME, T::LEAST, T::MOST))
}

/// Returns the error for a text that is no integer, or an integer that this type cannot hold.
#[cold]
fn wide<T: Integer>(frame: &Frame<'_>) -> Error {
    match *frame {
        Frame::Bulk(text) | Frame::Simple(text) | Frame::BigNumber(text) if is_integer(text) => {
            beyond::<T>(String::from_utf8_lossy(text.get(..40).unwrap_or(text)))
        }
        other => mismatch("an integer", &other),
    }
}

fn is_integer(text: &[u8]) -> bool {
    let digits = text.strip_prefix(b"-").or_else(|| text.strip_prefix(b"+")).unwrap_or(text);
    !digits.is_empty() && digits.iter().all(u8::is_ascii_digit)
}

macro_rules! integers {
    ($($type:ident),*) => { $(
        impl Integer for $type {
            const NAME: &'static str = stringify!($type);
            const LEAST: Self = Self::MIN;
            const MOST: Self = Self::MAX;
        }

        impl FromReply for NonZero<$type> {
            fn from_reply(frame: Frame<'_>) -> Result<Self, Error> {
                let value = $type::from_reply(frame)?;
                Self::new(value).ok_or_else(|| {
                    let name = concat!("NonZero<", stringify!($type), ">");
                    Error::conversion(format!("expected {name}, an integer that is not zero, got 0"))
                })
            }
        }
    )* };
}

integers!(i8, i16, i32, i64, i128, isize, u8, u16, u32, u64, u128, usize);

/// Implements decoding for types that hold less than an `i64`, or do so on some machines.
macro_rules! narrow {
    ($($type:ident),*) => { $(
        impl FromReply for $type {
            fn from_reply(frame: Frame<'_>) -> Result<Self, Error> {
                narrow(frame)
            }
        }
    )* };
}

/// Reads an integer by way of an `i64`.
fn narrow<T: Integer + TryFrom<i64>>(frame: Frame<'_>) -> Result<T, Error> {
    let value = i64::from_reply(frame).map_err(|error| narrower::<T>(&frame, error))?;
    T::try_from(value).map_err(|_| beyond::<T>(value))
}

/// Returns an error of decoding an `i64` in terms of the type that the caller asked for: a number beyond an `i64` is beyond
/// that type, too.
#[cold]
fn narrower<T: Integer>(frame: &Frame<'_>, error: Error) -> Error {
    match frame {
        Frame::Bulk(_) | Frame::Simple(_) | Frame::BigNumber(_) => wide::<T>(frame),
        _ => error,
    }
}

narrow!(i8, i16, i32, isize, u16, u32);

/// Implements decoding for types that hold numbers that an `i64` does not.
macro_rules! wide {
    ($($type:ident),*) => { $(
        impl FromReply for $type {
            fn from_reply(frame: Frame<'_>) -> Result<Self, Error> {
                parsed(frame).map_or_else(|| narrow(frame), Ok)
            }
        }
    )* };
}

wide!(i128, u64, u128, usize);

impl FromReply for u8 {
    fn from_reply(frame: Frame<'_>) -> Result<Self, Error> {
        narrow(frame)
    }

    fn several_from_owned(reply: Box<[u8]>) -> Result<Vec<Self>, Error> {
        owned::text(reply).or_else(|reply| string(owned::whole(&reply)?))
    }

    #[inline]
    fn several_from_reply(frame: Frame<'_>) -> Result<Vec<Self>, Error> {
        string(frame)
    }
}

impl FromReply for f64 {
    fn from_reply(frame: Frame<'_>) -> Result<Self, Error> {
        match frame {
            Frame::Integer(value) if (value as f64) as i128 == i128::from(value) => Ok(value as f64),
            Frame::Integer(value) => Err(inexact("f64", f64::MANTISSA_DIGITS, value)),
            other => parse_double(text(other, "a number")?).ok_or_else(|| mismatch("a number", &other)),
        }
    }
}

impl FromReply for f32 {
    /// Reads a fraction as the nearest `f32`.
    fn from_reply(frame: Frame<'_>) -> Result<Self, Error> {
        match frame {
            Frame::Integer(value) if (value as f32) as i128 == i128::from(value) => Ok(value as f32),
            Frame::Integer(value) => Err(inexact("f32", f32::MANTISSA_DIGITS, value)),
            other => {
                let value = f64::from_reply(other)?;
                let nearest = value as f32;
                if value.is_finite() && nearest.is_infinite() {
                    let (least, most) = (Self::MIN, Self::MAX);
                    return Err(Error::conversion(format!(
                        "expected f32, a number from {least:e} to {most:e}, got {value:e}"
                    )));
                }
                Ok(nearest)
            }
        }
    }
}

#[cold]
fn inexact(name: &str, digits: u32, value: i64) -> Error {
    let most = 1i64 << digits;
    Error::conversion(format!("expected {name}, which holds all integers from -{most} to {most}, got {value}"))
}

#[cfg(test)]
mod tests {
    use super::super::tests::read;
    use super::*;

    fn message<T: FromReply + std::fmt::Debug>(bytes: &[u8]) -> String {
        read::<T>(bytes).expect_err("no such number").message().to_owned()
    }

    #[test]
    fn a_number_keeps_its_value_in_every_type_that_holds_it() {
        let most = u128::MAX.to_string();
        let bulk = format!("${}\r\n{most}\r\n", most.len());
        assert_eq!(read::<u128>(bulk.as_bytes()), Ok(u128::MAX));
        assert_eq!(read::<i128>(b"(-170141183460469231731687303715884105728\r\n"), Ok(i128::MIN));
        assert_eq!(read::<u64>(b"$20\r\n18446744073709551615\r\n"), Ok(u64::MAX));
        assert_eq!(read::<usize>(b"(18446744073709551615\r\n"), Ok(usize::MAX));
        assert_eq!(read::<NonZero<u8>>(b":7\r\n"), Ok(NonZero::new(7).unwrap()));
        assert_eq!(read::<f64>(b":9007199254740992\r\n"), Ok(9_007_199_254_740_992.0));
        assert_eq!(read::<f64>(b":-9223372036854775808\r\n"), Ok(i64::MIN as f64));
        assert_eq!(read::<f32>(b"$3\r\n0.1\r\n"), Ok(0.1));
        assert_eq!(read::<f32>(b",inf\r\n"), Ok(f32::INFINITY));
    }

    #[test]
    fn what_a_type_cannot_hold_names_the_type_the_value_and_the_range() {
        assert_eq!(message::<u8>(b":300\r\n"), "expected u8, an integer from 0 to 255, got 300");
        assert_eq!(message::<u64>(b":-1\r\n"), "expected u64, an integer from 0 to 18446744073709551615, got -1");
        let beyond = message::<i32>(b"$20\r\n18446744073709551615\r\n");
        assert_eq!(beyond, "expected i32, an integer from -2147483648 to 2147483647, got 18446744073709551615");
        let beyond = message::<i64>(b"$19\r\n9223372036854775808\r\n");
        let range = "an integer from -9223372036854775808 to 9223372036854775807";
        assert_eq!(beyond, format!("expected i64, {range}, got 9223372036854775808"));
        let zero = message::<NonZero<u32>>(b":0\r\n");
        assert_eq!(zero, "expected NonZero<u32>, an integer that is not zero, got 0");
        let rounded = message::<f64>(b":9007199254740993\r\n");
        let range = "which holds all integers from -9007199254740992 to 9007199254740992";
        assert_eq!(rounded, format!("expected f64, {range}, got 9007199254740993"));
        assert!(message::<f64>(b":9223372036854775807\r\n").starts_with("expected f64"));
        let large = message::<f32>(b"$5\r\n1e300\r\n");
        assert_eq!(large, "expected f32, a number from -3.4028235e38 to 3.4028235e38, got 1e300");
        assert_eq!(message::<u16>(b"$3\r\nabc\r\n"), "expected an integer, got the string \"abc\"");
        let nothing = message::<NonZero<u8>>(b"_\r\n");
        assert_eq!(nothing, "expected an integer, got nil (ask for an Option to allow it)");
    }
}
