//! Scripts that are written to do harm: none ends the server or a program that embeds it, and every script can be ended.
//!
//! Each server is a process of its own, so that its death is seen. The random programs are a soak in their long form;
//! `SLEEVE_SEED` says which they are.

mod programs;

use std::time::Duration;

use sleeve::Client;
use sleeve::prelude::*;
use sleeve_tests::random::{Random, seed};
use sleeve_tests::{Connection, Kind, Server, soak};

fn text(reply: &[u8]) -> String {
    String::from_utf8_lossy(reply).into_owned()
}

/// Starts a server in which scripts are long after 20 ms and have 64 MB.
fn start() -> Server {
    Server::start_with(Kind::Sleeve, &["--workers", "2", "--busy-reply-threshold", "20", "--lua-memory-max", "64mb"])
}

/// A function that nests calls: its argument is called below 180 functions of Lua's libraries.
const NEST: &str = "local function nest(n, last) if n == 0 then return last() end \
                    return (('x'):gsub('x', function() return nest(n - 1, last) end)) end ";

/// Programs that exhaust the stack or the range of integers, or run for ever, with the beginnings of their replies.
const SHORT: &[(&str, &str)] = &[
    ("return {unpack({}, -2147483648, 2147483647)}", "-ERR user_script:1: too many results to unpack"),
    ("return {unpack({}, 0, 2147483647)}", "-ERR user_script:1: too many results to unpack"),
    ("return {unpack({}, 2147483647 - 8100, 2147483647)}", "-ERR user_script:1: too many results to unpack"),
    ("return {unpack({1, 2, 3}, 2, 3)}", "*2\r\n:2\r\n:3\r\n"),
    ("return #string.rep('', 2147483647)", ":0\r\n"),
    ("return string.rep('ab', 2^62)", "$0\r\n"),
    ("return pcall(string.rep, ('x'):rep(1e6), 2^31 - 1)", "$-1\r\n"),
    ("return string.find(('a'):rep(40000), ('a?'):rep(33000))", "-ERR user_script:1: pattern too complex"),
    ("return string.find(('a'):rep(40000), ('a-'):rep(33000) .. 'b')", "-ERR user_script:1: pattern too complex"),
    ("return string.match(('a'):rep(40000), ('a*'):rep(33000))", "-ERR user_script:1: pattern too complex"),
    ("return string.gsub(('a'):rep(40000), ('()'):rep(33000), '')", "-ERR user_script:1: too many captures"),
    ("return string.find(('a'):rep(40000), ('a'):rep(33000))", ":1\r\n"),
    (
        "local function f(n) return (('x'):gsub('x', function() return f(n + 1) end)) end return f(1)",
        "-ERR C stack overflow",
    ),
    (
        "local t = setmetatable({}, {}) getmetatable(t).__tostring = function() return tostring(t) end return tostring(t)",
        "-ERR C stack overflow",
    ),
    (
        "local function f(n) return coroutine.wrap(function() return f(n + 1) end)() end return f(1)",
        "-ERR user_script:1: ",
    ),
    (
        "local t = {} for i = 1, 300 do t[i] = i % 7 end table.sort(t, function() return true end)",
        "-ERR user_script:1: invalid order function",
    ),
    ("local function f() return pcall(f) end return tostring(f())", "$4\r\ntrue"),
    ("return tostring(loadstring(('('):rep(100000)))", "$3\r\nnil"),
    ("return tostring(loadstring(('function f() '):rep(300)))", "$3\r\nnil"),
    ("return tostring(loadstring('--[' .. ('='):rep(1e6) .. '['))", "$3\r\nnil"),
    ("return tostring(loadstring(('x'):rep(2^19 + 1)))", "$3\r\nnil"),
    ("return tostring(loadstring('return ' .. ('x or '):rep(20001) .. 'x'))", "$3\r\nnil"),
    ("return type(loadstring('return ' .. ('x or '):rep(5000) .. 'x'))", "$8\r\nfunction"),
    ("return string.format('%s', ('x'):rep(2^24))", "-ERR user_script:1: resulting string too large"),
    (
        "return string.format('%d', 'x')",
        "-ERR user_script:1: bad argument #2 to 'format' (number expected, got string)",
    ),
    ("cjson.encode_sparse_array(true, 0, 0) return cjson.encode({[2^40] = 1})", "$19\r\n{\"1099511627776\":1}"),
    ("return #{cmsgpack.unpack(('a'):rep(1e6))}", "-ERR user_script:1: too many return values"),
    ("return {pcall(getmetatable('').__index.rep)}", "*2\r\n$-1\r\n"),
    ("table.insert(redis, 1)", "-ERR Attempt to modify a readonly table script: "),
    ("return pcall(table.insert, _G, 1, 2) and 1 or #string", ":0\r\n"),
    ("local t = setmetatable({}, {}) table.insert(t, 7) table.insert(t, 1, 6) return t", "*2\r\n:6\r\n:7\r\n"),
    ("getmetatable('').__index = {}", "-ERR user_script:1: Attempt to modify a readonly table"),
    (
        "return {bit.tohex(65535, -2147483648), bit.tohex(65535, 2147483647)}",
        "*2\r\n$8\r\n0000FFFF\r\n$8\r\n0000ffff\r\n",
    ),
    (
        "collectgarbage('stop') for i = 1, 2e4 do local s = ('x'):rep(1e5) .. i end return collectgarbage('setpause', 7)",
        ":",
    ),
];

