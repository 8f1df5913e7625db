//! Packets to bytes of the bus.

use super::layout::{
    self, EXTENSION_BYTES, FULL_BYTES, GOSSIP_BYTES, IP_BYTES, LIGHT_BIT, LIGHT_BYTES, MESSAGE_LENGTHS_BYTES,
    SIGNATURE, UNUSED_BYTES, UPDATE_BYTES, VERSION, extension, message_flag,
};
use super::{Body, Extension, Gossip, Header, Heartbeat, Message, Packet, PacketType};
use crate::id::NodeId;

/// The place of the length in a packet.
const LENGTH_AT: std::ops::Range<usize> = 4..8;

impl Packet {
    /// Returns the bytes of the packet. Texts that are too long for their field are cut.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.size_hint());
        match self {
            Self::Full { header, body } => {
                push_header(&mut out, header, body);
                push_body(&mut out, body);
            }
            Self::Light(message) => {
                push_start(&mut out, message_type(message).code() | LIGHT_BIT, 0, 0);
                push_message(&mut out, message);
            }
        }
        let length = u32::try_from(out.len()).unwrap_or(u32::MAX);
        if let Some(field) = out.get_mut(LENGTH_AT) {
            field.copy_from_slice(&length.to_be_bytes());
        }
        out
    }

    /// Returns the type. None for a type of a later version.
    pub fn kind(&self) -> Option<PacketType> {
        match self {
            Self::Full { body, .. } => PacketType::of_code(code(body)),
            Self::Light(message) => Some(message_type(message)),
        }
    }

    fn size_hint(&self) -> usize {
        let of_message = |message: &Message| MESSAGE_LENGTHS_BYTES + message.channel.len() + message.message.len();
        match self {
            Self::Light(message) => LIGHT_BYTES + of_message(message),
            Self::Full { body, .. } => {
                FULL_BYTES
                    + match body {
                        Body::Heartbeat(heartbeat) => {
                            heartbeat.gossip.len() * GOSSIP_BYTES + heartbeat.extensions.len() * 64
                        }
                        Body::Publish(message) => of_message(message),
                        Body::Update { .. } => UPDATE_BYTES,
                        _ => NodeId::DIGITS,
                    }
            }
        }
    }
}

fn message_type(message: &Message) -> PacketType {
    if message.is_sharded { PacketType::PublishShard } else { PacketType::Publish }
}

fn code(body: &Body) -> u16 {
    match body {
        Body::Heartbeat(heartbeat) => PacketType::from(heartbeat.kind).code(),
        Body::Fail(_) => PacketType::Fail.code(),
        Body::Publish(message) => message_type(message).code(),
        Body::VoteRequest => PacketType::VoteRequest.code(),
        Body::Vote => PacketType::Vote.code(),
        Body::Update { .. } => PacketType::Update.code(),
        Body::ManualFailover => PacketType::ManualFailover.code(),
        Body::Module => PacketType::Module.code(),
        Body::Unknown(code) => *code,
    }
}

/// Appends the part that both headers begin with. The length is filled in at the end.
fn push_start(out: &mut Vec<u8>, code: u16, port: u16, count: u16) {
    out.extend_from_slice(SIGNATURE);
    push_u32(out, 0);
    push_u16(out, VERSION);
    push_u16(out, port);
    push_u16(out, code);
    push_u16(out, count);
}

fn push_header(out: &mut Vec<u8>, header: &Header, body: &Body) {
    let (gossip, extensions) = match body {
        Body::Heartbeat(heartbeat) => (count(&heartbeat.gossip), count(&heartbeat.extensions)),
        _ => (0, 0),
    };
    push_start(out, code(body), header.port, gossip);
    push_u64(out, header.current_epoch);
    push_u64(out, header.config_epoch);
    push_u64(out, header.offset);
    out.extend_from_slice(&header.sender.digits());
    out.extend_from_slice(header.slots.bytes());
    out.extend_from_slice(&header.primary.map_or([0; NodeId::DIGITS], NodeId::digits));
    push_ip(out, &header.ip);
    push_u16(out, extensions);
    out.extend_from_slice(&[0; UNUSED_BYTES]);
    push_u16(out, header.other_port);
    push_u16(out, header.bus_port);
    push_u16(out, header.flags.0);
    let bit = |is_set: bool, bit: u8| if is_set { bit } else { 0 };
    let bits = bit(header.is_paused, message_flag::PAUSED)
        | bit(header.is_forced, message_flag::FORCED)
        | bit(header.reads_extensions || extensions != 0, message_flag::EXTENSIONS);
    out.extend_from_slice(&[u8::from(!header.is_cluster_ok), bits, 0, 0]);
}

