//! A hash: fields with their values, as a small table of its own.

use crate::body::{Body, Form};
use crate::handle::EntryRef;
use crate::hash::HashKey;
use crate::object::{Collection, Object};
use crate::table::{Placement, Table};
use crate::value::{Encoding, Kind, Value, ValueRef};

/// The value of a key of type hash.
#[derive(Clone)]
pub struct Map {
    table: Box<Table>,
}

/// A [`Map`] to be read.
#[derive(Clone, Copy)]
pub struct MapRef<'a> {
    table: &'a Table,
}

impl Collection for Map {
    const KIND: Kind = Kind::Hash;

    type Ref<'a> = MapRef<'a>;

    fn new(hash_key: HashKey) -> Self {
        Self { table: Box::new(Table::new(Placement { hash_key, shard_bits: 0 })) }
    }

    fn is_empty(&self) -> bool {
        self.table.len() == 0
    }

    fn packed(&self) -> Option<(Form, &[u8])> {
        None
    }

    fn from_packed(hash_key: HashKey, _form: Form, _bytes: Vec<u8>) -> Self {
        Self::new(hash_key)
    }

    fn into_buffer(self) -> Option<Vec<u8>> {
        None
    }

    fn view(_form: Form, _bytes: &[u8]) -> Option<MapRef<'_>> {
        None
    }

    fn as_ref(&self) -> MapRef<'_> {
        MapRef { table: &self.table }
    }

    fn encoding(&self) -> Encoding {
        Encoding::Hashtable
    }

    fn memory(&self) -> usize {
        size_of::<Table>() + self.table.memory()
    }

    fn into_object(self) -> Object {
        Object::Hash(self)
    }

    fn of(object: &Object) -> Option<&Self> {
        match object {
            Object::Hash(map) => Some(map),
            _ => None,
        }
    }

    fn of_mut(object: &mut Object) -> Option<&mut Self> {
        match object {
            Object::Hash(map) => Some(map),
            _ => None,
        }
    }
}

impl Map {
    /// Sets a field; whether it is new.
    pub fn set(&mut self, field: &[u8], value: &[u8]) -> bool {
        let position = self.table.position(field);
        if let Some(mut entry) = self.table.find_mut(position, field) {
            drop(entry.set_value(&Value::Plain(value)));
            return false;
        }
        self.table.insert(position, field, Body::new(&Value::Plain(value)), None, 0);
        true
    }

    /// Removes a field; whether it was there.
    pub fn remove(&mut self, field: &[u8]) -> bool {
        let position = self.table.position(field);
        self.table.discard(position, field)
    }
}

impl<'a> MapRef<'a> {
    /// The number of fields.
    pub fn len(self) -> usize {
        self.table.len()
    }

    /// Whether there is no field.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// The value of a field.
    pub fn get(self, field: &[u8]) -> Option<ValueRef<'a>> {
        self.table.find(self.table.position(field), field).map(|entry| entry.value())
    }

    /// Shows all fields with their values, in no particular order.
    pub fn for_each(self, mut show: impl FnMut(&'a [u8], ValueRef<'a>)) {
        self.table.for_each(|entry: EntryRef<'a>| show(entry.key(), entry.value()));
    }
}
