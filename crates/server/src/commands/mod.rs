//! The commands, one file a family; this file only says which function runs which row.
//!
//! A command is a function of a [`Cx`] and a [`Request`] that writes its reply or returns why it refuses. It finds the
//! locks of its keys held. The match below has no wildcard: a row without its function does not build.

mod acl;
mod admin;
mod bitfield;
mod bitmap;
mod bitop;
mod client;
mod client_filter;
mod cluster;
mod config;
mod connection;
mod deadline;
mod debug;
mod digest;
mod docs;
mod draws;
mod dump;
mod expiry;
mod function;
mod function_dump;
mod geo;
mod geo_search;
mod geohash;
mod hash;
mod hash_expiry;
mod hash_timed;
mod hash_walk;
mod help;
mod hyperloglog;
mod info;
mod introspect;
mod iteration;
mod key;
mod keyspace;
mod latency;
mod lcs;
mod lines;
mod list;
mod list_find;
mod list_move;
mod list_wait;
mod lolwut;
mod memory;
mod migrate;
mod module;
mod monitor;
mod object;
pub mod permission;
mod persistence;
mod pubsub;
mod replication;
mod report;
mod script;
#[cfg(debug_assertions)]
mod seeded_bug;
mod set;
mod set_algebra;
mod set_random;
mod slowlog;
mod sort;
mod stream;
mod stream_group;
mod stream_id;
mod stream_info;
mod stream_pending;
mod stream_read;
mod stream_reply;
mod stream_trim;
mod string;
mod tracking;
pub mod transaction;
mod waiting;
mod zset;
mod zset_algebra;
mod zset_pop;
mod zset_random;
mod zset_range;

use sleeve_wire::commands::Command;

use crate::cx::Cx;
use crate::error::{Error, Outcome};
use crate::request::Request;

