//! The subcommands that describe the cluster as this node sees it.

use sleeve_cluster::ClusterState;
use sleeve_cluster::admin;
use sleeve_cluster::report::{self, EndpointReport, MemberReport, Viewer};
use sleeve_wire::reply::Writer;

use super::enabled;
use crate::context::Cx;
use crate::engine::cluster::host::{ServerHost, time};
use crate::request::Request;
use crate::request::error::{Error, Outcome};

/// Makes a report from the locked state.
fn report<T>(cx: &mut Cx<'_>, make: impl FnOnce(&ClusterState, Viewer<'_>) -> T) -> Result<T, Error> {
    let cluster = enabled(cx.engine)?;
    let is_plain = !cx.state.client.socket.is_tls;
    let host = ServerHost::new(cx.engine, &mut cx.locks, cx.dice, cx.now);
    let state = cluster.state.lock();
    Ok(make(&state, Viewer { now: time(cx.now), host: &host, is_plain }))
}

/// CLUSTER MYID
pub fn my_id(cx: &mut Cx<'_>) -> Outcome {
    let id = report(cx, |state, _| state.id())?;
    cx.reply().bulk(&id.digits());
    Ok(())
}

/// CLUSTER MYSHARDID
pub fn my_shard_id(cx: &mut Cx<'_>) -> Outcome {
    let shard = report(cx, |state, _| state.myself().shard)?;
    cx.reply().bulk(&shard.digits());
    Ok(())
}

/// CLUSTER NODES
pub fn nodes(cx: &mut Cx<'_>) -> Outcome {
    let text = report(cx, report::nodes)?;
    cx.reply().verbatim(b"txt", text.as_bytes());
    Ok(())
}

/// CLUSTER REPLICAS and SLAVES node-id
pub fn replicas(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let name = request.arg(2);
    let lines = report(cx, |state, viewer| {
        let node = admin::find(state, name).ok_or_else(|| Error::naming("ERR Unknown node {}", &[name]))?;
        if node.is_replica() {
            return Err(Error::fixed("ERR The specified node is not a master"));
        }
        Ok(report::replicas(state, node.id, viewer))
    })??;
    let mut reply = cx.reply();
    reply.array(lines.len());
    lines.iter().for_each(|line| reply.bulk(line.as_bytes()));
    Ok(())
}

/// CLUSTER INFO
pub fn info(cx: &mut Cx<'_>) -> Outcome {
    let closed_links = enabled(cx.engine)?.gauges.closed();
    let text = report(cx, |state, _| report::info(state, closed_links))?;
    cx.reply().verbatim(b"txt", text.as_bytes());
    Ok(())
}

/// CLUSTER SLOTS
pub fn slots(cx: &mut Cx<'_>) -> Outcome {
    let ranges = report(cx, report::slots)?;
    let mut reply = cx.reply();
    reply.array(ranges.len());
    for range in ranges {
        reply.array(2 + range.nodes.len());
        reply.integer(i64::from(range.first));
        reply.integer(i64::from(range.last));
        range.nodes.iter().for_each(|node| write_endpoint(&mut reply, node));
    }
    Ok(())
}

fn write_endpoint(reply: &mut Writer<'_>, node: &EndpointReport) {
    reply.array(4);
    reply.bulk_or_null(node.endpoint.as_deref().map(str::as_bytes));
    reply.integer(i64::from(node.port));
    reply.bulk(&node.id.digits());
    let more = [("ip", &node.ip), ("hostname", &node.hostname)];
    reply.map(more.iter().filter(|(_, value)| value.is_some()).count());
    for (name, value) in more {
        if let Some(value) = value {
            write_pair(reply, name, value);
        }
    }
}

/// CLUSTER SHARDS
pub fn shards(cx: &mut Cx<'_>) -> Outcome {
    let shards = report(cx, report::shards)?;
    let mut reply = cx.reply();
    reply.array(shards.len());
    for shard in shards {
        reply.map(2);
        reply.bulk(b"slots");
        reply.array(2 * shard.ranges.len());
        for (first, last) in shard.ranges {
            reply.integer(i64::from(first));
            reply.integer(i64::from(last));
        }
        reply.bulk(b"nodes");
        reply.array(shard.members.len());
        shard.members.iter().for_each(|member| write_member(&mut reply, member));
    }
    Ok(())
}

fn write_member(reply: &mut Writer<'_>, member: &MemberReport) {
    let ports = [("port", member.port), ("tls-port", member.tls_port)];
    let ports = ports.iter().filter(|(_, port)| *port != 0);
    let has_name = !member.hostname.is_empty();
    reply.map(6 + ports.clone().count() + usize::from(has_name));
    write_pair(reply, "id", &member.id.to_string());
    for (name, port) in ports {
        reply.bulk(name.as_bytes());
        reply.integer(i64::from(*port));
    }
    write_pair(reply, "ip", &member.ip);
    write_pair(reply, "endpoint", &member.endpoint);
    if has_name {
        write_pair(reply, "hostname", &member.hostname);
    }
    write_pair(reply, "role", if member.is_replica { "replica" } else { "master" });
    reply.bulk(b"replication-offset");
    reply.integer(member.offset as i64);
    write_pair(reply, "health", member.health.word());
}

fn write_pair(reply: &mut Writer<'_>, name: &str, value: &str) {
    reply.bulk(name.as_bytes());
    reply.bulk(value.as_bytes());
}

/// CLUSTER LINKS
pub fn links(cx: &mut Cx<'_>) -> Outcome {
    let links = report(cx, |state, _| report::links(state))?;
    let queues = enabled(cx.engine)?.gauges.queues();
    let mut reply = cx.reply();
    reply.array(links.len());
    for link in links {
        let queue = queues.get(&link.link).copied().unwrap_or_default();
        reply.map(6);
        write_pair(&mut reply, "direction", link.direction.word());
        write_pair(&mut reply, "node", &link.node.to_string());
        reply.bulk(b"create-time");
        reply.integer(link.opened_unix_ms as i64);
        write_pair(&mut reply, "events", if queue.used_bytes > 0 { "rw" } else { "r" });
        reply.bulk(b"send-buffer-allocated");
        reply.integer(queue.allocated_bytes as i64);
        reply.bulk(b"send-buffer-used");
        reply.integer(queue.used_bytes as i64);
    }
    Ok(())
}
