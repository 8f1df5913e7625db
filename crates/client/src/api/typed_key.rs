//! Names of keys that know the type of their values.
//!
//! Such a name is written once in a program, and every value that is read or written by it has the right type everywhere. It
//! sends through any handle that it is given, and keeps nothing but the name. Any thread.

use std::borrow::{Borrow, Cow};
use std::fmt;
use std::marker::PhantomData;

use crate::commands;
use crate::commands::ask::Ask;
use crate::reply::Reply;
use crate::resp::decode::FromReply;
use crate::resp::options::SetOptions;
use crate::resp::request::{Request, ToArg, ToArgs};

/// The name of a key that has a `T` as its value, or the common prefix of the names of many such keys.
///
/// It reads and writes through any handle on which commands are sent: a client, a database, a batch, a near cache. As an
/// argument of any other command it is its name.
pub struct Key<T> {
    name: Cow<'static, str>,
    value: PhantomData<fn(T) -> T>,
}

impl<T> Key<T> {
    /// Returns the key of this name, or the prefix of the names of many keys.
    pub const fn new(name: &'static str) -> Self {
        Self { name: Cow::Borrowed(name), value: PhantomData }
    }

    /// Returns the key with this part appended to its name.
    pub fn of(&self, part: impl fmt::Display) -> Self {
        Self::from(format!("{}{part}", self.name))
    }

    /// Returns the name of the key.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Deletes the key; the answer is whether it existed.
    pub fn del(&self, place: &impl Ask) -> Reply<bool> {
        place.ask(|request| commands::write!(request, "DEL", self))
    }

    /// Returns whether the key exists.
    pub fn exists(&self, place: &impl Ask) -> Reply<bool> {
        place.ask(|request| commands::write!(request, "EXISTS", self))
    }
}

impl<T: FromReply> Key<T> {
    /// Returns the value; none if the key does not exist.
    pub fn get(&self, place: &impl Ask) -> Reply<Option<T>> {
        place.ask(|request| commands::write!(request, "GET", self))
    }
}

impl<T: ToArg> Key<T> {
    /// Sets the value, a `T` or a reference to one, and removes the key's time to live, if it has one.
    pub fn set(&self, place: &impl Ask, value: impl Borrow<T>) -> Reply<()> {
        place.ask(|request| commands::write!(request, "SET", self, value.borrow()))
    }

    /// Sets the value with options; the answer is whether it was set.
    pub fn set_with(&self, place: &impl Ask, value: impl Borrow<T>, options: SetOptions) -> Reply<bool> {
        place.ask(|request| commands::write!(request, "SET", self, value.borrow(), options))
    }
}

impl<T> From<String> for Key<T> {
    fn from(name: String) -> Self {
        Self { name: Cow::Owned(name), value: PhantomData }
    }
}

impl<T> ToArgs for Key<T> {
    fn write_to(&self, request: &mut Request) {
        request.bytes(self.name.as_bytes());
    }
}
impl<T> ToArg for Key<T> {}

impl<T> Clone for Key<T> {
    fn clone(&self) -> Self {
        Self { name: self.name.clone(), value: PhantomData }
    }
}

impl<T> PartialEq for Key<T> {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl<T> Eq for Key<T> {}

impl<T> fmt::Display for Key<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl<T> fmt::Debug for Key<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Key").field(&self.name).finish()
    }
}