#[test]
fn no_script_ends_the_server() {
    let server = start();
    let (mut connection, mut admin) = (server.connect(), server.connect());
    for command in ["EVAL", "EVAL_RO"] {
        for (script, beginning) in SHORT {
            let reply = until_answered(&mut connection, &mut admin, &[command, script, "0"], false);
            assert!(text(&reply).starts_with(beginning), "{script}: {}", text(&reply));
        }
    }
}

#[test]
fn nesting_is_bounded_on_any_stack() {
    let deepest = [
        "return nest(180, function() local t = {} for i = 1, 990 do t = {t} end return cjson.encode(t) end)",
        "return nest(180, function() return type(cjson.decode(('['):rep(990) .. (']'):rep(990))) end)",
        "return nest(180, function() return (('a'):rep(2000):gsub(('a?'):rep(990), 'b')) end)",
        "return nest(150, function() return type(loadstring(('('):rep(40) .. '1' .. (')'):rep(40))) end)",
        "return nest(180, function() return #cmsgpack.pack(cmsgpack.unpack(('\\145'):rep(990) .. '\\1')) end)",
    ];
    let server = start();
    let mut connection = server.connect();
    for script in deepest {
        let script = format!("{NEST}{script}");
        let reply = connection.command(&["EVAL", &script, "0"]).expect("the server lives");
        assert!(text(&reply).starts_with('$'), "{script}: {}", text(&reply));
        // A thread that embeds an engine may have little stack.
        let work = move || Client::embedded().eval::<Vec<u8>>(&script, (), ()).wait().map(|text| text.len());
        let thread = std::thread::Builder::new().stack_size(256 << 10).spawn(work).expect("a thread");
        assert!(thread.join().expect("it lives").expect("a reply") > 0);
    }
}

