//! Hostile scripts: random statements over everything that a script can reach.
//!
//! Endless loops stand first, so that nothing has been written and SCRIPT KILL may end them; other loops are short. Choices
//! only; one thread uses it at a time.

use sleeve_tests::generator::{Generator, edges};
use sleeve_tests::random::Random;

/// The functions that [`library`] registers, and one that does not exist.
pub const FUNCTIONS: &[&str] = &["f0", "f1", "f2", "nosuch"];

/// Expressions in which `N` stands for a number, `S` for a string, `P` for a pattern, `T` for a table and `E` for another
/// expression.
const EXPRESSIONS: &[&str] = &[
    "N",
    "S",
    "T",
    "KEYS[N]",
    "ARGV",
    "#ARGV",
    "string.rep(S, N)",
    "string.rep('x', 100000)",
    "string.sub(S, N, N)",
    "string.byte(S, N, N)",
    "string.char(N, N)",
    "string.format(S, N, S)",
    "string.format('%99.99f %5s %q %d %x', N, S, S, N, N)",
    "string.find(S, P, N)",
    "string.find(S, S, N, true)",
    "string.match(S, P)",
    "string.gsub(S, P, S, N)",
    "string.gsub(S, '.', function(c) return E end)",
    "string.find(string.rep('a', 2000), string.rep('a?', 12) .. 'b')",
    "string.find(string.rep('a', 40000), string.rep('a', 40000))",
    "string.find(string.rep('a', 10000), '.-b')",
    "string.gsub(string.rep('a', 1000), 'a', string.rep('b', 1000))",
    "string.match(string.rep('(', 300), string.rep('(.', 40))",
    "string.reverse(S)",
    "string.dump(function() end)",
    "string.len(S)",
    "table.concat(T, S, N, N)",
    "table.concat({1, 2, 3}, S, -1, 1)",
    "table.sort({3, 1, 2}, function(a, b) return true end)",
    "table.insert({}, (N) % 1000, E)",
    "table.remove({1, 2}, N)",
    "table.getn(T)",
    "table.maxn(T)",
    "unpack(T)",
    "unpack({}, N, N)",
    "unpack({}, -2147483648, 2147483647)",
    "unpack({1}, 2147483640, 2147483647)",
    "unpack({}, 1, 5000)",
    "select(N, 1, 2)",
    "select('#', E)",
    "tonumber(S, N)",
    "tostring(E)",
    "type(E)",
    "next(T, E)",
    "rawget(T, E)",
    "rawset(T, N, E)",
    "rawset(_G, S, E)",
    "setmetatable({}, {__index = function(t, k) return E end})[1]",
    "setmetatable({}, {__tostring = function() error(S) end})",
    "getmetatable(S)",
    "pcall(error, E)",
    "xpcall(function() error(E) end, function(e) error(e) end)",
    "loadstring(S)",
    "loadstring('return ' .. S)()",
    "load(function() return S end)",
    "assert(loadstring(string.rep('(', 300)))",
    "coroutine.wrap(function() coroutine.yield(E) end)()",
    "collectgarbage(S)",
    "collectgarbage('count')",
    "newproxy(true)",
    "math.random(N)",
    "math.random(N, N)",
    "math.randomseed(N)",
    "math.fmod(N, N)",
    "math.floor(N)",
    "math.ldexp(N, N)",
    "os.clock()",
    "os.time(T)",
    "cjson.encode(E)",
    "cjson.decode(S)",
    "cjson.decode(string.rep('[', 1100))",
    "cjson.decode(string.rep('[', 990) .. string.rep(']', 990))",
    "cjson.encode(cjson.decode(string.rep('[', 900) .. string.rep(']', 900)))",
    "cjson.encode({[N] = E})",
    "cjson.encode_keep_buffer(S)",
    "cjson.encode_max_depth(N)",
    "cjson.decode_max_depth(N)",
    "cjson.encode_sparse_array(true, N, N)",
    "cjson.encode_number_precision(N)",
    "cmsgpack.pack(E)",
    "cmsgpack.pack(E, E)",
    "cmsgpack.unpack(S)",
    "cmsgpack.unpack('\\220\\255\\255\\255\\255')",
    "cmsgpack.unpack(string.rep('\\145', 5000))",
    "cmsgpack.unpack_one(S, N)",
    "cmsgpack.unpack_limit(S, N, N)",
    "struct.pack(S, N, S)",
    "struct.pack('I' .. S, N)",
    "struct.pack('>I8i4c0', N, N, S)",
    "struct.unpack(S, S)",
    "struct.unpack('I4', S, N)",
    "struct.unpack('c0c2147483647', S)",
    "struct.unpack('s', S, N)",
    "struct.size(S)",
    "bit.lshift(N, N)",
    "bit.rol(N, N)",
    "bit.tohex(N, N)",
    "bit.bnot(N)",
    "redis.sha1hex(S)",
    "redis.log(redis.LOG_DEBUG, S)",
    "redis.log(N, S)",
    "redis.setresp(N)",
    "redis.setresp(3)",
    "redis.set_repl(N)",
    "redis.breakpoint()",
    "redis.debug(E)",
    "redis.replicate_commands()",
    "redis.error_reply(S)",
    "redis.status_reply(S)",
    "redis.error_reply(N)",
    "redis.acl_check_cmd(S, S)",
    "redis.acl_check_cmd('SET', S, S)",
    "redis.register_function(S, function() end)",
    "redis.call(S)",
    "redis.call()",
    "redis.call('SET', S, S)",
    "redis.call('GET', E)",
    "redis.pcall('RESTORE', S, 0, S)",
    "redis.pcall('MEMORY', 'USAGE', S)",
    "redis.pcall('INFO', 'everything')",
    "redis.pcall('COMMAND')",
    "redis.pcall(unpack(ARGV))",
    "redis.call(unpack(ARGV))",
    "{err = S}",
    "{ok = S}",
    "{double = N}",
    "{map = T}",
    "{set = T}",
    "{big_number = S}",
    "{verbatim_string = {string = S, format = S}}",
    "{E, E}",
    "{E, {E, {E}}}",
    "{[N] = E}",
    "(function() local t = {} t[1] = t return t end)()",
    "(function() local t = {} for i = 1, 7000 do t = {t} end return t end)()",
    "(function() local t = {} for i = 1, 900 do t = {t} end return t end)()",
    "(function() local function f() return 1 + f() end return f() end)()",
    "(function(...) return ... end)(E, E)",
    "-E",
    "not E",
    "E .. E",
    "E == E",
    "E < E",
    "E + E",
    "E / E",
    "E % E",
    "E ^ E",
    "#E",
    "_G",
    "redis",
    "nosuch",
    "print",
    "server",
];

