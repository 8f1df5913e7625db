//! Bytes of the bus to packets. The bytes are foreign: every length is judged before it is used, and nothing is allocated in
//! proportion to a length that is only stated.

use super::layout::{
    EXTENSION_BYTES, EXTENSIONS_BYTES_MAX, FULL_BYTES, GOSSIP_BYTES, IP_BYTES, LIGHT_BIT, LIGHT_BYTES,
    MESSAGE_LENGTHS_BYTES, MESSAGE_PACKET_BYTES_MAX, MODULE_BYTES, PORT_BYTES, SECRET_BYTES, SIGNATURE, UNUSED_BYTES,
    UPDATE_BYTES, VERSION, extension, message_flag,
};
use super::{Body, Extension, Gossip, Header, Heartbeat, HeartbeatKind, Malformed, Message, Packet, PacketType};
use crate::id::NodeId;
use crate::node::NodeFlags;
use crate::slots::SlotSet;

/// Returns the length of the packet that begins with these bytes. None if more bytes are needed to know it; 16 always
/// suffice. The length is one that a packet of this type may have, so a caller that waits for so many bytes waits for a
/// bounded number.
///
/// # Errors
/// No packet begins with these bytes.
pub fn frame_length(head: &[u8]) -> Result<Option<usize>, Malformed> {
    if !SIGNATURE.iter().zip(head).all(|(wanted, byte)| wanted == byte) {
        return Err(Malformed::Signature);
    }
    let Some(mut fields) = head.get(SIGNATURE.len()..LIGHT_BYTES).map(Fields) else { return Ok(None) };
    let stated = fields.u32("header")? as usize;
    let version = fields.u16("header")?;
    let _port = fields.u16("header")?;
    let kind = fields.u16("header")?;
    let count = fields.u16("header")?;
    if version != VERSION {
        return Err(Malformed::Version(version));
    }
    let (least, most) = bounds(kind, count)?;
    if (least..=most).contains(&stated) { Ok(Some(stated)) } else { Err(Malformed::Length { kind, stated }) }
}

/// Returns the least and the greatest length of a packet of this type with so many entries of gossip.
fn bounds(kind: u16, count: u16) -> Result<(usize, usize), Malformed> {
    if kind & LIGHT_BIT != 0 {
        return match PacketType::of_code(kind & !LIGHT_BIT) {
            Some(PacketType::Publish | PacketType::PublishShard) => {
                Ok((LIGHT_BYTES + MESSAGE_LENGTHS_BYTES, MESSAGE_PACKET_BYTES_MAX))
            }
            _ => Err(Malformed::LightType(kind)),
        };
    }
    Ok(match PacketType::of_code(kind) {
        Some(PacketType::Ping | PacketType::Pong | PacketType::Meet) => {
            let least = FULL_BYTES + GOSSIP_BYTES * usize::from(count);
            (least, least + EXTENSIONS_BYTES_MAX)
        }
        Some(PacketType::Fail) => (FULL_BYTES + NodeId::DIGITS, FULL_BYTES + NodeId::DIGITS),
        Some(PacketType::VoteRequest | PacketType::Vote | PacketType::ManualFailover) => (FULL_BYTES, FULL_BYTES),
        Some(PacketType::Update) => (FULL_BYTES + UPDATE_BYTES, FULL_BYTES + UPDATE_BYTES),
        Some(PacketType::Publish | PacketType::PublishShard) => {
            (FULL_BYTES + MESSAGE_LENGTHS_BYTES, MESSAGE_PACKET_BYTES_MAX)
        }
        Some(PacketType::Module) => (FULL_BYTES + MODULE_BYTES, MESSAGE_PACKET_BYTES_MAX),
        None => (FULL_BYTES, FULL_BYTES + EXTENSIONS_BYTES_MAX),
    })
}

/// Returns the packet of these bytes, which are one whole packet.
///
/// # Errors
/// The first fault that is found.
pub fn decode(frame: &[u8]) -> Result<Packet, Malformed> {
    match frame_length(frame)? {
        Some(length) if length == frame.len() => {}
        Some(_) => return Err(Malformed::Part("bytes")),
        None => return Err(Malformed::Part("header")),
    }
    let mut fields = Fields(frame);
    fields.take(12, "header")?;
    let kind = fields.u16("header")?;
    if kind & LIGHT_BIT != 0 {
        fields.u16("header")?;
        let is_sharded = kind & !LIGHT_BIT == PacketType::PublishShard.code();
        return Ok(Packet::Light(message(fields, is_sharded)?));
    }
    let mut fields = Fields(frame);
    let (header, parts) = header(&mut fields)?;
    let body = body(fields, kind, &parts, &header)?;
    Ok(Packet::Full { header: Box::new(header), body })
}

