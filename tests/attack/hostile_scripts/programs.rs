//! Random programs in Lua: hostile ones, which call anything within reach with arguments that break programs, and harmless
//! ones, with results that can be compared with those of another server.
//!
//! Texts only. Any thread may call this.

use sleeve_tests::random::Random;

const NUMBERS: &[&str] = &[
    "0", "-0", "1", "-1", "2", "3", "16", "2^31", "-2^31", "2^31-1", "2^32", "2^53", "2^63", "-2^63", "1/0", "-1/0",
    "0/0", "1e308", "0.5", "-1.5", "1e5",
];

const TEXTS: &[&str] = &[
    "''",
    "'a'",
    "'a\\0b'",
    "'12'",
    "('a'):rep(300)",
    "('x'):rep(1e5)",
    "('.-'):rep(20)..'b'",
    "('(a)'):rep(40)",
    "('a?'):rep(2000)",
    "'%b()'",
    "'%f[%w]'",
    "'[a'",
    "'%'",
    "'^(.-)$'",
    "'[%a-z]*()'",
    "'%99.99f'",
    "'%q%s%d'",
    "'return ...'",
    "('{'):rep(300)",
    "'{\"a\":[1,null,{}]}'",
    "('['):rep(2000)",
    "'\\221\\255\\255\\255\\255'",
    "('\\145'):rep(2000)",
    "'>i8c0s'",
    "('b'):rep(9000)",
    "'collect'",
    "'k'",
];

const OTHERS: &[&str] = &[
    "nil",
    "true",
    "false",
    "{}",
    "{1,2,3}",
    "{3,'x',1}",
    "{err='E no'}",
    "{ok='yes'}",
    "{map={1}}",
    "{[2^40]=1}",
    "loop",
    "deep",
    "wide",
    "odd",
    "print",
    "cjson.null",
    "string",
    "redis",
    "_G",
    "co",
    "function(...) return ... end",
    "function() error({}) end",
    "function() error() end",
    "function() error('x', 2) end",
    "function() while true do end end",
    "function(a) return (tostring(a):gsub('.', again)) end",
    "function() return coroutine.yield(1) end",
    "function() return cjson.encode(deep) end",
];

const FUNCTIONS: &[&str] = &[
    "assert",
    "collectgarbage",
    "error",
    "gcinfo",
    "getmetatable",
    "ipairs",
    "load",
    "loadstring",
    "next",
    "pairs",
    "pcall",
    "rawequal",
    "rawget",
    "rawset",
    "select",
    "setmetatable",
    "tonumber",
    "tostring",
    "type",
    "unpack",
    "xpcall",
    "coroutine.create",
    "coroutine.resume",
    "coroutine.running",
    "coroutine.status",
    "coroutine.wrap",
    "coroutine.yield",
    "math.abs",
    "math.floor",
    "math.fmod",
    "math.max",
    "math.random",
    "math.randomseed",
    "math.ldexp",
    "string.byte",
    "string.char",
    "string.dump",
    "string.find",
    "string.format",
    "string.gmatch",
    "string.gsub",
    "string.len",
    "string.lower",
    "string.match",
    "string.rep",
    "string.reverse",
    "string.sub",
    "string.upper",
    "table.concat",
    "table.foreach",
    "table.foreachi",
    "table.getn",
    "table.insert",
    "table.maxn",
    "table.remove",
    "table.sort",
    "bit.band",
    "bit.bnot",
    "bit.bswap",
    "bit.lshift",
    "bit.rol",
    "bit.tobit",
    "bit.tohex",
    "cjson.encode",
    "cjson.decode",
    "cjson.encode_max_depth",
    "cjson.decode_max_depth",
    "cjson.encode_sparse_array",
    "cjson.encode_number_precision",
    "cjson.encode_invalid_numbers",
    "cjson.new",
    "cmsgpack.pack",
    "cmsgpack.unpack",
    "cmsgpack.unpack_one",
    "cmsgpack.unpack_limit",
    "struct.pack",
    "struct.unpack",
    "struct.size",
    "os.clock",
    "redis.sha1hex",
    "redis.setresp",
    "redis.error_reply",
    "redis.status_reply",
    "redis.call",
    "redis.pcall",
    "redis.set_repl",
    "redis.acl_check_cmd",
];

