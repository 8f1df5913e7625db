//! EVAL, EVALSHA, their read-only forms, and SCRIPT. Functions are in `function`, their dumps in `function_dump`.

pub mod function;
pub mod function_dump;

use crate::context::Cx;
use crate::engine::scripts::digest_from;
use crate::engine::scripts::running::ScriptKind;
use crate::lua::evaluate;
use crate::request::Request;
use crate::request::error::{Error, Outcome};

/// SCRIPT LOAD script
pub fn load(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let digest = evaluate::load_script(cx, request.arg(2))?;
    cx.reply().bulk(&digest);
    Ok(())
}

/// SCRIPT EXISTS sha1 \[sha1 ...\]
pub fn exists(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let digests = request.args.from(2);
    let scripts = std::sync::Arc::clone(&cx.engine.scripts);
    let mut reply = cx.reply();
    reply.array(digests.len());
    for digest in digests {
        let exists = digest_from(digest).is_some_and(|digest| scripts.find(&digest).is_some());
        reply.integer(i64::from(exists));
    }
    Ok(())
}

/// SCRIPT SHOW sha1
pub fn show(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let script = digest_from(request.arg(2)).and_then(|digest| cx.engine.scripts.find(&digest));
    let script = script.ok_or(Error::fixed("NOSCRIPT No matching script."))?;
    cx.reply().bulk(&script.source);
    Ok(())
}

/// SCRIPT FLUSH \[ASYNC | SYNC\]
pub fn flush(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    if !is_flush(request) {
        return Err(Error::fixed("ERR SCRIPT FLUSH only support SYNC|ASYNC option"));
    }
    evaluate::forget_scripts(cx);
    cx.reply().ok();
    Ok(())
}

/// Returns whether the rest of a flush is empty, ASYNC or SYNC. Both words mean the same: freeing scripts is fast in any
/// case.
pub fn is_flush(request: Request<'_>) -> bool {
    let is_word = |word: &[u8]| word.eq_ignore_ascii_case(b"sync") || word.eq_ignore_ascii_case(b"async");
    request.len() == 2 || (request.len() == 3 && is_word(request.arg(2)))
}

/// SCRIPT KILL
pub fn kill(cx: &mut Cx<'_>) -> Outcome {
    cx.engine.scripts.running.kill(ScriptKind::Script)?;
    cx.reply().ok();
    Ok(())
}

/// SCRIPT DEBUG YES | SYNC | NO: there is no debugger, so the only accepted value is NO.
pub fn debug(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let mode = request.arg(2);
    if mode.eq_ignore_ascii_case(b"no") {
        cx.reply().ok();
        return Ok(());
    }
    if mode.eq_ignore_ascii_case(b"yes") || mode.eq_ignore_ascii_case(b"sync") {
        return Err(Error::fixed("ERR SCRIPT DEBUG YES is not supported: there is no debugger for scripts here"));
    }
    Err(Error::fixed("ERR Use SCRIPT DEBUG YES/SYNC/NO"))
}