/// The numbers of a header that only the reading of its body needs.
struct Parts {
    gossip: u16,
    extensions: u16,
}

fn header(fields: &mut Fields<'_>) -> Result<(Header, Parts), Malformed> {
    const PART: &str = "header";
    fields.take(10, PART)?;
    let port = fields.u16(PART)?;
    fields.u16(PART)?;
    let gossip = fields.u16(PART)?;
    let current_epoch = fields.u64(PART)?;
    let config_epoch = fields.u64(PART)?;
    let offset = fields.u64(PART)?;
    let sender = fields.id("sender")?;
    let slots = SlotSet::of_bytes(fields.array(PART)?);
    let primary = fields.array::<{ NodeId::DIGITS }>(PART)?;
    let primary = match primary.iter().all(|byte| *byte == 0) {
        true => None,
        false => Some(NodeId::parse(primary).ok_or(Malformed::Id("primary"))?),
    };
    let ip = text(fields.take(IP_BYTES, PART)?, "IP address")?;
    let extensions = fields.u16(PART)?;
    fields.take(UNUSED_BYTES, PART)?;
    let other_port = fields.u16(PART)?;
    let bus_port = fields.u16(PART)?;
    let flags = NodeFlags(fields.u16(PART)?);
    let [state, bits, _, _] = *fields.array(PART)?;
    let has = |bit: u8| bits & bit != 0;
    let reads_extensions = has(message_flag::EXTENSIONS);
    let header = Header {
        sender,
        flags,
        current_epoch,
        config_epoch,
        offset,
        slots,
        primary,
        ip,
        port,
        other_port,
        bus_port,
        is_cluster_ok: state == 0,
        is_paused: has(message_flag::PAUSED),
        is_forced: has(message_flag::FORCED),
        reads_extensions,
    };
    Ok((header, Parts { gossip, extensions: if reads_extensions { extensions } else { 0 } }))
}

fn body(mut fields: Fields<'_>, kind: u16, parts: &Parts, header: &Header) -> Result<Body, Malformed> {
    let body = match PacketType::of_code(kind) {
        Some(PacketType::Ping) => return heartbeat(fields, HeartbeatKind::Ping, parts, header),
        Some(PacketType::Pong) => return heartbeat(fields, HeartbeatKind::Pong, parts, header),
        Some(PacketType::Meet) => return heartbeat(fields, HeartbeatKind::Meet, parts, header),
        Some(PacketType::Publish) => return message(fields, false).map(Body::Publish),
        Some(PacketType::PublishShard) => return message(fields, true).map(Body::Publish),
        Some(PacketType::Fail) => Body::Fail(fields.id("failed node")?),
        Some(PacketType::VoteRequest) => Body::VoteRequest,
        Some(PacketType::Vote) => Body::Vote,
        Some(PacketType::ManualFailover) => Body::ManualFailover,
        Some(PacketType::Update) => {
            let config_epoch = fields.u64("update")?;
            let node = fields.id("owner of the update")?;
            Body::Update { node, config_epoch, slots: SlotSet::of_bytes(fields.array("update")?) }
        }
        Some(PacketType::Module) => {
            fields.take(8, "module")?;
            let length = fields.u32("module")? as usize;
            fields.take(1, "module")?;
            fields.take(length, "module")?;
            Body::Module
        }
        None => return Ok(Body::Unknown(kind)),
    };
    fields.end("body")?;
    Ok(body)
}

fn heartbeat(mut fields: Fields<'_>, kind: HeartbeatKind, parts: &Parts, header: &Header) -> Result<Body, Malformed> {
    // The bounds of the length have shown that all entries are there.
    let gossip = (0..parts.gossip).map(|_| gossip(&mut fields)).collect::<Result<_, _>>()?;
    let extensions: Vec<Extension> = (0..parts.extensions).map(|_| extension(&mut fields)).collect::<Result<_, _>>()?;
    fields.end("extensions")?;
    let forgets_sender =
        |extension: &Extension| matches!(extension, Extension::Forgotten { node, .. } if *node == header.sender);
    if extensions.iter().any(forgets_sender) {
        return Err(Malformed::ForgetsSender);
    }
    Ok(Body::Heartbeat(Heartbeat { kind, gossip, extensions }))
}

