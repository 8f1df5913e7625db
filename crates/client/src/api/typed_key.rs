//! Names of keys that know the type of their values.
//!
//! Such a name is written once in a program, and every value that is read or written by it has the right type everywhere. It
//! sends through any place that it is given, and keeps nothing but the name. Any thread.

use std::borrow::{Borrow, Cow};
use std::fmt;
use std::marker::PhantomData;

use crate::commands;
use crate::commands::ask::Ask;
use crate::reply::Reply;
use crate::request::{Request, ToArg, ToArgs};
use crate::values::decode::FromReply;
use crate::values::options::SetOptions;

/// The name of a key that has a `T` as its value, or the common prefix of the names of many such keys.
///
/// It reads and writes through anything that commands are sent through: a client, a database, a batch, a near cache. As an
/// argument of any other command it is its name.
///
/// ```
/// # #[cfg(all(feature = "embedded", feature = "serde"))] {
/// use serde::{Deserialize, Serialize};
/// use sleeve::{Client, Json, Key, prelude::*};
///
/// #[derive(Serialize, Deserialize, Debug, PartialEq)]
/// struct User {
///     name: String,
/// }
///
/// const USERS: Key<Json<User>> = Key::new("user:");
/// const VISITS: Key<u64> = Key::new("visits");
///
/// let client = Client::embedded();
/// let ann = USERS.of(7); // the key "user:7"
/// ann.set(&client, Json(User { name: "Ann".into() })).wait()?;
/// let Json(user) = ann.get(&client).wait()?.expect("it was set");
/// assert_eq!(user.name, "Ann");
/// assert!(ann.del(&client).wait()?);
/// assert_eq!(ann.get(&client).wait()?, None);
///
/// VISITS.set(&client, 41).wait()?;
/// client.incr(VISITS).wait()?;
/// assert_eq!(VISITS.get(&client.cached()?).wait()?, Some(42));
/// # }
/// # Ok::<(), sleeve::Error>(())
/// ```
pub struct Key<T> {
    name: Cow<'static, str>,
    value: PhantomData<fn(T) -> T>,
}

impl<T> Key<T> {
    /// Returns the key of this name, or the keys with names that begin so.
    pub const fn new(name: &'static str) -> Self {
        Self { name: Cow::Borrowed(name), value: PhantomData }
    }

    /// Returns the key with this appended to its name.
    pub fn of(&self, part: impl fmt::Display) -> Self {
        Self::from(format!("{}{part}", self.name))
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Deletes it; answers whether it was there.
    pub fn del(&self, place: &impl Ask) -> Reply<bool> {
        place.ask(|request| commands::write!(request, "DEL", self))
    }

    /// Returns whether it is there.
    pub fn exists(&self, place: &impl Ask) -> Reply<bool> {
        place.ask(|request| commands::write!(request, "EXISTS", self))
    }
}

impl<T: FromReply> Key<T> {
    /// Its value, or none where it is not there.
    pub fn get(&self, place: &impl Ask) -> Reply<Option<T>> {
        place.ask(|request| commands::write!(request, "GET", self))
    }
}

impl<T: ToArg> Key<T> {
    /// Sets its value, a `T` or a reference to one, and takes any time to live away.
    pub fn set(&self, place: &impl Ask, value: impl Borrow<T>) -> Reply<()> {
        place.ask(|request| commands::write!(request, "SET", self, value.borrow()))
    }

    /// Sets its value as told; answers whether it did.
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
