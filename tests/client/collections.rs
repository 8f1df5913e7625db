//! The client's methods on collections, against real servers and against the engine inside.
//!
//! Every family is one function of a client; the macro at the bottom makes it a test against Valkey, which has all the
//! commands, against Sleeve's server in both protocols, and against an embedded engine.

use std::collections::{BTreeMap, HashMap, HashSet};

use sleeve::prelude::*;
use sleeve::{
    AddOptions, ClaimOptions, Client, CombineOptions, Error, GeoArea, GeoOptions, GeoUnit, GroupStart, ListEnd,
    ListSide, PosOptions, RankEnd, RankRange, ReadOptions, RestoreOptions, SortOptions, StreamTrim,
};

type Scored = Vec<(String, f64)>;

fn scored(pairs: &[(&str, f64)]) -> Scored {
    pairs.iter().map(|(member, score)| ((*member).to_owned(), *score)).collect()
}

fn sorted_set_members(client: &Client) -> Result<(), Error> {
    assert_eq!(client.zadd("z", [(1.0, "one"), (2.0, "two"), (3.5, "three")]).wait()?, 3);
    assert_eq!(client.zadd_with("z", (9, "one", 4, "four"), AddOptions::new().if_absent()).wait()?, 1);
    let greater = AddOptions::new().if_present().if_greater().count_changed();
    assert_eq!(client.zadd_with("z", [(0, "one"), (5, "four"), (5, "five")], greater).wait()?, 1);
    assert_eq!(client.zadd_incr_with("z", 1, "one", AddOptions::new().if_less()).wait()?, None);
    assert_eq!(client.zadd_incr("z", -0.5, "one").wait()?, Some(0.5));
    assert_eq!(client.zincrby("z", 0.5, "one").wait()?, 1.0);
    assert_eq!((client.zcard("z").wait()?, client.zcount("z", "(1", 5).wait()?), (4, 3));
    assert_eq!((client.zscore("z", "four").wait()?, client.zscore("z", "none").wait()?), (Some(5.0), None));
    assert_eq!(client.zmscore("z", ["one", "none"]).wait()?, [Some(1.0), None]);
    assert_eq!((client.zrank("z", "two").wait()?, client.zrevrank("z", "two").wait()?), (Some(1), Some(2)));
    assert_eq!((client.zrank("z", "none").wait()?, client.zrevrank("none", "two").wait()?), (None, None));
    assert_eq!(client.zrank_score("z", "two").wait()?, Some((1, 2.0)));
    assert_eq!(client.zrevrank_score("z", "none").wait()?, None);
    let (cursor, all) = client.zscan::<BTreeMap<String, f64>>("z", 0).wait()?;
    assert_eq!((cursor, all.len(), all["three"]), (0, 4, 3.5));
    assert!(client.zrandmember::<Option<String>>("none").wait()?.is_none());
    assert_eq!(client.zrandmember_count::<HashSet<String>>("z", 9).wait()?.len(), 4);
    assert_eq!(client.zrandmember_scores::<Scored>("z", -7).wait()?.len(), 7);
    assert_eq!(client.zpopmin::<Scored>("z").wait()?, scored(&[("one", 1.0)]));
    assert_eq!(client.zpopmax::<Scored>("z").wait()?, scored(&[("four", 5.0)]));
    assert_eq!(client.zpopmax_count::<Scored>("z", 1).wait()?, scored(&[("three", 3.5)]));
    let popped = client.zmpop::<Option<(String, Scored)>>(["none", "z"], RankEnd::Min, 5).wait()?;
    assert_eq!(popped, Some(("z".to_owned(), scored(&[("two", 2.0)]))));
    assert_eq!(client.zmpop::<Option<(String, Scored)>>("z", RankEnd::Max, 1).wait()?, None);
    assert!(client.zpopmin_count::<Scored>("z", 3).wait()?.is_empty());
    Ok(())
}