/// Runs the function of the request's row.
#[inline]
pub fn run(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    match request.row.id {
        Command::GeoAdd => geo::geoadd(cx, request),
        Command::GeoDist => geo::geodist(cx, request),
        Command::GeoHash => geo::geohash(cx, request),
        Command::GeoPos => geo::geopos(cx, request),
        Command::GeoRadius => geo_search::georadius(cx, request),
        Command::GeoRadiusByMember => geo_search::georadiusbymember(cx, request),
        Command::GeoSearch => geo_search::geosearch(cx, request),
        Command::GeoSearchStore => geo_search::geosearchstore(cx, request),
        Command::GeoRadiusRo => geo_search::georadius_ro(cx, request),
        Command::GeoRadiusByMemberRo => geo_search::georadiusbymember_ro(cx, request),
        Command::BZMPop => zset_pop::bzmpop(cx, request),
        Command::BZPopMax => zset_pop::bzpopmax(cx, request),
        Command::BZPopMin => zset_pop::bzpopmin(cx, request),
        Command::ZAdd => zset::zadd(cx, request),
        Command::ZCard => zset::zcard(cx, request),
        Command::ZCount => zset_range::zcount(cx, request),
        Command::ZDiff => zset_algebra::zdiff(cx, request),
        Command::ZDiffStore => zset_algebra::zdiffstore(cx, request),
        Command::ZIncrBy => zset::zincrby(cx, request),
        Command::ZInter => zset_algebra::zinter(cx, request),
        Command::ZInterCard => zset_algebra::zintercard(cx, request),
        Command::ZInterStore => zset_algebra::zinterstore(cx, request),
        Command::ZLexCount => zset_range::zlexcount(cx, request),
        Command::ZMPop => zset_pop::zmpop(cx, request),
        Command::ZMScore => zset::zmscore(cx, request),
        Command::ZPopMax => zset_pop::zpopmax(cx, request),
        Command::ZPopMin => zset_pop::zpopmin(cx, request),
        Command::ZRandMember => zset_random::zrandmember(cx, request),
        Command::ZRange => zset_range::zrange(cx, request),
        Command::ZRangeByLex => zset_range::zrangebylex(cx, request),
        Command::ZRangeByScore => zset_range::zrangebyscore(cx, request),
        Command::ZRangeStore => zset_range::zrangestore(cx, request),
        Command::ZRank => zset::zrank(cx, request),
        Command::ZRem => zset::zrem(cx, request),
        Command::ZRemRangeByLex => zset_range::zremrangebylex(cx, request),
        Command::ZRemRangeByRank => zset_range::zremrangebyrank(cx, request),
        Command::ZRemRangeByScore => zset_range::zremrangebyscore(cx, request),
        Command::ZRevRange => zset_range::zrevrange(cx, request),
        Command::ZRevRangeByLex => zset_range::zrevrangebylex(cx, request),
        Command::ZRevRangeByScore => zset_range::zrevrangebyscore(cx, request),
        Command::ZRevRank => zset::zrevrank(cx, request),
        Command::ZScan => zset_random::zscan(cx, request),
        Command::ZScore => zset::zscore(cx, request),
        Command::ZUnion => zset_algebra::zunion(cx, request),
        Command::ZUnionStore => zset_algebra::zunionstore(cx, request),
        Command::Append => string::append(cx, request),
        Command::Decr => string::decr(cx, request),
        Command::DecrBy => string::decrby(cx, request),
        Command::Get => string::get(cx, request),
        Command::GetDel => string::getdel(cx, request),
        Command::GetEx => string::getex(cx, request),
        Command::GetRange => string::getrange(cx, request),
        Command::GetSet => string::getset(cx, request),
        Command::Incr => string::incr(cx, request),
        Command::IncrBy => string::incrby(cx, request),
        Command::IncrByFloat => string::incrbyfloat(cx, request),
        Command::Lcs => lcs::lcs(cx, request),
        Command::MGet => string::mget(cx, request),
        Command::MSet => string::mset(cx, request),
        Command::MSetNx => string::msetnx(cx, request),
        Command::PSetEx => string::psetex(cx, request),
        Command::Set => string::set(cx, request),
        Command::SetEx => string::setex(cx, request),
        Command::SetNx => string::setnx(cx, request),
        Command::SetRange => string::setrange(cx, request),
        Command::StrLen => string::strlen(cx, request),
        Command::SubStr => string::getrange(cx, request),
        Command::BLMove => list_wait::blmove(cx, request),
        Command::BLMPop => list_wait::blmpop(cx, request),
        Command::BLPop => list_wait::blpop(cx, request),
        Command::BRPop => list_wait::brpop(cx, request),
        Command::BRPopLPush => list_wait::brpoplpush(cx, request),
        Command::LIndex => list::lindex(cx, request),
        Command::LInsert => list::linsert(cx, request),
        Command::LLen => list::llen(cx, request),
        Command::LMove => list_move::lmove(cx, request),
        Command::LMPop => list_move::lmpop(cx, request),
        Command::LPop => list::lpop(cx, request),
        Command::LPos => list_find::lpos(cx, request),
        Command::LPush => list::lpush(cx, request),
        Command::LPushX => list::lpushx(cx, request),
        Command::LRange => list::lrange(cx, request),
        Command::LRem => list::lrem(cx, request),
        Command::LSet => list::lset(cx, request),
        Command::LTrim => list::ltrim(cx, request),
        Command::RPop => list::rpop(cx, request),
        Command::RPopLPush => list_move::rpoplpush(cx, request),
        Command::RPush => list::rpush(cx, request),
        Command::RPushX => list::rpushx(cx, request),
        Command::SAdd => set::sadd(cx, request),
        Command::SCard => set::scard(cx, request),
        Command::SDiff => set_algebra::sdiff(cx, request),
        Command::SDiffStore => set_algebra::sdiffstore(cx, request),
        Command::SInter => set_algebra::sinter(cx, request),
        Command::SInterCard => set_algebra::sintercard(cx, request),
        Command::SInterStore => set_algebra::sinterstore(cx, request),
        Command::SIsMember => set::sismember(cx, request),
        Command::SMIsMember => set::smismember(cx, request),
        Command::SMembers => set::smembers(cx, request),
        Command::SMove => set::smove(cx, request),
        Command::SPop => set_random::spop(cx, request),
        Command::SRandMember => set_random::srandmember(cx, request),
        Command::SRem => set::srem(cx, request),
        Command::SScan => set::sscan(cx, request),
        Command::SUnion => set_algebra::sunion(cx, request),
        Command::SUnionStore => set_algebra::sunionstore(cx, request),
        Command::PfAdd => hyperloglog::pfadd(cx, request),
        Command::PfCount => hyperloglog::pfcount(cx, request),
        Command::PfDebug => hyperloglog::pfdebug(cx, request),
        Command::PfMerge => hyperloglog::pfmerge(cx, request),
        Command::PfSelfTest => hyperloglog::pfselftest(cx, request),
        Command::HDel => hash::hdel(cx, request),
        Command::HExists => hash::hexists(cx, request),
        Command::HExpire => hash_expiry::hexpire(cx, request),
        Command::HExpireAt => hash_expiry::hexpireat(cx, request),
        Command::HExpireTime => hash_expiry::hexpiretime(cx, request),
        Command::HGet => hash::hget(cx, request),
        Command::HGetAll => hash::hgetall(cx, request),
        Command::HGetDel => hash_timed::hgetdel(cx, request),
        Command::HGetEx => hash_timed::hgetex(cx, request),
        Command::HIncrBy => hash::hincrby(cx, request),
        Command::HIncrByFloat => hash::hincrbyfloat(cx, request),
        Command::HKeys => hash::hkeys(cx, request),
        Command::HLen => hash::hlen(cx, request),
        Command::HMGet => hash::hmget(cx, request),
        Command::HMSet => hash::hmset(cx, request),
        Command::HPExpire => hash_expiry::hpexpire(cx, request),
        Command::HPExpireAt => hash_expiry::hpexpireat(cx, request),
        Command::HPExpireTime => hash_expiry::hpexpiretime(cx, request),
        Command::HPTtl => hash_expiry::hpttl(cx, request),
        Command::HPersist => hash_expiry::hpersist(cx, request),
        Command::HRandField => hash_walk::hrandfield(cx, request),
        Command::HScan => hash_walk::hscan(cx, request),
        Command::HSet => hash::hset(cx, request),
        Command::HSetEx => hash_timed::hsetex(cx, request),
        Command::HSetNx => hash::hsetnx(cx, request),
        Command::HStrLen => hash::hstrlen(cx, request),
        Command::HTtl => hash_expiry::httl(cx, request),
        Command::HVals => hash::hvals(cx, request),
        Command::XAck => stream_group::xack(cx, request),
        Command::XAdd => stream::xadd(cx, request),
        Command::XAutoClaim => stream_pending::xautoclaim(cx, request),
        Command::XClaim => stream_pending::xclaim(cx, request),
        Command::XDel => stream::xdel(cx, request),
        Command::XGroupCreate => stream_group::create(cx, request),
        Command::XGroupCreateConsumer => stream_group::create_consumer(cx, request),
        Command::XGroupDelConsumer => stream_group::delete_consumer(cx, request),
        Command::XGroupDestroy => stream_group::destroy(cx, request),
        Command::XGroupHelp => help::help(cx, Command::XGroup),
        Command::XGroupSetId => stream_group::set_id(cx, request),
        Command::XInfoConsumers => stream_info::consumers(cx, request),
        Command::XInfoGroups => stream_info::groups(cx, request),
        Command::XInfoHelp => help::help(cx, Command::XInfo),
        Command::XInfoStream => stream_info::stream(cx, request),
        Command::XLen => stream::xlen(cx, request),
        Command::XPending => stream_pending::xpending(cx, request),
        Command::XRange => stream::xrange(cx, request),
        Command::XRead => stream_read::xread(cx, request),
        Command::XReadGroup => stream_read::xreadgroup(cx, request),
        Command::XRevRange => stream::xrevrange(cx, request),
        Command::XSetId => stream::xsetid(cx, request),
        Command::XTrim => stream::xtrim(cx, request),
        Command::BitCount => bitmap::bitcount(cx, request),
        Command::BitField => bitfield::bitfield(cx, request),
        Command::BitFieldRo => bitfield::bitfield_ro(cx, request),
        Command::BitOp => bitop::bitop(cx, request),
        Command::BitPos => bitmap::bitpos(cx, request),
        Command::GetBit => bitmap::getbit(cx, request),
        Command::SetBit => bitmap::setbit(cx, request),
        Command::Copy => key::copy(cx, request),
        Command::Dump => dump::dump(cx, request),
        Command::Restore | Command::RestoreAsking => dump::restore(cx, request),
        Command::Del => key::del(cx, request),
        Command::Exists => key::exists(cx, request),
        Command::Keys => key::keys(cx, request),
        Command::Migrate => migrate::migrate(cx, request),
        Command::Move => key::relocate(cx, request),
        Command::Persist => expiry::persist(cx, request),
        Command::RandomKey => key::randomkey(cx, request),
        Command::Rename => key::rename(cx, request),
        Command::RenameNx => key::renamenx(cx, request),
        Command::Scan => key::scan(cx, request),
        Command::Sort => sort::sort(cx, request),
        Command::SortRo => sort::sort_ro(cx, request),
        Command::Touch => key::touch(cx, request),
        Command::Type => key::kind(cx, request),
        Command::Unlink => key::unlink(cx, request),
        Command::Expire => expiry::expire(cx, request),
        Command::ExpireAt => expiry::expireat(cx, request),
        Command::ExpireTime => expiry::expiretime(cx, request),
        Command::PExpire => expiry::pexpire(cx, request),
        Command::PExpireAt => expiry::pexpireat(cx, request),
        Command::PExpireTime => expiry::pexpiretime(cx, request),
        Command::PTtl => expiry::pttl(cx, request),
        Command::Ttl => expiry::ttl(cx, request),
        Command::DbSize => keyspace::dbsize(cx, request),
        Command::FlushAll => keyspace::flushall(cx, request),
        Command::FlushDb => keyspace::flushdb(cx, request),
        Command::SwapDb => keyspace::swapdb(cx, request),
        Command::ObjectEncoding => object::encoding(cx, request),
        Command::ObjectFreq => object::freq(cx, request),
        Command::ObjectHelp => help::help(cx, Command::Object),
        Command::ObjectIdleTime => object::idletime(cx, request),
        Command::ObjectRefCount => object::refcount(cx, request),
        Command::LatencyDoctor => latency::doctor(cx),
        Command::LatencyGraph => latency::graph(cx, request),
        Command::LatencyHelp => help::help(cx, Command::Latency),
        Command::LatencyHistogram => latency::histogram(cx, request),
        Command::LatencyHistory => latency::history(cx, request),
        Command::LatencyLatest => latency::latest(cx),
        Command::LatencyReset => latency::reset(cx, request),
        Command::SlowLogGet => slowlog::get(cx, request),
        Command::SlowLogHelp => help::help(cx, Command::SlowLog),
        Command::SlowLogLen => slowlog::len(cx),
        Command::SlowLogReset => slowlog::reset(cx),
        Command::Eval => script::eval(cx, request),
        Command::EvalRo => script::eval_ro(cx, request),
        Command::EvalSha => script::evalsha(cx, request),
        Command::EvalShaRo => script::evalsha_ro(cx, request),
        Command::FCall => function::fcall(cx, request),
        Command::FCallRo => function::fcall_ro(cx, request),
        Command::FunctionDelete => function::delete(cx, request),
        Command::FunctionDump => function_dump::dump(cx),
        Command::FunctionFlush => function::flush(cx, request),
        Command::FunctionHelp => help::help(cx, Command::Function),
        Command::FunctionKill => function::kill(cx),
        Command::FunctionList => function::list(cx, request),
        Command::FunctionLoad => function::load(cx, request),
        Command::FunctionRestore => function_dump::restore(cx, request),
        Command::FunctionStats => function::stats(cx),
        Command::ScriptDebug => script::debug(cx, request),
        Command::ScriptExists => script::exists(cx, request),
        Command::ScriptFlush => script::flush(cx, request),
        Command::ScriptHelp => help::help(cx, Command::Script),
        Command::ScriptKill => script::kill(cx),
        Command::ScriptLoad => script::load(cx, request),
        Command::LolWut => lolwut::lolwut(cx, request),
        Command::MemoryDoctor => memory::doctor(cx),
        Command::MemoryHelp => help::help(cx, Command::Memory),
        Command::MemoryMallocStats => memory::malloc_stats(cx),
        Command::MemoryPurge => memory::purge(cx),
        Command::MemoryStats => memory::stats(cx),
        Command::MemoryUsage => memory::usage(cx, request),
        Command::ModuleHelp => help::help(cx, Command::Module),
        Command::ModuleList => module::list(cx),
        Command::ModuleLoad | Command::ModuleLoadEx => module::load(),
        Command::ModuleUnload => module::unload(),
        Command::Monitor => monitor::monitor(cx),
        Command::PSubscribe => pubsub::psubscribe(cx, request),
        Command::Publish => pubsub::publish(cx, request),
        Command::PubSubChannels => pubsub::channels(cx, request),
        Command::PubSubHelp => help::help(cx, Command::PubSub),
        Command::PubSubNumPat => pubsub::numpat(cx, request),
        Command::PubSubNumSub => pubsub::numsub(cx, request),
        Command::PubSubShardChannels => pubsub::shard_channels(cx, request),
        Command::PubSubShardNumSub => pubsub::shard_numsub(cx, request),
        Command::PUnsubscribe => pubsub::punsubscribe(cx, request),
        Command::SPublish => pubsub::spublish(cx, request),
        Command::SSubscribe => pubsub::ssubscribe(cx, request),
        Command::Subscribe => pubsub::subscribe(cx, request),
        Command::SUnsubscribe => pubsub::sunsubscribe(cx, request),
        Command::Unsubscribe => pubsub::unsubscribe(cx, request),
        Command::AclCat => acl::cat(cx, request),
        Command::AclDelUser => acl::deluser(cx, request),
        Command::AclDryRun => acl::dryrun(cx, request),
        Command::AclGenPass => acl::genpass(cx, request),
        Command::AclGetUser => acl::getuser(cx, request),
        Command::AclHelp => help::help(cx, Command::Acl),
        Command::AclList => acl::list(cx),
        Command::AclLoad => acl::load(cx),
        Command::AclLog => acl::log(cx, request),
        Command::AclSave => acl::save(cx),
        Command::AclSetUser => acl::setuser(cx, request),
        Command::AclUsers => acl::users(cx),
        Command::AclWhoAmI => acl::whoami(cx),
        Command::ConfigGet => config::get(cx, request),
        Command::ConfigHelp => help::help(cx, Command::Config),
        Command::ConfigResetStat => config::reset_stat(cx),
        Command::ConfigRewrite => config::rewrite(cx),
        Command::ConfigSet => config::set(cx, request),
        Command::CommandCount => introspect::count(cx),
        Command::CommandDocs => docs::docs(cx, request),
        Command::CommandGetKeys => introspect::get_keys(cx, request),
        Command::CommandGetKeysAndFlags => introspect::get_keys_and_flags(cx, request),
        Command::CommandHelp => help::help(cx, Command::Command),
        Command::CommandInfo => introspect::info(cx, request),
        Command::CommandList => introspect::list(cx, request),
        Command::Command => introspect::command(cx),
        Command::Debug => debug::debug(cx, request),
        Command::Info => info::info(cx, request),
        Command::Shutdown => admin::shutdown(cx, request),
        Command::Time => admin::time(cx),
        Command::ClientCaching => tracking::caching(cx, request),
        Command::ClientGetRedir => tracking::get_redir(cx, request),
        Command::ClientTracking => tracking::tracking(cx, request),
        Command::ClientTrackingInfo => tracking::tracking_info(cx, request),
        Command::ClientGetName => client::get_name_reply(cx, request),
        Command::ClientHelp => help::help(cx, Command::Client),
        Command::ClientId => client::id(cx, request),
        Command::ClientInfo => client::info(cx, request),
        Command::ClientKill => client::kill(cx, request),
        Command::ClientList => client::list(cx, request),
        Command::ClientNoEvict => client::no_evict(cx, request),
        Command::ClientNoTouch => client::no_touch(cx, request),
        Command::ClientPause => client::pause(cx, request),
        Command::ClientReply => client::reply(cx, request),
        Command::ClientSetInfo => client::set_info(cx, request),
        Command::ClientSetName => client::set_name_reply(cx, request),
        Command::ClientUnblock => client::unblock(cx, request),
        Command::ClientUnpause => client::unpause(cx, request),
        Command::BgRewriteAof => persistence::bg_rewrite_aof(),
        Command::BgSave => persistence::bg_save(request),
        Command::LastSave => persistence::last_save(cx),
        Command::Save => persistence::save(),
        Command::Failover => replication::failover(request),
        Command::PSync | Command::Sync => replication::sync(),
        Command::ReplConf => replication::repl_conf(cx, request),
        Command::ReplicaOf | Command::SlaveOf => replication::replica_of(cx, request),
        Command::Role => replication::role(cx),
        Command::Wait => replication::wait(cx, request),
        Command::WaitAof => replication::wait_aof(cx, request),
        Command::Asking
        | Command::ReadOnly
        | Command::ReadWrite
        | Command::ClusterAddSlots
        | Command::ClusterAddSlotsRange
        | Command::ClusterBumpEpoch
        | Command::ClusterCountFailureReports
        | Command::ClusterCountKeysInSlot
        | Command::ClusterDelSlots
        | Command::ClusterDelSlotsRange
        | Command::ClusterFailover
        | Command::ClusterFlushSlots
        | Command::ClusterForget
        | Command::ClusterGetKeysInSlot
        | Command::ClusterHelp
        | Command::ClusterInfo
        | Command::ClusterKeySlot
        | Command::ClusterLinks
        | Command::ClusterMeet
        | Command::ClusterMyId
        | Command::ClusterMyShardId
        | Command::ClusterNodes
        | Command::ClusterReplicas
        | Command::ClusterReplicate
        | Command::ClusterReset
        | Command::ClusterSaveConfig
        | Command::ClusterSetConfigEpoch
        | Command::ClusterSetSlot
        | Command::ClusterShards
        | Command::ClusterSlaves
        | Command::ClusterSlots => cluster::disabled(),
        Command::Auth => connection::auth(cx, request),
        Command::Echo => connection::echo(cx, request),
        Command::Hello => connection::hello(cx, request),
        Command::Ping => connection::ping(cx, request),
        Command::Select => connection::select(cx, request),
        Command::Quit => connection::quit(cx),
        Command::Reset => connection::reset(cx),
        Command::Multi => transaction::multi(cx),
        Command::Discard => transaction::discard(cx),
        Command::Unwatch => transaction::unwatch(cx),
        Command::Exec => transaction::exec(cx),
        Command::Watch => transaction::watch(cx, request),
        Command::XGroup
        | Command::XInfo
        | Command::Acl
        | Command::Cluster
        | Command::Latency
        | Command::SlowLog
        | Command::Client
        | Command::PubSub
        | Command::Config
        | Command::Object
        | Command::Memory
        | Command::Module
        | Command::Script
        | Command::Function => {
            // A container runs as one of its subcommands; by itself it has too few arguments.
            Err(Error::arity(request.row.full_name))
        }
    }
}
