//! ROLE, WAIT, WAITAOF, REPLICAOF, FAILOVER, and what a replica says to its primary.
//!
//! This server is a primary without replicas, and cannot be anything else yet. What that decides is answered as Redis
//! answers it; a request that would change it, and a replica that asks for the data, are told so.

use sleeve_wire::number;

use crate::commands::block_timeout;
use crate::config::Opt;
use crate::context::Cx;
use crate::engine::clients::blocking::{Block, OnTimeout};
use crate::request::Request;
use crate::request::error::{Error, Outcome};

/// ROLE
pub fn role(cx: &mut Cx<'_>) -> Outcome {
    let offset = cx.engine.journal.end() as i64;
    let mut reply = cx.reply();
    reply.array(3);
    reply.bulk(b"master");
    reply.integer(offset);
    reply.array(0);
    Ok(())
}

/// WAIT numreplicas timeout
pub fn wait(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let replicas = number::parse_i64(request.arg(1)).ok_or(Error::NOT_INTEGER)?;
    let deadline_ms = block_timeout::deadline(cx, request)?;
    wait_in_vain(cx, request, replicas > 0, deadline_ms, OnTimeout::Zero);
    Ok(())
}

/// WAITAOF numlocal numreplicas timeout
pub fn wait_aof(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let local = number::parse_i64(request.arg(1)).ok_or(Error::NOT_INTEGER)?;
    if !(0..=1).contains(&local) {
        return Err(Error::fixed("ERR value is out of range, value must between 0 and 1"));
    }
    let replicas = number::parse_i64(request.arg(2))
        .filter(|replicas| *replicas >= 0)
        .ok_or(Error::fixed("ERR value is out of range, must be positive"))?;
    let deadline_ms = block_timeout::deadline(cx, request)?;
    let engine = cx.engine;
    if local != 0 && !engine.config.flag(Opt::Appendonly) {
        return Err(Error::NO_LOG_TO_WAIT_FOR);
    }
    let shown = cx.recorder().shown_offset();
    let offset = cx.state.written_offset(shown);
    let is_synced = engine.synced_offset().is_some_and(|synced| synced >= offset);
    let lacks_local = local != 0 && !is_synced;
    wait_in_vain(cx, request, replicas > 0 || lacks_local, deadline_ms, OnTimeout::Disks(offset));
    if let Some(waiter) = cx.state.blocked.as_ref().filter(|_| local != 0) {
        // Who waits for replicas too waits in vain, but hears when the log is switched off.
        engine.answer_when_synced(waiter, if replicas > 0 { u64::MAX } else { offset });
    }
    Ok(())
}

/// Answers that nobody has anything: at once if that is enough or the peer may not wait, else when its time is over.
fn wait_in_vain(
    cx: &mut Cx<'_>,
    request: Request<'_>,
    wants_any: bool,
    deadline_ms: Option<i64>,
    on_timeout: OnTimeout,
) {
    if wants_any && cx.may_block() {
        cx.block(request.row, Block { deadline_ms, waits: Vec::new(), on_timeout });
    } else {
        on_timeout.write(&mut cx.out.bytes, cx.state.protocol, cx.engine.synced_offset());
    }
}

/// REPLICAOF and SLAVEOF: host port | NO ONE
pub fn replica_of(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let (host, port) = (request.arg(1), request.arg(2));
    if host.eq_ignore_ascii_case(b"no") && port.eq_ignore_ascii_case(b"one") {
        // It is a primary already.
        cx.reply().ok();
        return Ok(());
    }
    if number::parse_i64(port).is_none_or(|port| !(0..=65_535).contains(&port)) {
        return Err(Error::fixed("ERR Invalid master port"));
    }
    Err(Error::fixed("ERR There is no replication yet: this server cannot be a replica"))
}

/// FAILOVER \[TO host port\] \[FORCE\] \[ABORT\] \[TIMEOUT milliseconds\]
pub fn failover(request: Request<'_>) -> Outcome {
    let mut words = request.args.from(1).iter();
    if request.len() == 2 && request.arg(1).eq_ignore_ascii_case(b"abort") {
        return Err(Error::fixed("ERR No failover in progress."));
    }
    let (mut timeout, mut target, mut force) = (None, None, false);
    while let Some(word) = words.next() {
        match word.to_ascii_lowercase().as_slice() {
            b"timeout" if timeout.is_none() => {
                let text = words.next().ok_or(Error::SYNTAX)?;
                let time_ms = number::parse_i64(text).ok_or(Error::NOT_INTEGER)?;
                if time_ms <= 0 {
                    return Err(Error::fixed("ERR FAILOVER timeout must be greater than 0"));
                }
                timeout = Some(time_ms);
            }
            b"to" if target.is_none() => {
                let (host, port) = (words.next(), words.next().ok_or(Error::SYNTAX)?);
                number::parse_i64(port).ok_or(Error::NOT_INTEGER)?;
                target = host;
            }
            b"force" if !force => force = true,
            _ => return Err(Error::SYNTAX),
        }
    }
    Err(Error::fixed("ERR FAILOVER requires connected replicas."))
}

/// SYNC and PSYNC, which a replica begins with
pub fn sync() -> Outcome {
    Err(NO_REPLICAS)
}

/// REPLCONF \[option value ...\]
pub fn repl_conf(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    match request.len() {
        // Nothing was said.
        1 => cx.reply().ok(),
        len if len % 2 == 0 => return Err(Error::SYNTAX),
        _ => return Err(NO_REPLICAS),
    }
    Ok(())
}

const NO_REPLICAS: Error = Error::fixed("ERR There is no replication yet: this server cannot have replicas");