const PREAMBLE: &str = "local loop = {} loop[1] = loop loop[2] = loop loop.x = loop \
                        local deep = {} for i = 1, 2000 do deep = {deep} end \
                        local wide = {} for i = 1, 5000 do wide[i] = i % 13 end \
                        local function again(x) return tostring(x) end \
                        local odd = setmetatable({}, {__index = function(t, k) return k end, __tostring = error, \
                        __lt = function() return true end, __call = again, __concat = again}) \
                        local co = coroutine.create(function(...) while true do coroutine.yield(...) end end) \
                        local r = {} \n";

/// Returns a value, now and then the result of a call.
fn value(random: &mut Random, depth: usize) -> String {
    match random.below(8) {
        0..=2 => (*random.pick(NUMBERS)).to_owned(),
        3 | 4 => (*random.pick(TEXTS)).to_owned(),
        5 if depth < 3 => format!("(select(2, pcall({})))", call(random, depth + 1)),
        6 if !random.once_in(3) => (*random.pick(&["loop", "deep", "wide", "odd", "{1,2,3}"])).to_owned(),
        _ => (*random.pick(OTHERS)).to_owned(),
    }
}

/// Returns a function and its arguments.
fn call(random: &mut Random, depth: usize) -> String {
    let mut words = vec![(*random.pick(FUNCTIONS)).to_owned()];
    for _ in 0..random.below(5) {
        words.push(value(random, depth));
    }
    words.join(", ")
}

/// Returns a program that no server should fall over.
pub fn hostile(random: &mut Random) -> String {
    let mut text = PREAMBLE.to_owned();
    for _ in 0..=random.below(6) {
        let call = call(random, 0);
        text += &match random.below(6) {
            0 => format!("r[#r + 1] = {{pcall(coroutine.wrap(function() return pcall({call}) end))}}\n"),
            1 => format!("r[#r + 1] = {{pcall(string.gsub, 'abc', '.', function() return pcall({call}) end)}}\n"),
            2 => format!("pcall(table.sort, wide, function(a, b) pcall({call}) return a < b end)\n"),
            3 => format!("r[#r + 1] = {{xpcall(function() return pcall({call}) end, again)}}\n"),
            _ => format!("r[#r + 1] = {{pcall({call})}}\n"),
        };
    }
    let last = value(random, 0);
    text + &match random.below(3) {
        0 => "return r".to_owned(),
        1 => format!("return {last}"),
        _ => format!("error({last})"),
    }
}

/// Prints any result as text.
const SHOW: &str = "local function show(v) if type(v) ~= 'table' then \
                    return type(v) == 'function' and 'function' or type(v) .. ':' .. tostring(v) end \
                    local s = {} for i = -3, 12 do if v[i] ~= nil then s[#s + 1] = i .. '=' .. show(v[i]) end end \
                    return '{' .. table.concat(s, ',') .. '}' end \
                    local function all(...) local s = {} for i = 1, select('#', ...) do s[i] = show((select(i, ...))) end \
                    return table.concat(s, ' ') end ";

const ITEMS: &[&str] = &[
    "a", "b", ".", "%a", "%d", "%s", "%w", "%p", "%u", "%x", "%z", "%A", "[ab]", "[^a]", "[a-c]", "[%w_]", "[]]",
    "[^]]", "%.", "(", ")", "()", "(a)", "(.-)", "%1", "%b()", "%bab", "%f[%w]", "^", "$", "-", "*", "+", "?", "[",
    "]", "%", "%%", "\\0",
];