fn sorted_set_ranges(client: &Client) -> Result<(), Error> {
    client.zadd("z", [(1, "a"), (2, "b"), (3, "c"), (4, "d")]).wait()?;
    client.zadd("n", [(0, "a"), (0, "b"), (0, "c"), (0, "d")]).wait()?;
    let names = |range| client.zrange::<Vec<String>>("z", range).wait();
    assert_eq!(names(RankRange::by_rank(1, -2))?, ["b", "c"]);
    assert_eq!(names(RankRange::by_rank(0, 1).reverse())?, ["d", "c"]);
    assert_eq!(names(RankRange::by_score("(1", 3))?, ["b", "c"]);
    assert_eq!(names(RankRange::by_score(1, "+inf").reverse().limit(1, 2))?, ["c", "b"]);
    let by_name = RankRange::by_name("[b", "(d");
    assert_eq!(client.zrange::<Vec<String>>("n", by_name.clone()).wait()?, ["b", "c"]);
    let reversed = client.zrange_scores::<Scored>("z", RankRange::by_score(2, 3).reverse()).wait()?;
    assert_eq!(reversed, scored(&[("c", 3.0), ("b", 2.0)]));
    assert_eq!(client.zrangestore("d", "n", by_name).wait()?, 2);
    assert_eq!(client.zrangebyscore::<Vec<String>>("z", 2, 3).wait()?, ["b", "c"]);
    assert_eq!(client.zrangebyscore_limit::<Vec<String>>("z", "-inf", "inf", 3, -1).wait()?, ["d"]);
    assert_eq!(client.zrangebyscore_scores::<Scored>("z", "(3", 9).wait()?, scored(&[("d", 4.0)]));
    assert_eq!(client.zrevrangebyscore::<Vec<String>>("z", 3, 2).wait()?, ["c", "b"]);
    assert_eq!(client.zrevrangebyscore_limit::<Vec<String>>("z", 4, 1, 0, 1).wait()?, ["d"]);
    assert_eq!(client.zrevrangebyscore_scores::<Scored>("z", 1, 0).wait()?, scored(&[("a", 1.0)]));
    assert_eq!(client.zrangebylex::<Vec<String>>("n", "-", "[b").wait()?, ["a", "b"]);
    assert_eq!(client.zrangebylex_limit::<Vec<String>>("n", "-", "+", 2, 1).wait()?, ["c"]);
    assert_eq!(client.zrevrangebylex::<Vec<String>>("n", "[b", "-").wait()?, ["b", "a"]);
    assert_eq!(client.zrevrangebylex_limit::<Vec<String>>("n", "+", "-", 0, 1).wait()?, ["d"]);
    assert_eq!(client.zrevrange::<Vec<String>>("z", 0, 0).wait()?, ["d"]);
    assert_eq!(client.zrevrange_scores::<Scored>("z", -1, -1).wait()?, scored(&[("a", 1.0)]));
    assert_eq!(client.zlexcount("n", "(a", "+").wait()?, 3);
    assert_eq!(client.zremrangebylex("n", "-", "[b").wait()?, 2);
    assert_eq!(client.zremrangebyrank("n", 0, 0).wait()?, 1);
    assert_eq!(client.zremrangebyscore("z", "-inf", "(4").wait()?, 3);
    assert_eq!(client.zrem("z", ["d", "none"]).wait()?, 1);
    Ok(())
}

