//! Rust values as a command's arguments.
//!
//! [`ToArgs`] writes any number of arguments; [`ToArg`] marks the types that always write exactly one, which a key or a value
//! takes. Texts and bytes travel as they are (`request`). This module has the other types: numbers, as Redis writes them,
//! `true` and `false` as 1 and 0, an `Option` as its content or nothing, collections as their elements in turn, maps as keys
//! and values in turn.
//!
//! An iterator is an argument as [`each`]: its elements are written in its place.
//!
//! The module does not serialise structures: that is the program's format, not the protocol's. Pure functions; any thread.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::num::NonZero;

use sleeve_wire::number::{Digits, push_f64};

use crate::error::Error;
use crate::resp::request::{Request, ToArg, ToArgs};

macro_rules! integer_arguments {
    ($($type:ty),*) => { $(
        impl ToArgs for $type {
            #[inline]
            fn write_to(&self, request: &mut Request) {
                match i64::try_from(*self) {
                    Ok(value) => request.bytes(Digits::new(value).as_bytes()),
                    Err(_) => request.bytes(self.to_string().as_bytes()),
                };
            }
        }
        impl ToArg for $type {}
    )* };
}

integer_arguments!(i8, i16, i32, i64, i128, isize, u16, u32, u64, u128, usize);

macro_rules! nonzero_arguments {
    ($($type:ty),*) => { $(
        impl ToArgs for NonZero<$type> {
            #[inline]
            fn write_to(&self, request: &mut Request) {
                self.get().write_to(request);
            }
        }
        impl ToArg for NonZero<$type> {}
    )* };
}

nonzero_arguments!(i8, i16, i32, i64, i128, isize, u8, u16, u32, u64, u128, usize);

macro_rules! written_arguments {
    ($($type:ty),*) => { $(
        impl ToArgs for $type {
            fn write_to(&self, request: &mut Request) {
                request.bytes(self.to_string().as_bytes());
            }
        }
        impl ToArg for $type {}
    )* };
}

written_arguments!(IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6);

impl ToArgs for u8 {
    fn write_to(&self, request: &mut Request) {
        request.bytes(Digits::new(i64::from(*self)).as_bytes());
    }

    fn write_slice(values: &[u8], request: &mut Request) {
        request.bytes(values);
    }
}
impl ToArg for u8 {}

impl ToArgs for f64 {
    fn write_to(&self, request: &mut Request) {
        if self.is_nan() {
            return request.refuse(Error::usage("NaN cannot be sent: no command takes it"));
        }
        let mut text = Vec::with_capacity(24);
        push_f64(&mut text, *self);
        request.bytes(&text);
    }
}
impl ToArg for f64 {}

impl ToArgs for f32 {
    fn write_to(&self, request: &mut Request) {
        if self.is_nan() {
            return request.refuse(Error::usage("NaN cannot be sent: no command takes it"));
        }
        // The shortest text that reads back as this f32, not the many digits of the f64 next to it.
        request.bytes(self.to_string().as_bytes());
    }
}
impl ToArg for f32 {}

impl ToArgs for bool {
    fn write_to(&self, request: &mut Request) {
        request.bytes(if *self { b"1" } else { b"0" });
    }
}
impl ToArg for bool {}

impl ToArgs for char {
    fn write_to(&self, request: &mut Request) {
        request.bytes(self.encode_utf8(&mut [0; 4]).as_bytes());
    }
}
impl ToArg for char {}

impl<T: ToArgs> ToArgs for Option<T> {
    fn write_to(&self, request: &mut Request) {
        if let Some(value) = self {
            value.write_to(request);
        }
    }
}

impl<T: ToArgs> ToArgs for [T] {
    #[inline]
    fn write_to(&self, request: &mut Request) {
        T::write_slice(self, request);
    }
}
impl ToArg for [u8] {}

impl<T: ToArgs, const N: usize> ToArgs for [T; N] {
    #[inline]
    fn write_to(&self, request: &mut Request) {
        T::write_slice(self, request);
    }
}
impl<const N: usize> ToArg for [u8; N] {}

impl<T: ToArgs> ToArgs for Vec<T> {
    #[inline]
    fn write_to(&self, request: &mut Request) {
        T::write_slice(self, request);
    }
}
impl ToArg for Vec<u8> {}

impl<T: ToArgs> ToArgs for Box<[T]> {
    fn write_to(&self, request: &mut Request) {
        T::write_slice(self, request);
    }
}
impl ToArg for Box<[u8]> {}

impl<T: ToArgs> ToArgs for VecDeque<T> {
    /// Writes the elements, each as one argument. (The bytes of a `Vec` are one argument together, but a queue of bytes is no
    /// string.)
    fn write_to(&self, request: &mut Request) {
        for value in self {
            value.write_to(request);
        }
    }
}

