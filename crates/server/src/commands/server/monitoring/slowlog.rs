//! SLOWLOG and COMMANDLOG: the latest commands that were slow or large, shown, counted and forgotten at the request of
//! clients.
//!
//! At its end it is decided whether a command is entered (`context/command_log`); the lists are kept in
//! `engine/observe/slowlog`.

use sleeve_wire::number;

use crate::context::Cx;
use crate::engine::observe::slowlog::Measure;
use crate::request::Request;
use crate::request::error::{Error, Outcome};

/// The default number of entries that SLOWLOG GET shows.
const SHOWN: usize = 10;

/// SLOWLOG GET \[count\]
pub fn get(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let count = match request.args.get(2) {
        _ if request.len() > 3 => return Err(Error::subcommand_syntax("SLOWLOG", request.arg(1))),
        None => SHOWN,
        Some(argument) => count(argument)?,
    };
    show(cx, Measure::Time, count);
    Ok(())
}

/// COMMANDLOG GET count SLOW | LARGE-REQUEST | LARGE-REPLY
pub fn get_of(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let count = count(request.arg(2))?;
    show(cx, measure(request.arg(3))?, count);
    Ok(())
}

fn count(argument: &[u8]) -> Result<usize, Error> {
    const BAD_COUNT: Error = Error::fixed("ERR count should be greater than or equal to -1");
    match number::parse_i64(argument).ok_or(BAD_COUNT)? {
        -1 => Ok(usize::MAX),
        count => usize::try_from(count).map_err(|_| BAD_COUNT),
    }
}

fn measure(word: &[u8]) -> Result<Measure, Error> {
    match word.to_ascii_lowercase().as_slice() {
        b"slow" => Ok(Measure::Time),
        b"large-request" => Ok(Measure::Request),
        b"large-reply" => Ok(Measure::Reply),
        _ => Err(Error::fixed("ERR type should be one of the following: slow, large-request, large-reply")),
    }
}

fn show(cx: &mut Cx<'_>, measure: Measure, count: usize) {
    let entries = cx.engine.observe.slowlog.latest(measure, count);
    let mut reply = cx.reply();
    reply.array(entries.len());
    for entry in entries {
        reply.array(6);
        reply.integer(entry.id as i64);
        reply.integer(entry.time_s);
        reply.integer(entry.amount as i64);
        reply.array(entry.arguments.len());
        entry.arguments.iter().for_each(|argument| reply.bulk(argument));
        reply.bulk(entry.address.as_bytes());
        reply.bulk(entry.name.as_bytes());
    }
}

/// SLOWLOG LEN
pub fn len(cx: &mut Cx<'_>) -> Outcome {
    show_len(cx, Measure::Time);
    Ok(())
}

/// COMMANDLOG LEN SLOW | LARGE-REQUEST | LARGE-REPLY
pub fn len_of(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    show_len(cx, measure(request.arg(2))?);
    Ok(())
}

fn show_len(cx: &mut Cx<'_>, measure: Measure) {
    let count = cx.engine.observe.slowlog.len(measure);
    cx.reply().integer(count as i64);
}

/// SLOWLOG RESET
pub fn reset(cx: &mut Cx<'_>) -> Outcome {
    cx.engine.observe.slowlog.reset(Measure::Time);
    cx.reply().ok();
    Ok(())
}

/// COMMANDLOG RESET SLOW | LARGE-REQUEST | LARGE-REPLY
pub fn reset_of(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    cx.engine.observe.slowlog.reset(measure(request.arg(2))?);
    cx.reply().ok();
    Ok(())
}
