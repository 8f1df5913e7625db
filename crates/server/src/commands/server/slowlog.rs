//! SLOWLOG: the latest slow commands, shown, counted and forgotten as clients ask.
//!
//! Which commands are noted is decided as they end; the list is kept in `observe/slowlog`.

use sleeve_wire::number;

use crate::context::Cx;
use crate::request::Request;
use crate::request::error::{Error, Outcome};

/// Entries that SLOWLOG GET gives unless it is asked for another number.
const SHOWN: usize = 10;

/// SLOWLOG GET \[count\]
pub fn get(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    const BAD_COUNT: Error = Error::fixed("ERR count should be greater than or equal to -1");
    let count = match request.args.get(2) {
        _ if request.len() > 3 => return Err(Error::subcommand_syntax("SLOWLOG", request.arg(1))),
        None => SHOWN,
        Some(argument) => match number::parse_i64(argument).ok_or(BAD_COUNT)? {
            -1 => usize::MAX,
            count => usize::try_from(count).map_err(|_| BAD_COUNT)?,
        },
    };
    let entries = cx.engine.slowlog.latest(count);
    let mut reply = cx.reply();
    reply.array(entries.len());
    for entry in entries {
        reply.array(6);
        reply.integer(entry.id as i64);
        reply.integer(entry.time_s);
        reply.integer(entry.duration_us as i64);
        reply.array(entry.arguments.len());
        entry.arguments.iter().for_each(|argument| reply.bulk(argument));
        reply.bulk(entry.address.as_bytes());
        reply.bulk(entry.name.as_bytes());
    }
    Ok(())
}

/// SLOWLOG LEN
pub fn len(cx: &mut Cx<'_>) -> Outcome {
    let count = cx.engine.slowlog.len();
    cx.reply().integer(count as i64);
    Ok(())
}

/// SLOWLOG RESET
pub fn reset(cx: &mut Cx<'_>) -> Outcome {
    cx.engine.slowlog.reset();
    cx.reply().ok();
    Ok(())
}
