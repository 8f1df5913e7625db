//! A value in the shape in which an entry keeps it: the step between [`Value`] and the bytes of a block.
//!
//! This file decides which strings become integers, which values lie in the entry itself, and which get a buffer of their
//! own. The layout is `entry`'s business. Plain data.

use std::sync::Arc;

use crate::value::collection::{Collection, Object};
use crate::value::form::{Form, PACKED_INLINE_MAX};
use crate::value::{Value, parse_integer};

/// The longest string, in bytes, that is kept in the entry itself.
pub const INLINE_MAX: usize = 4096;

/// A value in the shape in which it will be stored.
pub(crate) enum Body<'a> {
    Integer(i64),
    Whole(&'a [u8]),
    Edited(&'a [u8]),
    Zeros(usize),
    Shared(Arc<Vec<u8>>),
    Object(Object),
    /// A collection of at most [`PACKED_INLINE_MAX`] bytes in one of the packed forms.
    Packed(Form, &'a [u8]),
    /// The key is a member of a set and has no value.
    Member,
    /// The bits of a score: the key is a member of a sorted set.
    Scored(i64),
}

impl<'a> Body<'a> {
    /// Decides how `value` is stored. Always inline, because the caller knows the kind of the value.
    #[inline(always)]
    pub fn new(value: &'a Value<'_>) -> Self {
        match value {
            Value::Plain(bytes) => match parse_integer(bytes) {
                Some(number) => Self::Integer(number),
                None => Self::whole(bytes),
            },
            Value::Integer(number) => Self::Integer(*number),
            Value::Bytes(bytes) => Self::whole(bytes),
            Value::Raw(bytes) if bytes.len() <= INLINE_MAX => Self::Edited(bytes),
            Value::Raw(bytes) => Self::Shared(Arc::new(bytes.to_vec())),
            Value::Zeros(length) if *length <= INLINE_MAX => Self::Zeros(*length),
            Value::Zeros(length) => Self::Shared(Arc::new(vec![0; *length])),
            Value::Shared(buffer) if buffer.len() <= INLINE_MAX => Self::Whole(buffer),
            Value::Shared(buffer) => Self::Shared(Arc::clone(buffer)),
        }
    }

    fn whole(bytes: &'a [u8]) -> Self {
        if bytes.len() <= INLINE_MAX { Self::Whole(bytes) } else { Self::Shared(Arc::new(bytes.to_vec())) }
    }

    /// Returns a collection as a body if it may lie in an entry; otherwise none.
    pub fn inline<C: Collection>(collection: &'a C) -> Option<Self> {
        let (form, bytes) = collection.packed()?;
        (bytes.len() <= PACKED_INLINE_MAX).then_some(Self::Packed(form, bytes))
    }

    /// Returns the form of the tail.
    pub fn form(&self) -> Form {
        match self {
            Self::Integer(_) => Form::Integer,
            Self::Whole(_) => Form::Whole,
            Self::Edited(_) | Self::Zeros(_) => Form::Edited,
            Self::Shared(_) => Form::Shared,
            Self::Object(_) => Form::Object,
            Self::Packed(form, _) => *form,
            Self::Member => Form::Member,
            Self::Scored(_) => Form::Scored,
        }
    }

    /// Returns the number of bytes of the tail.
    #[inline]
    pub fn tail_len(&self) -> usize {
        match self {
            Self::Integer(_) | Self::Scored(_) | Self::Shared(_) | Self::Object(_) => 8,
            Self::Whole(bytes) | Self::Edited(bytes) | Self::Packed(_, bytes) => bytes.len(),
            Self::Zeros(length) => *length,
            Self::Member => 0,
        }
    }
}