fn push_body(out: &mut Vec<u8>, body: &Body) {
    match body {
        Body::Heartbeat(heartbeat) => push_heartbeat(out, heartbeat),
        Body::Fail(node) => out.extend_from_slice(&node.digits()),
        Body::Publish(message) => push_message(out, message),
        Body::Update { node, config_epoch, slots } => {
            push_u64(out, *config_epoch);
            out.extend_from_slice(&node.digits());
            out.extend_from_slice(slots.bytes());
        }
        Body::Module => out.extend_from_slice(&[0; layout::MODULE_BYTES]),
        Body::VoteRequest | Body::Vote | Body::ManualFailover | Body::Unknown(_) => {}
    }
}

/// Returns the number of entries that a packet can state, which is 65,535 at most.
fn count<T>(entries: &[T]) -> u16 {
    u16::try_from(entries.len()).unwrap_or(u16::MAX)
}

fn push_heartbeat(out: &mut Vec<u8>, heartbeat: &Heartbeat) {
    for entry in heartbeat.gossip.iter().take(usize::from(u16::MAX)) {
        push_gossip(out, entry);
    }
    for extension in heartbeat.extensions.iter().take(usize::from(u16::MAX)) {
        push_extension(out, extension);
    }
}

fn push_gossip(out: &mut Vec<u8>, entry: &Gossip) {
    out.extend_from_slice(&entry.node.digits());
    push_u32(out, entry.ping_sent_s);
    push_u32(out, entry.pong_s);
    push_ip(out, &entry.ip);
    push_u16(out, entry.port);
    push_u16(out, entry.bus_port);
    push_u16(out, entry.flags.0);
    push_u16(out, entry.other_port);
    push_u16(out, 0);
}

fn push_extension(out: &mut Vec<u8>, of: &Extension) {
    match of {
        Extension::Hostname(name) => push_text(out, extension::HOSTNAME, name),
        Extension::HumanName(name) => push_text(out, extension::HUMAN_NAME, name),
        Extension::Forgotten { node, ttl_s } => {
            push_extension_start(out, extension::FORGOTTEN, NodeId::DIGITS + 8);
            out.extend_from_slice(&node.digits());
            push_u64(out, *ttl_s);
        }
        Extension::Shard(id) => {
            push_extension_start(out, extension::SHARD, NodeId::DIGITS);
            out.extend_from_slice(&id.digits());
        }
        Extension::ClientIpv4(ip) => push_text(out, extension::CLIENT_IPV4, ip),
        Extension::ClientIpv6(ip) => push_text(out, extension::CLIENT_IPV6, ip),
        Extension::ClientPort(port) => push_port(out, extension::CLIENT_PORT, *port),
        Extension::ClientTlsPort(port) => push_port(out, extension::CLIENT_TLS_PORT, *port),
        Extension::Unknown(kind) => {
            // Its content is not kept. That of type 4 keeps the length by which it is not an address.
            let room = if *kind == extension::CLIENT_IPV4 { layout::SECRET_BYTES } else { 0 };
            push_extension_start(out, *kind, room);
            out.resize(out.len() + room, 0);
        }
    }
}

/// Appends an extension that is a text with at least one zero byte behind it, filled up to a multiple of 8 bytes.
fn push_text(out: &mut Vec<u8>, kind: u16, text: &str) {
    let room = (text.len() + 1).next_multiple_of(8);
    push_extension_start(out, kind, room);
    let end = out.len() + room;
    out.extend_from_slice(text.as_bytes());
    out.resize(end, 0);
}

fn push_port(out: &mut Vec<u8>, kind: u16, port: u16) {
    push_extension_start(out, kind, layout::PORT_BYTES);
    push_u64(out, u64::from(port) << 48);
}

fn push_extension_start(out: &mut Vec<u8>, kind: u16, content_bytes: usize) {
    push_u32(out, u32::try_from(EXTENSION_BYTES + content_bytes).unwrap_or(u32::MAX));
    push_u16(out, kind);
    push_u16(out, 0);
}

fn push_message(out: &mut Vec<u8>, message: &Message) {
    for part in [&message.channel, &message.message] {
        push_u32(out, u32::try_from(part.len()).unwrap_or(u32::MAX));
    }
    out.extend_from_slice(&message.channel);
    out.extend_from_slice(&message.message);
}

fn push_ip(out: &mut Vec<u8>, ip: &str) {
    let mut field = [0; IP_BYTES];
    field.iter_mut().take(IP_BYTES - 1).zip(ip.bytes()).for_each(|(byte, letter)| *byte = letter);
    out.extend_from_slice(&field);
}

fn push_u16(out: &mut Vec<u8>, number: u16) {
    out.extend_from_slice(&number.to_be_bytes());
}

fn push_u32(out: &mut Vec<u8>, number: u32) {
    out.extend_from_slice(&number.to_be_bytes());
}

fn push_u64(out: &mut Vec<u8>, number: u64) {
    out.extend_from_slice(&number.to_be_bytes());
}
