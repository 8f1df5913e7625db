//! Renamed commands: the effect of `rename-command`, as in Redis.

use sleeve_server::{Config, Engine, Local};
use sleeve_tests::{Kind, Server};

use crate::commands::permissions::in_words_of_7_2;

const RENAMED: [(&str, &str); 6] =
    [("FlushDB", "badger"), ("config", "Cfg"), ("get", ""), ("set", "put"), ("PUT", "store"), ("blpop", "take")];

/// Requests that show which command is known under which name.
const REQUESTS: &[&str] = &[
    "get a",
    "set a 1",
    "put a 1",
    "store a 1",
    "STORE a 1",
    "store a",
    "flushdb",
    "badger x",
    "config get port",
    "config",
    "cfg",
    "cfg get maxmemory",
    "CFG nosuch",
    "command info flushdb config|get get",
    "command info badger cfg|get",
    "command list filterby pattern *flushdb*",
    "command list filterby pattern badger",
    "command list filterby pattern cfg*",
    "command list filterby pattern get",
    "command list filterby pattern config|g*",
    "command docs flushdb get",
    "command getkeys store a 1",
    "command getkeys set a 1",
    "acl setuser u +badger",
    "acl setuser u +flushdb",
    "acl setuser u +get",
    "acl setuser u ~* -@all +set",
    "acl dryrun u store a 1",
    "acl dryrun u set a 1",
    "acl dryrun u badger",
    "acl dryrun default badger",
    "latency histogram set",
    "eval return(redis.call('store','b','2')) 0",
    "eval return(redis.pcall('set','b','2')['err']) 0",
    "eval return(redis.call('get','b')) 0",
    "eval return(redis.acl_check_cmd('set','b','2')) 0",
    "eval return(redis.acl_check_cmd('store','b','2')) 0",
    "multi",
    "store m 1",
    "get m",
    "exec",
    "rpush l 1",
    "take l 0",
    "cfg set slowlog-log-slower-than 0",
    "exists a b m l",
    "badger",
    "exists a b m l",
];

#[test]
fn commands_answer_to_their_given_names_as_in_redis() {
    let arguments: Vec<_> = RENAMED.iter().flat_map(|&(old, new)| ["--rename-command", old, new]).collect();
    let servers = [Kind::Sleeve, Kind::Redis].map(|kind| Server::start_with(kind, &arguments));
    let mut both = servers.each_ref().map(Server::connect);
    for request in REQUESTS {
        let words: Vec<_> = request.split(' ').collect();
        let [ours, redis] = both.each_mut().map(|connection| connection.command(&words).expect("a reply"));
        let redis = in_words_of_7_2(&redis);
        assert_eq!(String::from_utf8_lossy(&ours), String::from_utf8_lossy(&redis), "{request}");
    }
    let counts = both.each_mut().map(|connection| {
        let ours = connection.command(&["COMMAND", "COUNT"]).expect("a reply");
        let listed = connection.command(&["COMMAND"]).expect("a reply");
        (ours[1..].to_vec(), listed[1..].split(|&byte| byte == b'\r').next().map(<[u8]>::to_vec))
    });
    for (counted, listed) in counts {
        assert_eq!(counted.strip_suffix(b"\r\n"), listed.as_deref());
    }
}

#[test]
fn the_journal_knows_commands_by_their_own_names() {
    let config = Config::default();
    for (old, new) in RENAMED {
        config.rename_command(old.as_bytes(), new.as_bytes()).expect(old);
    }
    let engine = Engine::new(config);
    let mut reader = engine.journal.subscribe();
    let mut local = Local::open(&engine, || {});
    for request in ["*3\r\n$5\r\nstore\r\n$1\r\na\r\n$1\r\n1\r\n", "*1\r\n$6\r\nbadger\r\n"] {
        let mut reply = Vec::new();
        local.exchange(request.as_bytes(), &mut reply).expect("an open session");
        assert_eq!(reply, b"+OK\r\n");
    }
    let mut journal = Vec::new();
    reader.read(&mut journal);
    let journal = String::from_utf8_lossy(&journal);
    assert!(journal.contains("\r\nset\r\n$1\r\na\r\n") && journal.ends_with("\r\nflushdb\r\n"), "{journal}");
}