fn sorted_set_algebra(client: &Client) -> Result<(), Error> {
    client.zadd("a", [(1, "x"), (2, "y")]).wait()?;
    client.zadd("b", [(10, "y"), (20, "z")]).wait()?;
    let plain = CombineOptions::new;
    assert_eq!(client.zunion::<Vec<String>>(["a", "b"]).wait()?, ["x", "y", "z"]);
    let weighted = client.zunion_scores_with::<Scored>(["a", "b"], plain().weights([2.0, 0.5])).wait()?;
    assert_eq!(weighted, scored(&[("x", 2.0), ("y", 9.0), ("z", 10.0)]));
    assert_eq!(client.zunionstore_with("u", ["a", "b"], plain().max()).wait()?, 3);
    assert_eq!(client.zinter::<Vec<String>>(["a", "b"]).wait()?, ["y"]);
    assert_eq!(client.zinter_scores_with::<Scored>(["a", "b"], plain().min()).wait()?, scored(&[("y", 2.0)]));
    assert_eq!(client.zinterstore("i", ["a", "b"]).wait()?, 1);
    assert_eq!((client.zintercard(["a", "u"]).wait()?, client.zintercard_limit(["a", "u"], 1).wait()?), (2, 1));
    assert_eq!(client.zdiff::<Vec<String>>(["a", "b"]).wait()?, ["x"]);
    assert_eq!(client.zdiff_scores::<Scored>(["b", "a"]).wait()?, scored(&[("z", 20.0)]));
    assert_eq!(client.zdiffstore("d", ["a", "b"]).wait()?, 1);
    Ok(())
}

fn geo_indexes(client: &Client) -> Result<(), Error> {
    let towns = [(13.361389, 38.115556, "Palermo"), (15.087269, 37.502669, "Catania")];
    assert_eq!(client.geoadd("g", towns).wait()?, 2);
    let changed = AddOptions::new().if_present().count_changed();
    assert_eq!(client.geoadd_with("g", (13.361389, 38.115556, "Palermo"), changed).wait()?, 0);
    let km = GeoUnit::Kilometres;
    let distance = client.geodist("g", "Palermo", "Catania", km).wait()?.unwrap();
    assert!((166.0..167.0).contains(&distance), "{distance}");
    assert!(client.geodist("g", "Palermo", "Catania", GeoUnit::Miles).wait()? < Some(104.0));
    assert!(client.geodist("g", "Palermo", "Catania", GeoUnit::Feet).wait()? > Some(500_000.0));
    assert_eq!(client.geodist("g", "Palermo", "none", GeoUnit::Metres).wait()?, None);
    assert_eq!(client.geohash("g", ["Catania", "none"]).wait()?, [Some("sqdtr74hyu0".to_owned()), None]);
    let positions = client.geopos("g", ["none", "Palermo"]).wait()?;
    assert!(positions[0].is_none() && positions[1].is_some_and(|(longitude, _)| (13.36..13.37).contains(&longitude)));
    let nearest = GeoOptions::new().nearest_first();
    let area = GeoArea::around(15.0, 37.0).within(200.0, km);
    assert_eq!(client.geosearch_with::<Vec<String>>("g", area.clone(), nearest).wait()?, ["Catania", "Palermo"]);
    let all = nearest.with_position().with_distance().with_hash().count(1);
    let found = client.geosearch_with::<Vec<(String, f64, i64, (f64, f64))>>("g", area.clone(), all).wait()?;
    assert_eq!((found.len(), found[0].0.as_str(), found[0].2), (1, "Catania", 3_479_447_370_796_909));
    let boxed = GeoArea::around_member("Palermo").in_box(10.0, 10.0, km);
    assert_eq!(client.geosearch_with::<Vec<String>>("g", boxed.clone(), GeoOptions::new().any(5)).wait()?, ["Palermo"]);
    assert_eq!(client.geosearchstore("d", "g", area.clone()).wait()?, 2);
    assert_eq!(client.geosearchstore_storedist("d", "g", boxed).wait()?, 1);
    assert_eq!(client.zscore("d", "Palermo").wait()?, Some(0.0));
    let far = GeoOptions::new().farthest_first();
    assert_eq!(client.georadius_with::<Vec<String>>("g", (15.0, 37.0), 200.0, km, far).wait()?, ["Palermo", "Catania"]);
    assert_eq!(client.georadius_ro_with::<Vec<String>>("g", (15.0, 37.0), 100.0, km, far).wait()?, ["Catania"]);
    assert_eq!(client.georadius_store("g", (15, 37), 100, km, "d").wait()?, 1);
    assert_eq!(client.georadius_storedist("g", (15.0, 37.0), 200.0, km, "d").wait()?, 2);
    assert_eq!(client.georadiusbymember_with::<Vec<String>>("g", "Palermo", 1.0, km, far).wait()?, ["Palermo"]);
    assert_eq!(client.georadiusbymember_ro_with::<Vec<String>>("g", "Palermo", 200.0, km, far).wait()?[0], "Catania");
    assert_eq!(client.georadiusbymember_store_with("g", "Palermo", 1, km, "d", far).wait()?, 1);
    assert_eq!(client.georadiusbymember_storedist_with("g", "Palermo", 200.0, km, "d", far).wait()?, 2);
    Ok(())
}