impl<T: ToArgs> ToArgs for BTreeSet<T> {
    fn write_to(&self, request: &mut Request) {
        for value in self {
            value.write_to(request);
        }
    }
}

impl<T: ToArgs, S> ToArgs for HashSet<T, S> {
    fn write_to(&self, request: &mut Request) {
        for value in self {
            value.write_to(request);
        }
    }
}

impl<K: ToArgs, V: ToArgs> ToArgs for BTreeMap<K, V> {
    fn write_to(&self, request: &mut Request) {
        for (key, value) in self {
            key.write_to(request);
            value.write_to(request);
        }
    }
}

impl<K: ToArgs, V: ToArgs, S> ToArgs for HashMap<K, V, S> {
    fn write_to(&self, request: &mut Request) {
        for (key, value) in self {
            key.write_to(request);
            value.write_to(request);
        }
    }
}

macro_rules! tuple_arguments {
    ($(($($name:ident),*))*) => { $(
        impl<$($name: ToArgs),*> ToArgs for ($($name,)*) {
            #[allow(non_snake_case)]
            fn write_to(&self, request: &mut Request) {
                let ($($name,)*) = self;
                $($name.write_to(request);)*
            }
        }
    )* };
}

tuple_arguments! {
    (A) (A, B) (A, B, C) (A, B, C, D) (A, B, C, D, E) (A, B, C, D, E, F) (A, B, C, D, E, F, G) (A, B, C, D, E, F, G, H)
    (A, B, C, D, E, F, G, H, I) (A, B, C, D, E, F, G, H, I, J) (A, B, C, D, E, F, G, H, I, J, K)
    (A, B, C, D, E, F, G, H, I, J, K, L)
}

impl ToArgs for () {
    fn write_to(&self, _request: &mut Request) {}
}

/// The elements of an iterator, as arguments in turn: see [`each`].
#[derive(Clone, Debug)]
pub struct Each<I>(I);

/// Creates arguments from an iterator's elements, without a collection in between.
///
/// The iterator is cloned when it is read, so it must be `Clone`: ranges and mapped or filtered slices are.
pub fn each<I: IntoIterator + Clone>(values: I) -> Each<I>
where
    I::Item: ToArgs,
{
    Each(values)
}

impl<I: IntoIterator + Clone> ToArgs for Each<I>
where
    I::Item: ToArgs,
{
    fn write_to(&self, request: &mut Request) {
        for value in self.0.clone() {
            value.write_to(request);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(value: impl ToArgs) -> Vec<String> {
        let text =
            Request::with(|r| _ = r.word("X").arg(value), |request| String::from_utf8(request.bytes.to_vec()).unwrap());
        text.unwrap().split("\r\n").skip(4).step_by(2).map(str::to_owned).filter(|part| !part.is_empty()).collect()
    }

    #[test]
    fn values_become_arguments() {
        assert_eq!(arguments("a"), ["a"]);
        assert_eq!(arguments(b"bytes"), ["bytes"]);
        assert_eq!(arguments(vec![104u8, 105]), ["hi"]);
        assert_eq!(arguments(-12i8), ["-12"]);
        assert_eq!(arguments(u64::MAX), ["18446744073709551615"]);
        assert_eq!(arguments(1.5), ["1.5"]);
        assert_eq!(arguments(0.1f32), ["0.1"]);
        assert_eq!(arguments(true), ["1"]);
        assert_eq!(arguments(["a", "b"]), ["a", "b"]);
        assert_eq!(arguments([("a", 1), ("b", 2)]), ["a", "1", "b", "2"]);
        assert_eq!(arguments(BTreeMap::from([("k", "v")])), ["k", "v"]);
        assert_eq!(arguments((Some("x"), None::<&str>, 'c')), ["x", "c"]);
        assert_eq!(arguments(NonZero::<u64>::MAX), ["18446744073709551615"]);
        assert_eq!(arguments(i128::MIN), ["-170141183460469231731687303715884105728"]);
        assert_eq!(arguments(SocketAddr::from((Ipv6Addr::LOCALHOST, 80))), ["[::1]:80"]);
        assert_eq!(arguments(VecDeque::from([1, 2])), ["1", "2"]);
        assert_eq!(arguments((1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, "last")).len(), 12);
        assert_eq!(arguments(each([1, 2, 3].iter().filter(|value| **value != 2))), ["1", "3"]);
    }

    #[test]
    fn not_a_number_is_refused() {
        assert!(Request::with(|r| _ = r.word("X").arg(f64::NAN), |_| ()).is_err());
    }
}
