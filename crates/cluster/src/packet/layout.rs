//! The layout of packets, which both directions share: lengths in bytes, codes and bits. All numbers are big-endian.
//!
//! The full header, by offsets: signature 0, length 4, version 8, port 10, type 12, count 14, current epoch 16, configuration
//! epoch 24, replication offset 32, sender 40, slots 80, primary 2,128, IP address 2,168, number of extensions 2,214, unused
//! 2,216, other port 2,246, bus port 2,248, flags 2,250, state 2,252, message flags 2,253, body 2,256. The light header is the
//! first 16 bytes of it, in which port and count are unused.

/// The bytes that every packet begins with.
pub(super) const SIGNATURE: &[u8; 4] = b"RCmb";

/// The version of the protocol.
pub(super) const VERSION: u16 = 1;

/// The bytes of the light header, and of the part that both headers begin with.
pub(super) const LIGHT_BYTES: usize = 16;

/// The bytes of the full header.
pub(super) const FULL_BYTES: usize = 2_256;

/// The bytes of the unused part of the full header.
pub(super) const UNUSED_BYTES: usize = 30;

/// The bit of the type that marks a light header.
pub(super) const LIGHT_BIT: u16 = 0x8000;

/// The bytes of an IP address as text, with at least one zero byte behind it.
pub(super) const IP_BYTES: usize = 46;

/// The bytes of an entry of the gossip.
pub(super) const GOSSIP_BYTES: usize = 104;

/// The bytes of the body of an UPDATE: epoch, id and slots.
pub(super) const UPDATE_BYTES: usize = 8 + 40 + 2_048;

/// The bytes of the two lengths in front of a channel and its message.
pub(super) const MESSAGE_LENGTHS_BYTES: usize = 8;

/// The bytes in front of the payload of a module's message: its id, its length and its type.
pub(super) const MODULE_BYTES: usize = 8 + 4 + 1;

/// The bytes in front of the content of an extension: its length, its type and an unused number.
pub(super) const EXTENSION_BYTES: usize = 8;

/// The most bytes of the extensions of one packet: more than a thousand forgotten nodes.
pub(super) const EXTENSIONS_BYTES_MAX: usize = 128 << 10;

/// The most bytes of a packet with a message: a channel and a message of the greatest default length, 512 MiB each.
pub(super) const MESSAGE_PACKET_BYTES_MAX: usize = 1 << 30;

/// The types of extensions. Type 4 has two meanings, which their lengths tell apart.
pub(super) mod extension {
    pub(in super::super) const HOSTNAME: u16 = 0;
    pub(in super::super) const HUMAN_NAME: u16 = 1;
    pub(in super::super) const FORGOTTEN: u16 = 2;
    pub(in super::super) const SHARD: u16 = 3;
    /// In Valkey the IPv4 address for clients. In Redis 8 a secret of 40 bytes that its nodes share.
    pub(in super::super) const CLIENT_IPV4: u16 = 4;
    pub(in super::super) const CLIENT_IPV6: u16 = 5;
    pub(in super::super) const CLIENT_PORT: u16 = 6;
    pub(in super::super) const CLIENT_TLS_PORT: u16 = 7;
}

/// The bytes of a port in an extension: the number, and 6 bytes that are 0.
pub(super) const PORT_BYTES: usize = 8;

/// The bytes of the secret in the extension of type 4 of Redis 8: more than any IPv4 address has. A longer one is no address.
pub(super) const SECRET_BYTES: usize = 40;

/// The bits of the first message flag.
pub(super) mod message_flag {
    /// The sender, a primary, has paused its writes.
    pub(in super::super) const PAUSED: u8 = 1;
    /// The vote is to be given although the primary works.
    pub(in super::super) const FORCED: u8 = 2;
    /// The packet may have extensions, and its sender reads them.
    pub(in super::super) const EXTENSIONS: u8 = 4;
}
