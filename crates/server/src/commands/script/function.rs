//! FCALL and FCALL_RO, which run a function of a library, and FUNCTION, which loads, lists and deletes libraries and ends a
//! running script.
//!
//! DUMP and RESTORE are in `function_dump`; libraries are kept in `engine/scripts`, and run by `lua`.

use std::sync::Arc;

use crate::context::Cx;
use crate::context::locking;
use crate::engine::scripts::running::ScriptKind;
use crate::engine::scripts::{Libraries, Library};
use crate::host::clock;
use crate::lua::evaluate;
use crate::request::Request;
use crate::request::error::{Error, Outcome};

/// FUNCTION LOAD \[REPLACE\] function-code
pub fn load(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let mut replaces = false;
    for option in request.args.iter().take(request.len() - 1).skip(2) {
        if !option.eq_ignore_ascii_case(b"replace") {
            return Err(Error::naming("ERR Unknown option given: {}", &[option]));
        }
        replaces = true;
    }
    let code = request.arg(request.len() - 1);
    let mut libraries = cx.engine.scripts.libraries();
    let name = crate::engine::scripts::flags::library_name(code)?;
    if !replaces && libraries.get(&name).is_some() {
        return Err(Error::new(format!("ERR Library '{name}' already exists")));
    }
    let library = evaluate::load_library(cx, code)?;
    if let Some(function) = libraries.collision(&library) {
        return Err(Error::new(format!("ERR Function {function} already exists")));
    }
    libraries.insert(library);
    publish(cx, libraries);
    cx.reply().bulk(name.as_bytes());
    Ok(())
}

/// Replaces the libraries of the engine; the request is recorded as it came.
pub fn publish(cx: &mut Cx<'_>, libraries: Libraries) {
    cx.engine.scripts.replace_libraries(libraries);
    cx.changed_many(1);
}

/// FUNCTION DELETE library-name
pub fn delete(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let mut libraries = cx.engine.scripts.libraries();
    if !libraries.remove(&String::from_utf8_lossy(request.arg(2))) {
        return Err(Error::fixed("ERR Library not found"));
    }
    publish(cx, libraries);
    cx.reply().ok();
    Ok(())
}

/// FUNCTION FLUSH \[ASYNC | SYNC\]
pub fn flush(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    if request.len() > 3 {
        return Err(Error::subcommand_syntax("FUNCTION", request.arg(1)));
    }
    if !super::is_flush(request) {
        return Err(Error::fixed("ERR FUNCTION FLUSH only supports SYNC|ASYNC option"));
    }
    publish(cx, Libraries::default());
    cx.reply().ok();
    Ok(())
}

/// FUNCTION KILL
pub fn kill(cx: &mut Cx<'_>) -> Outcome {
    cx.engine.scripts.running.kill(ScriptKind::Function)?;
    cx.reply().ok();
    Ok(())
}

/// FUNCTION LIST \[LIBRARYNAME library-name-pattern\] \[WITHCODE\]
pub fn list(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let (mut pattern, mut with_code) = (None, false);
    let mut words = request.args.from(2).iter();
    while let Some(word) = words.next() {
        if !with_code && word.eq_ignore_ascii_case(b"withcode") {
            with_code = true;
        } else if pattern.is_none() && word.eq_ignore_ascii_case(b"libraryname") {
            pattern = Some(words.next().ok_or(Error::fixed("ERR library name argument was not given"))?);
        } else {
            return Err(Error::naming("ERR Unknown argument {}", &[word]));
        }
    }
    let libraries = cx.engine.scripts.libraries();
    let is_wanted = |library: &&Arc<Library>| {
        pattern.is_none_or(|pattern| sleeve_wire::pattern::matches(pattern, library.name.as_bytes(), true))
    };
    let wanted: Vec<_> = libraries.iter().filter(is_wanted).collect();
    cx.reply().array(wanted.len());
    wanted.into_iter().for_each(|library| describe(cx, library, with_code));
    Ok(())
}

fn describe(cx: &mut Cx<'_>, library: &Library, with_code: bool) {
    let mut reply = cx.reply();
    reply.map(3 + usize::from(with_code));
    reply.bulk(b"library_name");
    reply.bulk(library.name.as_bytes());
    reply.bulk(b"engine");
    reply.bulk(b"LUA");
    reply.bulk(b"functions");
    reply.array(library.functions.len());
    for function in &library.functions {
        reply.map(3);
        reply.bulk(b"name");
        reply.bulk(function.name.as_bytes());
        reply.bulk(b"description");
        reply.bulk_or_null(function.description.as_deref());
        reply.bulk(b"flags");
        reply.set(function.flags.names().count());
        function.flags.names().for_each(|flag| reply.simple(flag));
    }
    if with_code {
        reply.bulk(b"library_code");
        reply.bulk(&library.code);
    }
}

/// FUNCTION STATS
pub fn stats(cx: &mut Cx<'_>) -> Outcome {
    let scripts = Arc::clone(&cx.engine.scripts);
    let longest = scripts.running.longest();
    let running = longest.and_then(|run| run.elapsed_ms(clock::monotonic_ms).zip(run.facts()));
    if running.as_ref().is_some_and(|(_, facts)| facts.kind == ScriptKind::Script) {
        // A running script that is no function keeps FUNCTION STATS waiting, and is reported with the same error as for any
        // other command.
        locking::check(cx.engine)?;
    }
    let libraries = scripts.libraries();
    let mut reply = cx.reply();
    reply.map(2);
    reply.bulk(b"running_script");
    match running {
        None => reply.null(),
        Some((elapsed_ms, facts)) => {
            reply.map(3);
            reply.bulk(b"name");
            reply.bulk(&facts.name);
            reply.bulk(b"command");
            reply.array(facts.request.args().len());
            facts.request.args().iter().for_each(|word| reply.bulk(word));
            reply.bulk(b"duration_ms");
            reply.integer(elapsed_ms as i64);
        }
    }
    reply.bulk(b"engines");
    reply.map(1);
    reply.bulk(b"LUA");
    reply.map(2);
    reply.bulk(b"libraries_count");
    reply.integer(libraries.len() as i64);
    reply.bulk(b"functions_count");
    reply.integer(libraries.functions_len() as i64);
    Ok(())
}