/// Programs that never end, or not soon.
const ENDLESS: &[&str] = &[
    "while true do end",
    "while true do pcall(function() while true do end end) end",
    "while true do xpcall(function() while true do end end, function() while true do end end) end",
    "local function f() while true do end end while true do coroutine.resume(coroutine.create(f)) end",
    "local t = {} t[1] = t t[2] = t return t",
    "local t = {} t.map = t t[t] = t return t",
    "return string.find(('a'):rep(1e5), ('.-'):rep(50) .. 'b')",
    "while true do pcall(string.find, ('a'):rep(1e5), ('.-'):rep(50) .. 'b') end",
    "for w in ('a'):rep(1e5):gmatch(('.-'):rep(50) .. 'b') do end",
    "return (('a'):rep(1e5):gsub(('.-'):rep(50) .. 'b', ''))",
    "while true do ('('):rep(1e6):find('%b()') end",
    "while true do ('x'):rep(1e6):find('y', 1, true) end",
    "while true do local s = ('x'):rep(1e6):upper() end",
    "while true do local s = ('x'):rep(1e6):lower():reverse():rep(2) s = s:sub(1e6):format() end",
    "local s, t = ('x'):rep(1e5), {} for i = 1, 100 do t[i] = s end while true do table.concat(t) end",
    "local s = 'return ' .. ('x or '):rep(2000) .. 'x' while true do loadstring(s) end",
    "local s = ('x'):rep(1e6) while true do local y = s .. 'a' end",
    "local s = ('1'):rep(1e6) while true do local y = s + 1 end",
    "local a, b = ('x'):rep(1e6) .. 1, ('x'):rep(1e6) .. 2 while true do local y = a < b end",
    "local t = {} for i = 1, 1e5 do t[i] = i end while true do table.concat(t) end",
    "local t = {} for i = 1, 1e5 do t[i] = i end while true do table.insert(t, 1, table.remove(t, 1)) end",
    "local t = {} while true do for i = 1, 1e5 do t[i] = i * 7919 % 100003 end table.sort(t) table.maxn(t) end",
    "local t = {} for i = 1, 1e5 do t[i] = {} end while true do collectgarbage() end",
    "table.insert({}, -2147483648, nil)",
    "local t = {} for i = 1, 1e5 do t[i] = i end while true do cjson.decode(cjson.encode(t)) end",
    "local x = {} for i = 1, 15 do x = {x, x, x, x} end return cmsgpack.pack(x)",
    "local t = {} for i = 1, 1e5 do t[i] = i end local s = cmsgpack.pack(t) while true do cmsgpack.unpack(s) end",
    "while true do struct.size(('b'):rep(1e6)) end",
    "local s = 'return {' .. ('1,'):rep(1e4) .. '}' while true do loadstring(s) end",
    "local s = ('a'):rep(1e6) while true do redis.sha1hex(s) end",
    "while true do redis.call('lrange', 'none', 0, -1) redis.pcall('none') end",
];

#[test]
fn whatever_a_script_does_can_be_ended() {
    let server = start();
    let mut connection = server.connect();
    for script in ENDLESS {
        end(&server, &mut connection, &["EVAL", script, "0"], "SCRIPT");
    }
}

#[test]
fn whatever_a_function_does_can_be_ended() {
    let server = start();
    let mut connection = server.connect();
    for body in ENDLESS {
        let code = format!(
            "#!lua name=endless\nredis.register_function{{function_name='endless', flags={{'no-writes'}}, \
             callback=function() {body} end}}"
        );
        let loaded = connection.command(&["FUNCTION", "LOAD", "REPLACE", &code]).expect("a reply");
        assert_eq!(text(&loaded), "$7\r\nendless\r\n");
        end(&server, &mut connection, &["FCALL_RO", "endless", "0"], "FUNCTION");
    }
}

/// Sends a request that does not end by itself, and ends it once other clients get the error that they have to wait.
fn end(server: &Server, connection: &mut Connection, request: &[&str], kind: &str) {
    connection.send(&sleeve_tests::connection::request(request)).expect("sent");
    let mut admin = server.connect();
    // The reply may still belong to the worker's earlier work; the command is sent again then.
    while !text(&admin.command(&["PING"]).expect("a reply")).starts_with("-BUSY") {}
    assert_eq!(text(&admin.command(&[kind, "KILL"]).expect("a reply")), "+OK\r\n", "{request:?}");
    let reply = text(&connection.reply().expect("the server lives"));
    let expected = format!("-ERR Script killed by user with {kind} KILL.");
    assert!(reply.starts_with(&expected), "{request:?}: {reply}");
    assert_eq!(text(&admin.command(&["PING"]).expect("a reply")), "+PONG\r\n");
}

