//! Scripts and a library of functions that the generator lets the servers run.
//!
//! Most of them run another random command, so that every command is also called from a script. Texts only; any thread
//! may read them.

/// A script, the keys that it needs, and whether its first arguments are a command that it runs.
#[derive(Debug)]
pub struct Script {
    /// The source.
    pub text: &'static str,
    /// The SHA-1 of the source, in hexadecimal digits.
    pub digest: &'static str,
    /// The least number of keys that it takes.
    pub keys: usize,
    /// True if the script's arguments are the words of a command.
    pub runs_command: bool,
}

/// The scripts that run.
pub const SCRIPTS: &[Script] = &[
    Script {
        text: "return redis.call(unpack(ARGV))",
        digest: "3c44b7a40779a5c68a6e3920550ff76660a813aa",
        keys: 0,
        runs_command: true,
    },
    Script {
        text: "return redis.pcall(unpack(ARGV))",
        digest: "b72d50ecdcafd5e07f3fca2060a111de46c547f9",
        keys: 0,
        runs_command: true,
    },
    Script {
        text: "redis.setresp(3); return redis.call(unpack(ARGV))",
        digest: "8ac29534f14299231cff97c7f23a2f542307a0c9",
        keys: 0,
        runs_command: true,
    },
    Script {
        text: "local r = redis.pcall(unpack(ARGV)) redis.call('INCR', KEYS[1]) \
               if type(r) == 'table' and r.err then return {err = r.err} end return {KEYS[1], #KEYS, 4.7, true, false}",
        digest: "084aed262cb98f32b90678affed0a42c5a65f296",
        keys: 1,
        runs_command: true,
    },
    Script {
        text: "redis.call('SET', KEYS[1], ARGV[1]) redis.call('EXPIRE', KEYS[1], 100000) \
               return {redis.call('GET', KEYS[1]), cjson.encode({ARGV[1]}), #ARGV[1]}",
        digest: "7310fff25a5208a461401049f523e8205d8fdf28",
        keys: 1,
        runs_command: false,
    },
    Script {
        text: "for i = 1, #KEYS do redis.call('DEL', KEYS[i]) redis.call('RPUSH', KEYS[i], i, ARGV[1], #ARGV) end \
               return redis.status_reply('DONE')",
        digest: "b5474cbd2fbc63804f17fc47484949c2358b16df",
        keys: 1,
        runs_command: false,
    },
    Script {
        text: "redis.call('SET', KEYS[1], 'half') return redis.call('LPUSH', KEYS[1], ARGV[1] + 1)",
        digest: "6143fc3b9e6a72afabd90889f3b3e6e6d766b715",
        keys: 1,
        runs_command: false,
    },
];

/// Sources that are refused.
pub const BROKEN: &[&str] = &["return (", "return nosuch", "return redis.call()", "return redis.call('nosuch')", ""];

/// A library of functions that run a command, count, and only read.
pub const LIBRARY: &str = "#!lua name=proof\n\
    redis.register_function('run', function(keys, args) return redis.call(unpack(args)) end)\n\
    redis.register_function('count', function(keys, args) return redis.call('INCR', keys[1]) end)\n\
    redis.register_function{function_name = 'look', flags = {'no-writes'}, \
    callback = function(keys, args) return redis.call(unpack(args)) end}";

/// The functions of [`LIBRARY`], and one that does not exist.
pub const FUNCTIONS: &[&str] = &["run", "run", "run", "count", "look", "look", "nosuch"];
