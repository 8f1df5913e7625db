//! Samples: the default arguments of each command and the requests that prepare for it, and the check of the arguments that a
//! user gives.

use sleeve_wire::arguments::Args;
use sleeve_wire::commands::{self, Row};
use sleeve_wire::{grammar, inline};

/// A command, and those that are run once before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    pub command: Vec<String>,
    pub before: Vec<Vec<String>>,
}

/// The sample of one command: the requests that run once before it, and its arguments.
struct Sample {
    name: &'static str,
    before: &'static [&'static str],
    arguments: &'static str,
}

const fn sample(name: &'static str, before: &'static [&'static str], arguments: &'static str) -> Sample {
    Sample { name, before, arguments }
}

/// A thousand elements, so that a command that removes one finds one at each call.
const LONG_LIST: &str = r#"EVAL "for i = 1, 1000 do redis.call('RPUSH', KEYS[1], i) end" 1 list"#;
const LARGE_SET: &str = r#"EVAL "for i = 1, 1000 do redis.call('SADD', KEYS[1], i) end" 1 set"#;
const LARGE_RANKING: &str = r#"EVAL "for i = 1, 1000 do redis.call('ZADD', KEYS[1], i, i) end" 1 ranking"#;

/// The commands that are looked at most.
const SAMPLES: &[Sample] = &[
    sample("GET", &["SET key value"], "key"),
    sample("SET", &[], "key value"),
    sample("INCR", &[], "counter"),
    sample("INCRBY", &[], "counter 5"),
    sample("APPEND", &[], "key value"),
    sample("STRLEN", &["SET key value"], "key"),
    sample("MGET", &["MSET a 1 b 2 c 3"], "a b c"),
    sample("MSET", &[], "a 1 b 2 c 3"),
    sample("DEL", &[], "key"),
    sample("EXISTS", &["SET key value"], "key"),
    sample("EXPIRE", &["SET key value"], "key 1000"),
    sample("TTL", &["SET key value EX 1000"], "key"),
    sample("TYPE", &["SET key value"], "key"),
    sample("LPUSH", &[], "list element"),
    sample("RPUSH", &[], "list element"),
    sample("LPOP", &[LONG_LIST], "list"),
    sample("RPOP", &[LONG_LIST], "list"),
    sample("LRANGE", &[LONG_LIST], "list 0 99"),
    sample("SADD", &[], "set member"),
    sample("SPOP", &[LARGE_SET], "set"),
    sample("SISMEMBER", &[LARGE_SET], "set 7"),
    sample("HSET", &[], "hash field value"),
    sample("HGET", &["HSET hash field value"], "hash field"),
    sample("HGETALL", &["HSET hash a 1 b 2 c 3"], "hash"),
    sample("ZADD", &[], "ranking 1 member"),
    sample("ZSCORE", &[LARGE_RANKING], "ranking 7"),
    sample("ZRANGE", &[LARGE_RANKING], "ranking 0 9"),
    sample("ZPOPMIN", &[LARGE_RANKING], "ranking"),
    sample("XADD", &[], "stream * field value"),
    sample("PUBLISH", &[], "channel message"),
    // The digest is that of the script's text.
    sample(
        "EVALSHA",
        &["SET key value", r#"SCRIPT LOAD "return redis.call('GET', KEYS[1])""#],
        "d3c21d0c2b9ca22f82737626a27bcaf5d288f99f 1 key",
    ),
];

/// Completes the user's words: a sample's arguments if there are none, and the requests that prepare for it.
///
/// # Errors
/// An unknown command, or a wrong number of arguments, with the expected form.
pub fn plan(said: &[String], before: &[String]) -> Result<Plan, String> {
    let mut command = said.to_vec();
    command[0].make_ascii_uppercase();
    let mut before: Vec<Vec<String>> = before.iter().map(|line| words(line)).collect::<Result<_, _>>()?;
    let sample = SAMPLES.iter().find(|sample| sample.name == command[0]);
    if let (Some(sample), [_]) = (sample, command.as_slice()) {
        command.extend(words(sample.arguments)?);
        if before.is_empty() {
            before = sample.before.iter().map(|line| words(line)).collect::<Result<_, _>>()?;
        }
    }
    let row = row(&command)?;
    if !row.takes(command.len()) {
        let name = row.full_name.replace('|', " ").to_uppercase();
        return Err(format!("give its arguments: cargo xtask walk {name} {}", grammar::syntax(row)));
    }
    Ok(Plan { command, before })
}

/// Returns the row of the command table that these words begin with.
fn row(words: &[String]) -> Result<&'static Row, String> {
    let row = commands::find(words[0].as_bytes()).ok_or_else(|| format!("there is no command {}", words[0]))?;
    let sub = words.get(1).and_then(|sub| commands::find_sub(row.id, sub.as_bytes()));
    Ok(sub.unwrap_or(row))
}

/// Returns the words of a line, which may stand in quotes.
fn words(line: &str) -> Result<Vec<String>, String> {
    let (mut bytes, mut spans) = (Vec::new(), Vec::new());
    if !inline::split(line.as_bytes(), &mut bytes, &mut spans) || spans.is_empty() {
        return Err(format!("these are no words of a command, or a quote is open: {line}"));
    }
    let words = Args::new(&bytes, &spans);
    Ok(words.iter().map(|word| String::from_utf8_lossy(word).into_owned()).collect())
}

#[cfg(test)]
mod tests {
    use super::{SAMPLES, plan};

    fn said(line: &str) -> Vec<String> {
        line.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn each_sample_is_a_command_with_arguments_that_it_takes() {
        for sample in SAMPLES {
            let plan = plan(&said(sample.name), &[]).unwrap_or_else(|reason| panic!("{}: {reason}", sample.name));
            assert_eq!(plan.before.len(), sample.before.len(), "{}", sample.name);
        }
    }

    #[test]
    fn arguments_given_replace_a_sample() {
        let plan = plan(&said("get other"), &["SET other 'two words'".to_owned()]).expect("GET takes a key");
        assert_eq!(plan.command, ["GET", "other"]);
        assert_eq!(plan.before, [["SET", "other", "two words"]]);
    }

    #[test]
    fn arguments_that_no_command_takes_are_refused_with_its_grammar() {
        assert_eq!(plan(&said("NONE"), &[]).expect_err("no such command"), "there is no command NONE");
        let refused = plan(&said("XRANGE"), &[]).expect_err("it has no sample");
        assert_eq!(refused, "give its arguments: cargo xtask walk XRANGE key start end [COUNT count]");
        assert!(plan(&said("CONFIG get"), &[]).is_err_and(|reason| reason.contains("walk CONFIG GET")));
        assert!(plan(&said("GET"), &["SET 'key".to_owned()]).is_err_and(|reason| reason.contains("quote")));
        assert!(plan(&said("DBSIZE"), &[]).is_ok_and(|plan| plan.command == ["DBSIZE"]));
    }
}