#[test]
fn a_reply_has_a_bound() {
    let server = Server::start_with(Kind::Sleeve, &["--lua-memory-max", "2mb"]);
    let mut connection = server.connect();
    for script in [
        "local t = {} t[1] = t t[2] = t return t",
        "local x = {} for i = 1, 40 do x = {x, x} end return cjson.encode(x)",
        "local s, t = ('x'):rep(2e5), {} for i = 1, 25 do t[i] = s end return t",
        "local s, t = ('x'):rep(2e5), {} for i = 1, 25 do t[i] = s end return cjson.encode(t)",
        "local s, t = ('x'):rep(2e5), {} for i = 1, 25 do t[i] = s end return cmsgpack.pack(t)",
    ] {
        let reply = text(&connection.command(&["EVAL", script, "0"]).expect("a reply"));
        assert!(reply.contains("not enough memory"), "{script}: {reply}");
    }
    assert_eq!(
        text(&connection.command(&["EVAL", "return {1, {2}}", "0"]).expect("a reply")),
        "*2\r\n:1\r\n*1\r\n:2\r\n"
    );
}

#[test]
fn the_time_goes_on_while_a_script_runs() {
    let script = "local first, now = redis.call('time'), nil repeat now = redis.call('time') \
                  until now[1] ~= first[1] or now[2] ~= first[2] return 'later'";
    for kind in [Kind::Redis, Kind::Sleeve] {
        let server = Server::start(kind);
        let mut connection = server.connect();
        connection.send(b"MULTI\r\n").expect("sent");
        for words in [&["TIME"][..], &["EVAL", script, "0"], &["TIME"], &["EXEC"]] {
            connection.send(&sleeve_tests::connection::request(words)).expect("sent");
        }
        let replies: Vec<_> = (0..5).map(|_| connection.reply().expect("a reply")).collect();
        let parts = sleeve_tests::transcript::frame::children(&replies[4]).expect("an array");
        assert_eq!(text(parts[1]), "$5\r\nlater\r\n");
        assert_ne!(parts[0], parts[2]);
    }
}

#[test]
fn random_programs_end_or_are_ended() {
    let server = start();
    let mut random = Random::new(seed(24_601));
    let (mut connection, mut admin) = (server.connect(), server.connect());
    for round in 0..soak::count(150) {
        let body = programs::hostile(&mut random);
        let reply = match random.below(3) {
            0 => until_answered(&mut connection, &mut admin, &["EVAL", &body, "2", "a", "b", "c"], true),
            1 => until_answered(&mut connection, &mut admin, &["EVAL_RO", &body, "0"], true),
            _ => {
                let code = format!("#!lua name=x\nredis.register_function('f', function(KEYS, ARGV) {body} end)");
                until_answered(&mut connection, &mut admin, &["FUNCTION", "LOAD", "REPLACE", &code], true);
                until_answered(&mut connection, &mut admin, &["FCALL", "f", "0"], true)
            }
        };
        assert!(!reply.is_empty(), "program {round}:\n{body}");
        assert_eq!(text(&admin.command(&["PING"]).expect("the server lives")), "+PONG\r\n", "program {round}:\n{body}");
    }
}

/// Returns the reply to a request. If `ends` is set, a long script is killed.
fn until_answered(connection: &mut Connection, admin: &mut Connection, request: &[&str], ends: bool) -> Vec<u8> {
    connection.send(&sleeve_tests::connection::request(request)).unwrap_or_else(|error| panic!("{error}: {request:?}"));
    loop {
        let reply = connection.reply_within(Duration::from_millis(50));
        match reply.unwrap_or_else(|error| panic!("{error}: {request:?}")) {
            Some(reply) => return reply,
            None if ends => {
                for kind in ["SCRIPT", "FUNCTION"] {
                    admin.command(&[kind, "KILL"]).unwrap_or_else(|error| panic!("{error}: {request:?}"));
                }
            }
            None => {}
        }
    }
}

#[test]
fn libraries_answer_as_in_redis() {
    let (ours, theirs) = (Server::start(Kind::Sleeve), Server::start(Kind::Redis));
    let mut random = Random::new(seed(8_128));
    let (mut ours, mut theirs) = (ours.connect(), theirs.connect());
    for _ in 0..soak::count(1_500) {
        let script = programs::harmless(&mut random);
        let request = ["EVAL", &script, "0"];
        let (mine, other) = (ours.command(&request).expect("a reply"), theirs.command(&request).expect("a reply"));
        assert_eq!(text(&mine), text(&other), "{script}");
    }
}