/// Statements, with the same letters.
const STATEMENTS: &[&str] = &[
    "local v = E",
    "local a, b = E, E",
    "for i = 1, 3 do local v = E end",
    "local n = 0 for i = N, 1e999 do n = n + 1 if n > 100 then break end end",
    "for k, v in pairs(T) do local w = E end",
    "for w in string.gmatch(S, P) do local v = w break end",
    "pcall(function() return E end)",
    "pcall(function() return E end)",
    "pcall(function() return E end)",
    "redis.pcall(unpack(ARGV))",
    "if E then return E end",
    "return E",
    "KEYS = E",
    "KEYS[1] = E",
    "redis.call = nil",
    "string.rep = nil",
    "error(E)",
    "local t = T table.insert(t, E)",
];

/// Statements that do not end by themselves.
const ENDLESS: &[&str] = &[
    "while true do end",
    "while true do pcall(error) end",
    "local function f() return f() end f()",
    "for i = 1, 1e18 do redis.call('EXISTS', KEYS[1]) end",
    "repeat local s = string.rep('x', 1000) until false",
    "local s = 'x' while true do s = s .. s if #s > 1e6 then s = 'x' end end",
    "string.find(string.rep('a', 300000), '.-b')",
    "for i = -2^63, 1e999 do if i > 100 then break end end",
    "table.insert({}, 2^31, 1)",
];