fn dumps(client: &Client) -> Result<(), Error> {
    client.rpush("l", ["a", "b"]).wait()?;
    let dump = client.dump("l").wait()?.unwrap();
    assert!(client.dump("none").wait()?.is_none());
    client.restore("m", 0, &dump).wait()?;
    assert_eq!(client.lrange::<Vec<String>>("m", 0, -1).wait()?, ["a", "b"]);
    let again = client.restore("m", 0, &dump).wait().unwrap_err();
    assert_eq!(again.code(), Some("BUSYKEY"));
    let replace = RestoreOptions::new().replace().idle_s(100);
    client.restore_with("m", 100_000, &dump, replace).wait()?;
    assert!(client.ttl("m").wait()? > 90 && client.object_idletime("m").wait()? >= Some(100));
    let until = RestoreOptions::new().replace().absolute();
    client.restore_with("m", 4_000_000_000_000, &dump, until).wait()?;
    assert_eq!(client.pexpiretime("m").wait()?, 4_000_000_000_000);
    Ok(())
}

fn lists(client: &Client) -> Result<(), Error> {
    let all = |key: &str| client.lrange::<Vec<String>>(key, 0, -1).wait();
    assert_eq!((client.rpush("l", ["b", "c"]).wait()?, client.lpush("l", "a").wait()?), (2, 3));
    assert_eq!((client.rpushx("none", "x").wait()?, client.lpushx("l", "z").wait()?), (0, 4));
    assert_eq!(client.linsert("l", ListSide::After, "c", "d").wait()?, 5);
    assert_eq!(client.lindex::<Option<String>>("l", -1).wait()?.as_deref(), Some("d"));
    client.lset("l", 0, "a").wait()?;
    let last = PosOptions::new().rank(-1);
    assert_eq!((client.lpos_with("l", "a", last).wait()?, client.llen("l").wait()?), (Some(1), 5));
    assert_eq!(client.lpos_count("l", "a", 0).wait()?, [0, 1]);
    assert_eq!(client.lrem("l", 1, "a").wait()?, 1);
    client.ltrim("l", 0, 2).wait()?;
    assert_eq!(all("l")?, ["a", "b", "c"]);
    assert_eq!(client.lmove::<String>("l", "m", ListEnd::Right, ListEnd::Left).wait()?, "c");
    assert_eq!(client.rpoplpush::<String>("l", "m").wait()?, "b");
    assert_eq!(client.lpop::<String>("m").wait()?, "b");
    assert_eq!(client.rpop_count::<Vec<String>>("m", 5).wait()?, ["c"]);
    assert_eq!(client.rpop::<Option<String>>("m").wait()?, None);
    client.rpush("n", [3, 1, 2]).wait()?;
    assert_eq!(client.sort_with::<Vec<i64>>("n", SortOptions::new().descending()).wait()?, [3, 2, 1]);
    assert_eq!(client.sort_ro_with::<Vec<i64>>("n", SortOptions::new().limit(0, 1)).wait()?, [1]);
    assert_eq!(client.sort_store("n", "s").wait()?, 3);
    let taken = client.lmpop::<(String, Vec<i64>)>(["none", "s"], ListEnd::Left, 2).wait()?;
    assert_eq!(taken, ("s".to_owned(), vec![1, 2]));
    assert_eq!(client.lpop_count::<Vec<i64>>("s", 2).wait()?, [3]);
    Ok(())
}

