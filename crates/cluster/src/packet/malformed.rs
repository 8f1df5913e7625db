//! The faults of a packet.

use std::fmt;

/// The fault for which a packet is refused. It names the field that is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Malformed {
    /// The packet does not begin with `RCmb`.
    Signature,
    /// The version of the protocol is not 1.
    Version(u16),
    /// A light header, and a type that has none.
    LightType(u16),
    /// The header states a length that no packet of its type has, or that differs from the length of the packet.
    Length {
        /// The type, as in the packet.
        kind: u16,
        /// The length that the header states, in bytes.
        stated: usize,
    },
    /// This part reaches beyond the packet, or leaves bytes over.
    Part(&'static str),
    /// An extension of this type has a length that is not allowed: not a multiple of 8, or not that of its content.
    Extension {
        /// The type, as in the packet.
        kind: u16,
        /// The length that the extension states, in bytes.
        stated: u32,
    },
    /// This field is no id of 40 lowercase hexadecimal digits.
    Id(&'static str),
    /// This field is a text without its zero byte, or with a byte that nodes.conf could not hold.
    Text(&'static str),
    /// An extension asks to forget the sender of the packet.
    ForgetsSender,
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Signature => write!(f, "the packet does not begin with RCmb"),
            Self::Version(version) => write!(f, "the packet has version {version} of the protocol, not 1"),
            Self::LightType(kind) => write!(f, "a packet of type {kind:#x} has no light header"),
            Self::Length { kind, stated } => write!(f, "a packet of type {kind:#x} cannot have {stated} bytes"),
            Self::Part(part) => write!(f, "the length of the packet does not fit its {part}"),
            Self::Extension { kind, stated } => write!(f, "an extension of type {kind} cannot have {stated} bytes"),
            Self::Id(field) => write!(f, "the {field} is no id"),
            Self::Text(field) => write!(f, "the {field} is no text of a node"),
            Self::ForgetsSender => write!(f, "the packet asks to forget its sender"),
        }
    }
}

impl std::error::Error for Malformed {}
