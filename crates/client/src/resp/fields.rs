//! Conversion of structs from replies that have their fields by name, or in a row, and back into arguments.
//!
//! The code that the derives (`sleeve-derive`) write for a type calls the functions here, so that it is short. The search for
//! a field begins behind the field that was found before, which is its place in a server's reply; names that the struct does
//! not have are skipped. Pure functions; any thread.

use sleeve_wire::frame::{Frame, Items};

use super::decode::{FromReply, described, element, elements, mismatch};
use crate::error::{Error, ErrorKind};
use crate::resp::request::{Request, ToArg, ToArgs};

/// A struct with named fields, as `#[derive(FromReply)]` makes it.
///
/// Replies have the fields by name: HGETALL in both protocols, an entry of a stream, CONFIG GET. A field that the struct does
/// not have is skipped. A field that it has must be in the reply, unless its type is an `Option` or it has
/// `#[sleeve(default)]`. A hash that is missing is `None` for an `Option` of the struct. Errors name the struct and the
/// field.
///
/// In addition to structs, the derives take tuple structs of one field (`struct UserId(u64)`), which travel as that field,
/// and enums of words; with `#[derive(ToArg)]` both are one argument: a key, a member, a value.
pub trait Fields: Sized {
    /// The struct's name, for errors.
    #[doc(hidden)]
    const STRUCTURE: &'static str;

    /// The names of the fields in replies and arguments, in the order of the struct.
    const NAMES: &'static [&'static str];

    /// Reads the struct from the fields that were found.
    #[doc(hidden)]
    fn from_found(found: &Found<'_>) -> Result<Self, Error>;
}

/// A struct from a reply that has its fields in a row, without their names: HMGET of [`Fields::NAMES`].
///
/// A field that is nil is missing. An `Option` of the struct is `None` if all fields are nil, as they are for a key that is
/// missing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Row<T>(pub T);

impl<T: Fields> FromReply for Row<T> {
    fn from_reply(frame: Frame<'_>) -> Result<Self, Error> {
        let mut found = Found::nothing::<T>();
        let items = within(T::STRUCTURE, elements(frame, "an array of its fields"))?;
        if items.len() != T::NAMES.len() {
            let (name, wanted, count) = (T::STRUCTURE, T::NAMES.len(), items.len());
            return Err(Error::conversion(format!("{name}: expected {wanted} fields in a row, got {count}")));
        }
        for (value, item) in found.values.iter_mut().zip(items) {
            *value = Some(element(item)?).filter(|frame| *frame != Frame::Null);
        }
        T::from_found(&found).map(Self)
    }

    fn is_absent(frame: &Frame<'_>) -> bool {
        match frame {
            Frame::Array(items) => !items.is_empty() && items.clone().all(|item| item == Ok(Frame::Null)),
            other => *other == Frame::Null,
        }
    }
}

/// The fields of a struct as far as a reply has them.
#[derive(Debug)]
pub struct Found<'a> {
    structure: &'static str,
    names: &'static [&'static str],
    values: Vec<Option<Frame<'a>>>,
}

impl<'a> Found<'a> {
    fn nothing<T: Fields>() -> Self {
        Self { structure: T::STRUCTURE, names: T::NAMES, values: vec![None; T::NAMES.len()] }
    }

    /// Enters the value of the field with this name. The search begins at `place`; returns the place where the next search
    /// begins.
    fn enter(&mut self, name: Frame<'a>, value: Frame<'a>, place: usize) -> Result<usize, Error> {
        let (Frame::Bulk(name) | Frame::Simple(name) | Frame::Verbatim { text: name, .. }) = name else {
            return within(self.structure, Err(mismatch("the name of a field", &name)));
        };
        let is_it = |place: &usize| self.names.get(*place).is_some_and(|known| known.as_bytes() == name);
        let Some(place) = (place..self.names.len()).chain(0..place).find(is_it) else { return Ok(place) };
        if let Some(field) = self.values.get_mut(place) {
            *field = Some(value).filter(|frame| *frame != Frame::Null);
        }
        Ok(place + 1)
    }

    /// Reads a field that must be in the reply, unless its type allows that it is missing.
    pub fn required<T: FromReply>(&self, field: usize) -> Result<T, Error> {
        match self.values.get(field).copied().flatten() {
            Some(frame) => self.of(field, T::from_reply(frame)),
            None => T::missing().ok_or_else(|| {
                let why = "it is missing (make it an Option, or say #[sleeve(default)])";
                Error::conversion(format!("{}.{}: {why}", self.structure, self.name(field)))
            }),
        }
    }