fn sets_and_sketches(client: &Client) -> Result<(), Error> {
    let set = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<HashSet<String>>();
    assert_eq!((client.sadd("a", ["x", "y"]).wait()?, client.sadd("b", ["y", "z"]).wait()?), (2, 2));
    assert_eq!((client.scard("a").wait()?, client.sismember("a", "x").wait()?), (2, true));
    assert_eq!(client.smismember("a", ["x", "z"]).wait()?, [true, false]);
    assert_eq!(client.smembers::<HashSet<String>>("a").wait()?, set(&["x", "y"]));
    assert_eq!(client.sdiff::<HashSet<String>>(["a", "b"]).wait()?, set(&["x"]));
    assert_eq!(client.sinter::<HashSet<String>>(["a", "b"]).wait()?, set(&["y"]));
    assert_eq!(client.sunion::<HashSet<String>>(["a", "b"]).wait()?, set(&["x", "y", "z"]));
    assert_eq!(client.sdiffstore("d", ["a", "b"]).wait()?, 1);
    assert_eq!(client.sinterstore("i", ["a", "b"]).wait()?, 1);
    assert_eq!(client.sunionstore("u", ["a", "b"]).wait()?, 3);
    assert_eq!((client.sintercard(["a", "u"]).wait()?, client.sintercard_limit(["a", "u"], 1).wait()?), (2, 1));
    assert!(client.smove("a", "b", "x").wait()?);
    assert_eq!(client.srandmember::<String>("a").wait()?, "y");
    assert_eq!(client.srandmember_count::<Vec<String>>("a", -3).wait()?, ["y", "y", "y"]);
    assert_eq!(client.sscan::<Vec<String>>("a", 0).wait()?, (0, vec!["y".to_owned()]));
    assert_eq!(client.spop::<Option<String>>("a").wait()?.as_deref(), Some("y"));
    assert_eq!(client.spop_count::<HashSet<String>>("u", 9).wait()?.len(), 3);
    assert_eq!(client.srem("b", ["x", "y", "none"]).wait()?, 2);
    assert!(client.pfadd("p", ["a", "b"]).wait()?);
    client.pfmerge("q", ["p", "none"]).wait()?;
    assert_eq!(client.pfcount(["p", "q"]).wait()?, 2);
    assert_eq!(client.pfdebug::<String>("ENCODING", "p").wait()?, "sparse");
    client.pfselftest().wait()?;
    Ok(())
}

fn hashes(client: &Client) -> Result<(), Error> {
    assert_eq!(client.hset("h", [("a", "1"), ("b", "x")]).wait()?, 2);
    assert!(!client.hsetnx("h", "a", 5).wait()?);
    client.hmset("h", [("c", 3)]).wait()?;
    assert_eq!((client.hget::<i64>("h", "a").wait()?, client.hlen("h").wait()?), (1, 3));
    assert_eq!(client.hmget::<Vec<Option<String>>>("h", ["b", "none"]).wait()?, [Some("x".to_owned()), None]);
    assert_eq!(client.hgetall::<HashMap<String, String>>("h").wait()?["c"], "3");
    assert_eq!((client.hincrby("h", "a", 4).wait()?, client.hincrbyfloat("h", "a", 0.5).wait()?), (5, 5.5));
    assert!(client.hexists("h", "a").wait()? && !client.hexists("h", "none").wait()?);
    assert_eq!(client.hstrlen("h", "a").wait()?, 3);
    assert_eq!(client.hkeys::<Vec<String>>("h").wait()?.len(), client.hvals::<Vec<String>>("h").wait()?.len());
    assert!(client.hrandfield::<Option<String>>("h").wait()?.is_some());
    assert_eq!(client.hrandfield_count::<Vec<String>>("h", -4).wait()?.len(), 4);
    assert_eq!(client.hrandfield_pairs::<HashMap<String, String>>("h", 9).wait()?.len(), 3);
    let (cursor, pairs) = client.hscan::<HashMap<String, String>>("h", 0).wait()?;
    assert_eq!((cursor, pairs.len()), (0, 3));
    assert_eq!(client.hdel("h", ["a", "none"]).wait()?, 1);
    Ok(())
}

