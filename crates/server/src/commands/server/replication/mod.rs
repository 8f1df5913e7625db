//! ROLE, WAIT, WAITAOF, REPLICAOF and FAILOVER.
//!
//! This server is a primary, or a replica of another server; REPLICAOF changes its role.

pub mod replica;

use sleeve_wire::number;

use crate::commands::block_timeout;
use crate::config::Opt;
use crate::context::Cx;
use crate::engine::clients::blocking::{Block, OnTimeout};
use crate::engine::replication::WaitCondition;
use crate::engine::replication::failover::Order;
use crate::engine::replication::primary;
use crate::engine::replication::role::{Address, LinkState};
use crate::engine::replication::role_change;
use crate::host::log;
use crate::request::Request;
use crate::request::error::{Error, Outcome};

/// ROLE
pub fn role(cx: &mut Cx<'_>) -> Outcome {
    let offset = cx.engine.journal.end() as i64;
    if let Some(link) = cx.engine.replication.role.link() {
        let mut reply = cx.reply();
        reply.array(5);
        reply.bulk(b"slave");
        reply.bulk(link.primary.host.as_bytes());
        reply.integer(i64::from(link.primary.port));
        reply.bulk(link.state.word().as_bytes());
        reply.integer(if link.state == LinkState::Connected { offset } else { -1 });
        return Ok(());
    }
    let mut replicas = cx.engine.replication.replicas.all();
    replicas.retain(|replica| replica.is_online());
    let mut reply = cx.reply();
    reply.array(3);
    reply.bulk(b"master");
    reply.integer(offset);
    reply.array(replicas.len());
    for replica in replicas {
        reply.array(3);
        reply.bulk(replica.address().as_bytes());
        reply.bulk_integer(i64::from(replica.told.lock().port));
        reply.bulk_integer(replica.acked() as i64);
    }
    Ok(())
}

/// WAIT numreplicas timeout
pub fn wait(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    if cx.engine.replication.role.is_replica() {
        return Err(Error::fixed(
            "ERR WAIT cannot be used with replica instances. Please also note that since Redis 4.0 if a replica is configured \
             to be writable (which is not the default) writes to replicas are just local and are not propagated.",
        ));
    }
    let replicas = number::parse_i64(request.arg(1)).ok_or(Error::NOT_INTEGER)?;
    let deadline_ms = block_timeout::deadline(cx, request)?;
    let offset = written_offset(cx);
    let applied = usize::try_from(replicas.max(0)).unwrap_or(usize::MAX);
    let wanted = WaitCondition { offset, applied, synced: 0, own_disk: false };
    wait_for(cx, request, wanted, deadline_ms, OnTimeout::Replicas(offset));
    Ok(())
}

/// WAITAOF numlocal numreplicas timeout
pub fn wait_aof(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    if cx.engine.replication.role.is_replica() {
        return Err(Error::fixed(
            "ERR WAITAOF cannot be used with replica instances. Please also note that writes to replicas are just local and \
             are not propagated.",
        ));
    }
    let local = number::parse_i64(request.arg(1)).ok_or(Error::NOT_INTEGER)?;
    if !(0..=1).contains(&local) {
        return Err(Error::fixed("ERR value is out of range, value must between 0 and 1"));
    }
    let replicas = number::parse_i64(request.arg(2))
        .and_then(|replicas| usize::try_from(replicas).ok())
        .ok_or(Error::fixed("ERR value is out of range, must be positive"))?;
    let deadline_ms = block_timeout::deadline(cx, request)?;
    let engine = cx.engine;
    if local != 0 && !engine.config.flag(Opt::Appendonly) {
        return Err(Error::NO_LOG_TO_WAIT_FOR);
    }
    let offset = written_offset(cx);
    let wanted = WaitCondition { offset, applied: 0, synced: replicas, own_disk: local != 0 };
    wait_for(cx, request, wanted, deadline_ms, OnTimeout::Disks(offset));
    if wanted.own_disk && cx.state.blocked.is_some() {
        // The AOF may have been switched off since that was checked.
        engine.persistence.answer_synced(engine);
    }
    Ok(())
}

/// Returns the offset of the journal behind all changes of the client.
fn written_offset(cx: &mut Cx<'_>) -> u64 {
    let shown = cx.locks.recorder.shown_offset();
    cx.state.journal.written_offset(shown)
}

/// Replies with the number of replicas that have reached the offset: at once if they are enough or if the client may not
/// wait, else when they are enough or at the timeout.
fn wait_for(
    cx: &mut Cx<'_>,
    request: Request<'_>,
    wanted: WaitCondition,
    deadline_ms: Option<i64>,
    on_timeout: OnTimeout,
) {
    let reached = primary::reached(cx.engine, wanted.offset);
    if wanted.is_met(&reached) || !cx.may_block() {
        return on_timeout.write(&mut cx.out.bytes, cx.state.protocol, |_| reached);
    }
    cx.block(request.row, Block { deadline_ms, waits: Vec::new(), on_timeout });
    if let Some(waiter) = &cx.state.blocked {
        primary::answer_when_acknowledged(cx.engine, waiter, wanted);
    }
}