/// Returns a script.
pub fn body(generator: &mut Generator) -> Vec<u8> {
    let random = generator.random();
    if random.once_in(150) {
        return random.pick(ENDLESS).as_bytes().to_vec();
    }
    if random.once_in(40) {
        return edges::bytes(random);
    }
    let mut text = Vec::new();
    if random.once_in(6) {
        let heads: &[&str] = &[
            "#!lua\n",
            "#!lua flags=no-writes\n",
            "#!lua flags=allow-oom,allow-stale\n",
            "#!lua flags=nosuch\n",
            "#!luau\n",
            "#!",
        ];
        text.extend(random.pick(heads).bytes());
    }
    for _ in 0..=random.below(4) {
        let statement = *random.pick(STATEMENTS);
        expand(statement, 0, random, &mut text);
        text.push(b'\n');
    }
    text.extend(b"return ");
    expand("E", 0, random, &mut text);
    text
}

/// Returns a library of functions.
pub fn library(generator: &mut Generator) -> Vec<u8> {
    let random = generator.random();
    let mut text = b"#!lua name=hostile\n".to_vec();
    if random.once_in(4) {
        let statement = *random.pick(STATEMENTS);
        expand(statement, 0, random, &mut text);
        text.push(b'\n');
    }
    for name in &FUNCTIONS[..3] {
        let mut inside = Vec::new();
        expand("E", 0, random, &mut inside);
        text.extend(format!("redis.register_function('{name}', function(KEYS, ARGV) return ").bytes());
        text.extend(inside);
        text.extend(b" end)\n");
    }
    text
}

/// Writes a text with its letters replaced by the phrases that they stand for.
fn expand(text: &str, depth: usize, random: &mut Random, out: &mut Vec<u8>) {
    let bytes = text.as_bytes();
    for (index, &byte) in bytes.iter().enumerate() {
        let is_word =
            |at: Option<&u8>| at.is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_' || *byte == b'\'');
        let alone = !is_word(index.checked_sub(1).and_then(|at| bytes.get(at))) && !is_word(bytes.get(index + 1));
        match byte {
            b'N' if alone => out.extend(number(random)),
            b'S' if alone => string(random, out),
            b'P' if alone => out.extend(format!("'{}'", random.pick(PATTERNS)).bytes()),
            b'T' if alone => out.extend(random.pick(TABLES).bytes()),
            b'E' if alone && depth < 4 => {
                let inner = *random.pick(EXPRESSIONS);
                expand(inner, depth + 1, random, out);
            }
            b'E' if alone => out.extend(b"nil"),
            _ => out.push(byte),
        }
    }
}

/// Patterns, none of which takes time that grows faster than the square of the text: nothing ends a match before its end.
const PATTERNS: &[&str] = &[
    "",
    ".",
    "%",
    "[",
    "[^",
    "[]]",
    "[a-",
    "(",
    ")",
    "(()",
    "(.)%1",
    "%2",
    "%b()",
    "%b",
    "%f[a]",
    "%f",
    "^a-b$",
    ".-b",
    "%z",
    "[%",
    "(a*(.)%w(%s*))",
];

/// Tables.
const TABLES: &[&str] = &[
    "{}",
    "{1, 2, 3}",
    "{'a', nil, 'b'}",
    "{a = 1, b = {c = {}}}",
    "{[1e15] = 1}",
    "{[-1] = 1, [0] = 2}",
    "{1.5, true, false}",
    "KEYS",
    "ARGV",
    "setmetatable({}, {__index = function() return 1 end, __len = function() return 1e9 end})",
];

fn number(random: &mut Random) -> Vec<u8> {
    let numbers =
        ["0/0", "1/0", "-1/0", "-0", "1e308", "2^31", "-2^31", "2^53", "2^63", "-2^63", "1e15", "3", "-3", "'7'"];
    random.pick(&numbers).as_bytes().to_vec()
}

/// A string in Lua's notation.
fn string(random: &mut Random, out: &mut Vec<u8>) {
    let bytes = edges::any(random);
    out.push(b'"');
    for byte in &bytes[..bytes.len().min(5_000)] {
        out.extend(format!("\\{byte:03}").bytes());
    }
    out.push(b'"');
}