fn gossip(fields: &mut Fields<'_>) -> Result<Gossip, Malformed> {
    const PART: &str = "gossip";
    let mut entry = Fields(fields.take(GOSSIP_BYTES, PART)?);
    Ok(Gossip {
        node: entry.id("node of the gossip")?,
        ping_sent_s: entry.u32(PART)?,
        pong_s: entry.u32(PART)?,
        ip: text(entry.take(IP_BYTES, PART)?, "IP address of the gossip")?,
        port: entry.u16(PART)?,
        bus_port: entry.u16(PART)?,
        flags: NodeFlags(entry.u16(PART)?),
        other_port: entry.u16(PART)?,
    })
}

fn extension(fields: &mut Fields<'_>) -> Result<Extension, Malformed> {
    const PART: &str = "extension";
    let stated = fields.u32(PART)?;
    let kind = fields.u16(PART)?;
    fields.u16(PART)?;
    let wrong = Malformed::Extension { kind, stated };
    let length =
        (stated as usize).checked_sub(EXTENSION_BYTES).filter(|length| length.is_multiple_of(8)).ok_or(wrong)?;
    let content = fields.take(length, PART)?;
    let id = |field| NodeId::parse(content).ok_or(Malformed::Id(field));
    Ok(match kind {
        extension::HOSTNAME => Extension::Hostname(text(content, "host name")?),
        extension::HUMAN_NAME => Extension::HumanName(text(content, "name for people")?),
        extension::FORGOTTEN => {
            let mut content = Fields(content);
            let node = content.id("forgotten node")?;
            let ttl_s = content.u64(PART)?;
            content.end(PART).map_err(|_| wrong)?;
            Extension::Forgotten { node, ttl_s }
        }
        extension::SHARD => Extension::Shard(id("shard")?),
        extension::CLIENT_IPV4 if length >= SECRET_BYTES => Extension::Unknown(kind),
        extension::CLIENT_IPV4 => Extension::ClientIpv4(text(content, "IPv4 address for clients")?),
        extension::CLIENT_IPV6 => Extension::ClientIpv6(text(content, "IPv6 address for clients")?),
        extension::CLIENT_PORT | extension::CLIENT_TLS_PORT if length != PORT_BYTES => return Err(wrong),
        extension::CLIENT_PORT => Extension::ClientPort(Fields(content).u16(PART)?),
        extension::CLIENT_TLS_PORT => Extension::ClientTlsPort(Fields(content).u16(PART)?),
        _ => Extension::Unknown(kind),
    })
}

fn message(mut fields: Fields<'_>, is_sharded: bool) -> Result<Message, Malformed> {
    const PART: &str = "message";
    let channel_bytes = fields.u32(PART)? as usize;
    let message_bytes = fields.u32(PART)? as usize;
    let channel = fields.take(channel_bytes, PART)?;
    let message = fields.take(message_bytes, PART)?;
    fields.end(PART)?;
    Ok(Message { channel: channel.to_vec(), message: message.to_vec(), is_sharded })
}

/// Returns the text in front of the first zero byte of a field. A text names a node in nodes.conf and in replies, so it has
/// no byte that would end a field or a line there.
fn text(field: &[u8], name: &'static str) -> Result<String, Malformed> {
    let end = field.iter().position(|byte| *byte == 0).ok_or(Malformed::Text(name))?;
    let text = field.get(..end).and_then(|text| std::str::from_utf8(text).ok()).ok_or(Malformed::Text(name))?;
    let breaks_a_field = |letter: char| letter.is_whitespace() || letter.is_control() || ",=\"'\\".contains(letter);
    if text.contains(breaks_a_field) { Err(Malformed::Text(name)) } else { Ok(text.to_owned()) }
}

/// The bytes of a packet that are not read yet.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn take(&mut self, count: usize, part: &'static str) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(Malformed::Part(part))?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self, part: &'static str) -> Result<&'a [u8; N], Malformed> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(Malformed::Part(part))?;
        self.0 = rest;
        Ok(taken)
    }

    fn u16(&mut self, part: &'static str) -> Result<u16, Malformed> {
        self.array(part).copied().map(u16::from_be_bytes)
    }

    fn u32(&mut self, part: &'static str) -> Result<u32, Malformed> {
        self.array(part).copied().map(u32::from_be_bytes)
    }

    fn u64(&mut self, part: &'static str) -> Result<u64, Malformed> {
        self.array(part).copied().map(u64::from_be_bytes)
    }

    fn id(&mut self, field: &'static str) -> Result<NodeId, Malformed> {
        NodeId::parse(self.array::<{ NodeId::DIGITS }>(field)?).ok_or(Malformed::Id(field))
    }

    fn end(&self, part: &'static str) -> Result<(), Malformed> {
        if self.0.is_empty() { Ok(()) } else { Err(Malformed::Part(part)) }
    }
}