/// REPLICAOF and SLAVEOF: host port | NO ONE
pub fn replica_of(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    if cx.engine.cluster.get().is_some() {
        return Err(Error::fixed("ERR REPLICAOF not allowed in cluster mode."));
    }
    if cx.engine.replication.failover.is_running() {
        return Err(Error::fixed("ERR REPLICAOF not allowed while failing over."));
    }
    let (engine, host, port) = (cx.engine, request.arg(1), request.arg(2));
    let by = cx.state.client.socket.address.clone();
    if host.eq_ignore_ascii_case(b"no") && port.eq_ignore_ascii_case(b"one") {
        if role_change::lead(engine, cx.now) {
            cx.locks.recorder.look_again();
            log::notice(&format!("MASTER MODE enabled (user request from '{by}')"));
            note_primary(cx, &[host, port]);
        }
        cx.reply().ok();
        return Ok(());
    }
    let number = number::parse_i64(port).and_then(|port| u16::try_from(port).ok());
    let number = number.ok_or(Error::fixed("ERR Invalid master port"))?;
    let name = std::str::from_utf8(host).ok().filter(|host| !host.is_empty());
    let name = name.ok_or(Error::fixed("ERR Invalid master host"))?;
    let role = &engine.replication.role;
    if !role.can_follow() {
        return Err(Error::fixed(
            "ERR This engine cannot be a replica: the program that embeds it has given it no files and no threads",
        ));
    }
    // In the middle of EXEC: a replica that may continue this server's own stream has to get the commands before this one.
    cx.locks.recorder.append_open();
    if !role_change::follow_primary(engine, Address { host: name.to_owned(), port: number }) {
        cx.reply().simple("OK Already connected to specified master");
        return Ok(());
    }
    cx.locks.recorder.look_again();
    log::notice(&format!("REPLICAOF {name}:{number} enabled (user request from '{by}')"));
    note_primary(cx, &[host, port]);
    role.start().map_err(|why| Error::new(format!("ERR The thread that follows the primary cannot start: {why}")))?;
    cx.reply().ok();
    Ok(())
}

/// Notes the primary of this server for CONFIG REWRITE, and resumes the clients that were held when the primary changed.
fn note_primary(cx: &Cx<'_>, words: &[&[u8]]) {
    if let Err(why) = cx.engine.config.assign(Opt::Replicaof, words) {
        log::warning(&format!("CONFIG REWRITE will not know whom this server follows: {why}"));
    }
    cx.engine.clients.post_resume();
}

/// FAILOVER \[TO host port \[FORCE\]\] \[ABORT\] \[TIMEOUT milliseconds\]
pub fn failover(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    if cx.engine.cluster.get().is_some() {
        return Err(Error::fixed("ERR FAILOVER not allowed in cluster mode. Use CLUSTER FAILOVER command instead."));
    }
    let mut words = request.args.from(1).iter();
    if request.len() == 2 && request.arg(1).eq_ignore_ascii_case(b"abort") {
        if !cx.engine.replication.failover.abort(cx.engine, "Failover manually aborted", cx.now) {
            return Err(Error::fixed("ERR No failover in progress."));
        }
        cx.locks.recorder.look_again();
        cx.reply().ok();
        return Ok(());
    }
    let mut order = Order::default();
    while let Some(word) = words.next() {
        match word.to_ascii_lowercase().as_slice() {
            b"timeout" if order.timeout_ms.is_none() => {
                let text = words.next().ok_or(Error::SYNTAX)?;
                let time_ms = number::parse_i64(text).ok_or(Error::NOT_INTEGER)?;
                let time_ms = u64::try_from(time_ms).ok().filter(|time_ms| *time_ms > 0);
                order.timeout_ms = Some(time_ms.ok_or(Error::fixed("ERR FAILOVER timeout must be greater than 0"))?);
            }
            b"to" if order.target.is_none() => {
                let (host, port) = (words.next(), words.next().ok_or(Error::SYNTAX)?);
                let port = number::parse_i64(port).ok_or(Error::NOT_INTEGER)?;
                let host = String::from_utf8_lossy(host.unwrap_or_default()).into_owned();
                // No replica has any other port.
                order.target = Some(Address { host, port: u16::try_from(port).unwrap_or(0) });
            }
            b"force" if !order.is_forced => order.is_forced = true,
            _ => return Err(Error::SYNTAX),
        }
    }
    cx.engine.replication.failover.begin(&cx.engine.handle(), order)?;
    cx.reply().ok();
    Ok(())
}