const SUBJECT: &[&str] =
    &["a", "b", "ab", "A", "1", " ", "_", "(", ")", "(a)", ".", "%", "\\0", "]", "-", "aaa", "foo", "\\255"];

const SMALL: &[&str] =
    &["0", "1", "2", "3", "5", "-1", "-2", "-5", "100", "2.7", "'2'", "nil", "'x'", "2^31", "-2^31", "2^32+2", "-2^63"];

fn quoted(random: &mut Random, pieces: &[&str], len_max: usize) -> String {
    let text: String = (0..random.below(len_max)).map(|_| *random.pick(pieces)).collect();
    format!("'{text}'")
}

/// Returns a list with an element of each kind now and then.
fn list(random: &mut Random, kinds: &[&str], len_max: usize) -> String {
    let elements: Vec<&str> = (0..random.below(len_max)).map(|_| *random.pick(kinds)).collect();
    format!("{{{}}}", elements.join(","))
}

/// Returns a program with a reply that is the same in Redis.
pub fn harmless(random: &mut Random) -> String {
    let (subject, pattern) = (quoted(random, SUBJECT, 12), quoted(random, ITEMS, 6));
    let (one, other) = (*random.pick(SMALL), *random.pick(SMALL));
    let numbers = list(random, &["1", "2", "3", "7", "-4", "0.5"], 12);
    let mixed = list(random, &["1", "'a'", "'bc'", "2.5", "nil", "true"], 6);
    let body = match random.below(14) {
        0 => format!("return all(pcall(string.find, {subject}, {pattern}, {one}, {}))", random.once_in(4)),
        1 => format!("return all(pcall(string.match, {subject}, {pattern}, {one}))"),
        2 => format!(
            "local s = {{}} local ok, e = pcall(function() for a, b in string.gmatch({subject}, {pattern}) do \
             s[#s + 1] = all(a, b) end end) return all(s, ok, e)"
        ),
        3 => format!("return all(pcall(string.gsub, {subject}, {pattern}, {}, {one}))", quoted(random, ITEMS, 4)),
        4 => {
            format!("return all(pcall(string.gsub, {subject}, {pattern}, {{a = 1, b = false, ab = 'x', foo = {{}}}}))")
        }
        5 => format!(
            "return all(pcall(string.gsub, {subject}, {pattern}, function(x, y) if y then return y end if x == 'a' then \
             return 7 end if x == 'b' then return {{}} end end))"
        ),
        6 => format!(
            "return all(pcall(string.rep, {subject}, {}))",
            random.pick(&["0", "1", "3", "-1", "2^32+2", "nil"])
        ),
        7 => format!("return all(pcall(unpack, {mixed}, {one}, {other}))"),
        8 => format!("local t = {mixed} local ok, e = pcall(table.remove, t, {one}) return all(ok, e, t)"),
        9 => {
            let place = random.pick(&["1", "2", "5", "-2", "'1'", "nil", "'x'", "2.7"]);
            format!("local t = {mixed} local ok, e = pcall(table.insert, t, {place}, 'new') return all(ok, e, t)")
        }
        10 => format!(
            "return all(pcall(table.concat, {mixed}, {}, {one}, {other}))",
            random.pick(&["nil", "','", "''", "1", "{}"])
        ),
        11 => format!(
            "return all(pcall(table.maxn, {{[{}] = 1, [2] = 2, x = 3, [-1] = 4}}))",
            random.pick(&["1", "2.5", "2^31", "-7"])
        ),
        12 => {
            let by =
                random.pick(&["nil", "function(a, b) return a > b end", "function() return true end", "1", "math.max"]);
            format!("local t = {numbers} local ok, e = pcall(table.sort, t, {by}) return all(ok, e, t)")
        }
        _ => format!("local t = {mixed} local ok, e = pcall(table.sort, t) return all(ok, e, t)"),
    };
    format!("{SHOW}{body}")
}