fn streams(client: &Client) -> Result<(), Error> {
    type Entries = Vec<(String, HashMap<String, String>)>;
    assert_eq!(client.xadd_id("s", "1-1", [("n", "1")]).wait()?, "1-1");
    assert_eq!(client.xadd_id("s", "2-1", [("n", "2")]).wait()?, "2-1");
    assert!(client.xadd_present("none", [("n", 1)]).wait()?.is_none());
    let third = client.xadd_trim("s", StreamTrim::last(10), [("n", "3")]).wait()?;
    assert_eq!((client.xlen("s").wait()?, client.xdel("s", &third).wait()?), (3, 1));
    assert_eq!(client.xrange::<Entries>("s", "-", "+").wait()?[1].1["n"], "2");
    assert_eq!(client.xrevrange_count::<Entries>("s", "+", "-", 1).wait()?[0].0, "2-1");
    client.xgroup_create("s", "g", GroupStart::first()).wait()?;
    assert!(client.xgroup_createconsumer("s", "g", "c").wait()?);
    let read =
        client.xreadgroup_with::<Vec<(String, Entries)>>("g", "c", "s", ">", ReadOptions::new().count(9)).wait()?;
    assert_eq!((read[0].0.as_str(), read[0].1.len()), ("s", 2));
    assert_eq!(client.xread::<Option<Vec<(String, Entries)>>>("s", "2-1").wait()?, None);
    let pending = client.xpending_range::<Vec<(String, String, i64, i64)>>("s", "g", "-", "+", 9).wait()?;
    assert_eq!((pending.len(), pending[0].0.as_str(), pending[0].3), (2, "1-1", 1));
    assert_eq!(client.xclaim_with::<Entries>("s", "g", "d", 0, "1-1", ClaimOptions::new().force()).wait()?.len(), 1);
    let claimed = client.xautoclaim::<(String, Entries, Vec<String>)>("s", "g", "d", 0, "-", 10).wait()?;
    assert_eq!((claimed.0.as_str(), claimed.1.len()), ("0-0", 2));
    assert_eq!(client.xack("s", "g", ["1-1", "2-1"]).wait()?, 2);
    assert_eq!(client.xgroup_delconsumer("s", "g", "d").wait()?, 0);
    client.xgroup_setid("s", "g", "0").wait()?;
    assert!(client.xgroup_destroy("s", "g").wait()?);
    client.xsetid("s", "900000000000000-1").wait()?;
    assert_eq!(client.xtrim("s", StreamTrim::from_id("2-1")).wait()?, 1);
    Ok(())
}

/// Makes each family a test against each place.
macro_rules! everywhere {
    ($($family:ident),* $(,)?) => {
        mod valkey { $(#[test] fn $family() { super::on_server(sleeve_tests::Kind::Valkey, super::$family); })* }
        mod embedded { $(#[test] fn $family() { super::$family(&sleeve::Client::embedded()).unwrap(); })* }
        mod sleeve_server { $(#[test] fn $family() { super::on_server(sleeve_tests::Kind::Sleeve, super::$family); })* }
    };
}

fn on_server(kind: sleeve_tests::Kind, family: fn(&Client) -> Result<(), Error>) {
    let server = sleeve_tests::Server::start(kind);
    family(&Client::connect(&server.url()).unwrap()).unwrap();
    // The same checks run in the other protocol, on an empty server.
    let client = Client::connect(&format!("{}?protocol=2", server.url())).unwrap();
    client.flushall().wait().unwrap();
    family(&client).unwrap();
}

everywhere! {
    sorted_set_members,
    sorted_set_ranges,
    sorted_set_algebra,
    geo_indexes,
    dumps,
    lists,
    sets_and_sketches,
    hashes,
    streams,
}