    /// Reads a field that may be missing.
    pub fn or_default<T: FromReply + Default>(&self, field: usize) -> Result<T, Error> {
        match self.values.get(field).copied().flatten() {
            Some(frame) => self.of(field, T::from_reply(frame)),
            None => Ok(T::default()),
        }
    }

    fn name(&self, field: usize) -> &'static str {
        self.names.get(field).copied().unwrap_or_default()
    }

    /// Adds the name of the field to an error.
    fn of<T>(&self, field: usize, read: Result<T, Error>) -> Result<T, Error> {
        read.map_err(|error| named(error, format_args!("{}.{}", self.structure, self.name(field))))
    }
}

/// Reads a struct from a reply that has its fields by name: a map, a flat array of names and values, or one of pairs.
pub fn by_name<T: Fields>(frame: Frame<'_>) -> Result<T, Error> {
    let mut found = Found::nothing::<T>();
    let mut items = within(T::STRUCTURE, elements(frame, "a map of its fields"))?;
    let is_flat = matches!(frame, Frame::Map(_))
        || !matches!(items.clone().next(), Some(Ok(Frame::Array(first))) if first.len() == 2);
    let mut place = 0;
    while let Some(item) = items.next() {
        let (name, value) = match (element(item)?, is_flat) {
            (name, true) => (name, next::<T>(&mut items)?),
            (Frame::Array(mut pair), false) if pair.len() == 2 => (next::<T>(&mut pair)?, next::<T>(&mut pair)?),
            (other, false) => return within(T::STRUCTURE, Err(mismatch("a field's name and value", &other))),
        };
        place = found.enter(name, value, place)?;
    }
    if is_nothing(&frame) {
        let name = T::STRUCTURE;
        return T::from_found(&found).map_err(|_| {
            let why = "there are no fields, as for a key that is missing";
            Error::conversion(format!("{name}: {why} (ask for an Option<{name}> to allow it)"))
        });
    }
    T::from_found(&found)
}

fn next<'a, T: Fields>(items: &mut Items<'a>) -> Result<Frame<'a>, Error> {
    match items.next() {
        Some(item) => element(item),
        None => Err(Error::conversion(format!("{}: the last of its fields has a name and no value", T::STRUCTURE))),
    }
}

/// Returns whether a reply has no fields at all.
pub fn is_nothing(frame: &Frame<'_>) -> bool {
    match frame {
        Frame::Null => true,
        Frame::Array(items) | Frame::Map(items) | Frame::Set(items) => items.is_empty(),
        _ => false,
    }
}

/// Adds the name of the type to an error.
pub fn within<T>(structure: &str, read: Result<T, Error>) -> Result<T, Error> {
    read.map_err(|error| named(error, format_args!("{structure}")))
}

/// Returns an error of a conversion with the place in front of its message; other errors name their subject themselves.
#[cold]
fn named(error: Error, place: std::fmt::Arguments<'_>) -> Error {
    match error.kind() {
        ErrorKind::Conversion => Error::conversion(format!("{place}: {}", error.message())),
        _ => error,
    }
}

/// Reads a value that must be one of these words.
pub fn word<T, const N: usize>(
    structure: &str,
    names: &[&str; N],
    values: [T; N],
    frame: Frame<'_>,
) -> Result<T, Error> {
    if let Frame::Bulk(text) | Frame::Simple(text) | Frame::Verbatim { text, .. } = frame
        && let Some((_, value)) = names.iter().zip(values).find(|(name, _)| name.as_bytes() == text)
    {
        return Ok(value);
    }
    let known = names.map(|name| format!("{name:?}")).join(", ");
    match frame {
        Frame::Error(_) | Frame::Null => Err(mismatch(structure, &frame)),
        other => Err(Error::conversion(format!("{structure}: expected one of {known}, got {}", described(&other)))),
    }
}

/// Writes a field as its name and its one value; writes nothing if it has no value.
pub fn write_field(request: &mut Request, structure: &str, name: &str, value: &(impl ToArgs + ?Sized)) {
    let count = request.named(name, value);
    if count > 1 {
        let why = "a field has one value; JSON holds several";
        request.refuse(Error::usage(format!("{structure}.{name}: it would be {count} values, and {why}")));
    }
}

/// Writes a value as exactly one argument.
pub fn write_one(request: &mut Request, value: &(impl ToArg + ?Sized)) {
    value.write_to(request);
}
