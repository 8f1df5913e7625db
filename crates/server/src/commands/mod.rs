//! The commands, a file or folder for each family; this file only says which function runs which row.
//!
//! A command is a function of a [`Cx`] and a [`Request`] that writes its reply or returns the error that refuses the request.
//! It finds the locks of its keys held. The match below has no wildcard: a row without its function does not build.

mod block_timeout;
mod command;
mod connection;
mod draws;
mod geo;
mod hash;
mod key;
mod list;
mod pubsub;
mod scan;
mod script;
pub mod server;
mod set;
mod sorted_set;
mod stream;
mod string;
pub mod transaction;

use sleeve_store::End;
use sleeve_wire::commands::Command;

use crate::context::Cx;
use crate::lua::evaluate;
use crate::lua::evaluate::Named;
use crate::messaging::message::Kind;
use crate::request::Request;
use crate::request::error::{Error, Outcome};
use geo::search::Form;
use sorted_set::algebra::Operation;
use sorted_set::pop::Side;
use sorted_set::range::By;
use string::set_expiry::Unit;

/// Runs the function of the request's row.
#[inline]
pub fn run(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    match request.row.id {
        Command::GeoAdd => geo::geoadd(cx, request),
        Command::GeoDist => geo::geodist(cx, request),
        Command::GeoHash => geo::geohash(cx, request),
        Command::GeoPos => geo::geopos(cx, request),
        Command::GeoRadius => geo::search::search(cx, request, Form::Position, true),
        Command::GeoRadiusByMember => geo::search::search(cx, request, Form::Member, true),
        Command::GeoSearch => geo::search::search(cx, request, Form::Search, false),
        Command::GeoSearchStore => geo::search::search(cx, request, Form::SearchStore, true),
        Command::GeoRadiusRo => geo::search::search(cx, request, Form::Position, false),
        Command::GeoRadiusByMemberRo => geo::search::search(cx, request, Form::Member, false),
        Command::BZMPop => sorted_set::pop::bzmpop(cx, request),
        Command::BZPopMax => sorted_set::pop::pop_or_wait(cx, request, Side::Max),
        Command::BZPopMin => sorted_set::pop::pop_or_wait(cx, request, Side::Min),
        Command::ZAdd => sorted_set::zadd(cx, request),
        Command::ZCard => sorted_set::zcard(cx, request),
        Command::ZCount => sorted_set::range::count(cx, request, By::Score),
        Command::ZDiff => sorted_set::algebra::reply_combined(cx, request, Operation::Difference),
        Command::ZDiffStore => sorted_set::algebra::store_combined(cx, request, Operation::Difference, "zdiffstore"),
        Command::ZIncrBy => sorted_set::zincrby(cx, request),
        Command::ZInter => sorted_set::algebra::reply_combined(cx, request, Operation::Intersection),
        Command::ZInterCard => sorted_set::algebra::zintercard(cx, request),
        Command::ZInterStore => {
            sorted_set::algebra::store_combined(cx, request, Operation::Intersection, "zinterstore")
        }
        Command::ZLexCount => sorted_set::range::count(cx, request, By::Name),
        Command::ZMPop => sorted_set::pop::zmpop(cx, request),
        Command::ZMScore => sorted_set::zmscore(cx, request),
        Command::ZPopMax => sorted_set::pop::pop_counted(cx, request, Side::Max),
        Command::ZPopMin => sorted_set::pop::pop_counted(cx, request, Side::Min),
        Command::ZRandMember => sorted_set::random::zrandmember(cx, request),
        Command::ZRange => sorted_set::range::show(cx, request, None),
        Command::ZRangeByLex => sorted_set::range::show(cx, request, Some((By::Name, false))),
        Command::ZRangeByScore => sorted_set::range::show(cx, request, Some((By::Score, false))),
        Command::ZRangeStore => sorted_set::range::zrangestore(cx, request),
        Command::ZRank => sorted_set::rank(cx, request, false),
        Command::ZRem => sorted_set::zrem(cx, request),
        Command::ZRemRangeByLex => sorted_set::range::remove(cx, request, By::Name, "zremrangebylex"),
        Command::ZRemRangeByRank => sorted_set::range::remove(cx, request, By::Rank, "zremrangebyrank"),
        Command::ZRemRangeByScore => sorted_set::range::remove(cx, request, By::Score, "zremrangebyscore"),
        Command::ZRevRange => sorted_set::range::show(cx, request, Some((By::Rank, true))),
        Command::ZRevRangeByLex => sorted_set::range::show(cx, request, Some((By::Name, true))),
        Command::ZRevRangeByScore => sorted_set::range::show(cx, request, Some((By::Score, true))),
        Command::ZRevRank => sorted_set::rank(cx, request, true),
        Command::ZScan => sorted_set::random::zscan(cx, request),
        Command::ZScore => sorted_set::zscore(cx, request),
        Command::ZUnion => sorted_set::algebra::reply_combined(cx, request, Operation::Union),
        Command::ZUnionStore => sorted_set::algebra::store_combined(cx, request, Operation::Union, "zunionstore"),
        Command::Append => string::append(cx, request),
        Command::Decr => string::add(cx, request, -1),
        Command::DecrBy => string::decrby(cx, request),
        Command::DelEx => string::condition::delex(cx, request),
        Command::DelIfEq => string::condition::delifeq(cx, request),
        Command::Digest => string::condition::digest(cx, request),
        Command::Get => string::get(cx, request),
        Command::GetDel => string::getdel(cx, request),
        Command::GetEx => string::getex(cx, request),
        Command::GetRange => string::getrange(cx, request),
        Command::GetSet => string::getset(cx, request),
        Command::Incr => string::add(cx, request, 1),
        Command::IncrBy => string::incrby(cx, request),
        Command::IncrEx => string::increx::increx(cx, request),
        Command::IncrByFloat => string::incrbyfloat(cx, request),
        Command::Lcs => string::lcs::lcs(cx, request),
        Command::MGet => string::mget(cx, request),
        Command::MSet => string::mset(cx, request),
        Command::MSetEx => string::msetex(cx, request),
        Command::MSetNx => string::msetnx(cx, request),
        Command::PSetEx => string::set_for(cx, request, Unit::Milliseconds),
        Command::Set => string::set(cx, request),
        Command::SetEx => string::set_for(cx, request, Unit::Seconds),
        Command::SetNx => string::setnx(cx, request),
        Command::SetRange => string::setrange(cx, request),
        Command::StrLen => string::strlen(cx, request),
        Command::SubStr => string::getrange(cx, request),
        Command::BLMoveM => list::wait::blmovem(cx, request),
        Command::BLMove => list::wait::blmove(cx, request),
        Command::BLMPop => list::wait::blmpop(cx, request),
        Command::BLPop => list::wait::pop_or_wait(cx, request, End::Front),
        Command::BRPop => list::wait::pop_or_wait(cx, request, End::Back),
        Command::BRPopLPush => list::wait::brpoplpush(cx, request),
        Command::LIndex => list::lindex(cx, request),
        Command::LInsert => list::linsert(cx, request),
        Command::LLen => list::llen(cx, request),
        Command::LMoveM => list::transfer_many::lmovem(cx, request),
        Command::LMove => list::transfer::lmove(cx, request),
        Command::LMPop => list::transfer::lmpop(cx, request),
        Command::LPop => list::pop(cx, request, End::Front),
        Command::LPos => list::find::lpos(cx, request),
        Command::LPush => list::push(cx, request, End::Front),
        Command::LPushX => list::push_present(cx, request, End::Front),
        Command::LRange => list::lrange(cx, request),
        Command::LRem => list::lrem(cx, request),
        Command::LSet => list::lset(cx, request),
        Command::LTrim => list::ltrim(cx, request),
        Command::RPop => list::pop(cx, request, End::Back),
        Command::RPopLPush => list::transfer::move_or_null(cx, request, (End::Back, End::Front)),
        Command::RPush => list::push(cx, request, End::Back),
        Command::RPushX => list::push_present(cx, request, End::Back),
        Command::SAdd => set::sadd(cx, request),
        Command::SCard => set::scard(cx, request),
        Command::SDiff => set::algebra::reply_with(cx, request, set::algebra::difference),
        Command::SDiffCard => set::algebra::sdiffcard(cx, request),
        Command::SDiffStore => set::algebra::store_with(cx, request, set::algebra::difference, "sdiffstore"),
        Command::SInter => set::algebra::sinter(cx, request),
        Command::SInterCard => set::algebra::sintercard(cx, request),
        Command::SInterStore => set::algebra::sinterstore(cx, request),
        Command::SIsMember => set::sismember(cx, request),
        Command::SMIsMember => set::smismember(cx, request),
        Command::SMembers => set::smembers(cx, request),
        Command::SMove => set::smove(cx, request),
        Command::SPop => set::random::spop(cx, request),
        Command::SRandMember => set::random::srandmember(cx, request),
        Command::SRem => set::srem(cx, request),
        Command::SScan => set::sscan(cx, request),
        Command::SUnion => set::algebra::reply_with(cx, request, set::algebra::union),
        Command::SUnionCard => set::algebra::sunioncard(cx, request),
        Command::SUnionStore => set::algebra::store_with(cx, request, set::algebra::union, "sunionstore"),
        Command::PfAdd => string::hyperloglog::pfadd(cx, request),
        Command::PfCount => string::hyperloglog::pfcount(cx, request),
        Command::PfDebug => string::hyperloglog::pfdebug(cx, request),
        Command::PfMerge => string::hyperloglog::pfmerge(cx, request),
        Command::PfSelfTest => string::hyperloglog::pfselftest(cx, request),
        Command::HDel => hash::hdel(cx, request),
        Command::HExists => hash::hexists(cx, request),
        Command::HExpire => hash::field_expiry::expire(cx, request, Unit::Seconds, true),
        Command::HExpireAt => hash::field_expiry::expire(cx, request, Unit::Seconds, false),
        Command::HExpireTime => hash::field_expiry::deadline(cx, request, Unit::Seconds, false),
        Command::HGet => hash::hget(cx, request),
        Command::HGetAll => hash::hgetall(cx, request),
        Command::HGetDel => hash::timed::hgetdel(cx, request),
        Command::HGetEx => hash::timed::hgetex(cx, request),
        Command::HIncrBy => hash::hincrby(cx, request),
        Command::HIncrByFloat => hash::hincrbyfloat(cx, request),
        Command::HKeys => hash::write_half(cx, request, |field, _| field),
        Command::HLen => hash::hlen(cx, request),
        Command::HMGet => hash::hmget(cx, request),
        Command::HMSet => hash::hmset(cx, request),
        Command::HPExpire => hash::field_expiry::expire(cx, request, Unit::Milliseconds, true),
        Command::HPExpireAt => hash::field_expiry::expire(cx, request, Unit::Milliseconds, false),
        Command::HPExpireTime => hash::field_expiry::deadline(cx, request, Unit::Milliseconds, false),
        Command::HPTtl => hash::field_expiry::deadline(cx, request, Unit::Milliseconds, true),
        Command::HPersist => hash::field_expiry::hpersist(cx, request),
        Command::HRandField => hash::walk::hrandfield(cx, request),
        Command::HScan => hash::walk::hscan(cx, request),
        Command::HSet => hash::hset(cx, request),
        Command::HSetEx => hash::timed::hsetex(cx, request),
        Command::HSetNx => hash::hsetnx(cx, request),
        Command::HStrLen => hash::hstrlen(cx, request),
        Command::HTtl => hash::field_expiry::deadline(cx, request, Unit::Seconds, true),
        Command::HVals => hash::write_half(cx, request, |_, value| value),
        Command::XAck => stream::group::xack(cx, request),
        Command::XAckDel => stream::delete::xackdel(cx, request),
        Command::XAdd => stream::xadd(cx, request),
        Command::XAutoClaim => stream::pending::xautoclaim(cx, request),
        Command::XCfgSet => stream::producers::xcfgset(cx, request),
        Command::XClaim => stream::pending::xclaim(cx, request),
        Command::XDel => stream::xdel(cx, request),
        Command::XDelEx => stream::delete::xdelex(cx, request),
        Command::XGroupCreate => stream::group::create(cx, request),
        Command::XGroupCreateConsumer => stream::group::create_consumer(cx, request),
        Command::XGroupDelConsumer => stream::group::delete_consumer(cx, request),
        Command::XGroupDestroy => stream::group::destroy(cx, request),
        Command::XGroupHelp => command::help::help(cx, Command::XGroup),
        Command::XGroupSetId => stream::group::set_id(cx, request),
        Command::XInfoConsumers => stream::info::consumers(cx, request),
        Command::XInfoGroups => stream::info::groups(cx, request),
        Command::XInfoHelp => command::help::help(cx, Command::XInfo),
        Command::XInfoStream => stream::info::stream(cx, request),
        Command::XLen => stream::xlen(cx, request),
        Command::XNack => stream::release::xnack(cx, request),
        Command::XPending => stream::pending::xpending(cx, request),
        Command::XRange => stream::range(cx, request, false),
        Command::XRead => stream::read::read(cx, request, false),
        Command::XReadGroup => stream::read::read(cx, request, true),
        Command::XRevRange => stream::range(cx, request, true),
        Command::XSetId => stream::xsetid(cx, request),
        Command::XTrim => stream::xtrim(cx, request),
        Command::BitCount => string::bitmap::bitcount(cx, request),
        Command::BitField => string::bitfield::bitfield(cx, request),
        Command::BitFieldRo => string::bitfield::bitfield_ro(cx, request),
        Command::BitOp => string::bitop::bitop(cx, request),
        Command::BitPos => string::bitmap::bitpos(cx, request),
        Command::GetBit => string::bitmap::getbit(cx, request),
        Command::SetBit => string::bitmap::setbit(cx, request),
        Command::Copy => key::copy(cx, request),
        Command::Dump => key::dump::dump(cx, request),
        Command::Restore | Command::RestoreAsking => key::dump::restore(cx, request),
        Command::Del => key::del(cx, request),
        Command::Exists => key::exists(cx, request),
        Command::Keys => key::keys(cx, request),
        Command::Migrate => key::migrate::migrate(cx, request),
        Command::Move => key::relocate(cx, request),
        Command::Persist => key::expiry::persist(cx, request),
        Command::RandomKey => key::randomkey(cx, request),
        Command::Rename => key::rename(cx, request),
        Command::RenameNx => key::renamenx(cx, request),
        Command::Scan => key::scan(cx, request),
        Command::Sort => key::sort::sort(cx, request),
        Command::SortRo => key::sort::sort_ro(cx, request),
        Command::Touch => key::touch(cx, request),
        Command::Type => key::kind(cx, request),
        Command::Unlink => key::unlink(cx, request),
        Command::Expire => key::expiry::expire(cx, request, key::expiry::SECOND, true),
        Command::ExpireAt => key::expiry::expire(cx, request, key::expiry::SECOND, false),
        Command::ExpireTime => key::expiry::deadline(cx, request, key::expiry::SECOND, false),
        Command::PExpire => key::expiry::expire(cx, request, key::expiry::MILLISECOND, true),
        Command::PExpireAt => key::expiry::expire(cx, request, key::expiry::MILLISECOND, false),
        Command::PExpireTime => key::expiry::deadline(cx, request, key::expiry::MILLISECOND, false),
        Command::PTtl => key::expiry::deadline(cx, request, key::expiry::MILLISECOND, true),
        Command::Ttl => key::expiry::deadline(cx, request, key::expiry::SECOND, true),
        Command::DbSize => key::database::dbsize(cx, request),
        Command::FlushAll => key::database::flushall(cx, request),
        Command::FlushDb => key::database::flushdb(cx, request),
        Command::SwapDb => key::database::swapdb(cx, request),
        Command::ObjectEncoding => key::object::encoding(cx, request),
        Command::ObjectFreq => key::object::freq(cx, request),
        Command::ObjectHelp => command::help::help(cx, Command::Object),
        Command::ObjectIdleTime => key::object::idletime(cx, request),
        Command::ObjectRefCount => key::object::refcount(cx, request),
        Command::LatencyDoctor => server::monitoring::latency::doctor(cx),
        Command::LatencyGraph => server::monitoring::latency::graph(cx, request),
        Command::LatencyHelp => command::help::help(cx, Command::Latency),
        Command::LatencyHistogram => server::monitoring::latency::histogram(cx, request),
        Command::LatencyHistory => server::monitoring::latency::history(cx, request),
        Command::LatencyLatest => server::monitoring::latency::latest(cx),
        Command::LatencyReset => server::monitoring::latency::reset(cx, request),
        Command::CommandLogGet => server::monitoring::slowlog::get_of(cx, request),
        Command::CommandLogHelp => command::help::help(cx, Command::CommandLog),
        Command::CommandLogLen => server::monitoring::slowlog::len_of(cx, request),
        Command::CommandLogReset => server::monitoring::slowlog::reset_of(cx, request),
        Command::HotKeysGet => server::monitoring::hotkeys::get(cx),
        Command::HotKeysHelp => command::help::help(cx, Command::HotKeys),
        Command::HotKeysReset => server::monitoring::hotkeys::reset(cx),
        Command::HotKeysStart => server::monitoring::hotkeys::start(cx, request),
        Command::HotKeysStop => server::monitoring::hotkeys::stop(cx),
        Command::HotKeysTop => server::monitoring::hotkeys::top(cx, request),
        Command::SlowLogGet => server::monitoring::slowlog::get(cx, request),
        Command::SlowLogHelp => command::help::help(cx, Command::SlowLog),
        Command::SlowLogLen => server::monitoring::slowlog::len(cx),
        Command::SlowLogReset => server::monitoring::slowlog::reset(cx),
        Command::Eval => evaluate::eval(cx, request, Named::Text, false),
        Command::EvalRo => evaluate::eval(cx, request, Named::Text, true),
        Command::EvalSha => evaluate::eval(cx, request, Named::Digest, false),
        Command::EvalShaRo => evaluate::eval(cx, request, Named::Digest, true),
        Command::FCall => evaluate::fcall(cx, request, false),
        Command::FCallRo => evaluate::fcall(cx, request, true),
        Command::FunctionDelete => script::function::delete(cx, request),
        Command::FunctionDump => script::function_dump::dump(cx),
        Command::FunctionFlush => script::function::flush(cx, request),
        Command::FunctionHelp => command::help::help(cx, Command::Function),
        Command::FunctionKill => script::function::kill(cx),
        Command::FunctionList => script::function::list(cx, request),
        Command::FunctionLoad => script::function::load(cx, request),
        Command::FunctionRestore => script::function_dump::restore(cx, request),
        Command::FunctionStats => script::function::stats(cx),
        Command::ScriptDebug => script::debug(cx, request),
        Command::ScriptExists => script::exists(cx, request),
        Command::ScriptFlush => script::flush(cx, request),
        Command::ScriptHelp => command::help::help(cx, Command::Script),
        Command::ScriptKill => script::kill(cx),
        Command::ScriptLoad => script::load(cx, request),
        Command::ScriptShow => script::show(cx, request),
        Command::LolWut => server::lolwut::lolwut(cx, request),
        Command::MemoryDoctor => server::memory::doctor(cx),
        Command::MemoryHelp => command::help::help(cx, Command::Memory),
        Command::MemoryMallocStats => server::memory::malloc_stats(cx),
        Command::MemoryPurge => server::memory::purge(cx),
        Command::MemoryStats => server::memory::stats(cx),
        Command::MemoryUsage => server::memory::usage(cx, request),
        Command::ModuleHelp => command::help::help(cx, Command::Module),
        Command::ModuleList => server::module::list(cx),
        Command::ModuleLoad | Command::ModuleLoadEx => server::module::load(),
        Command::ModuleUnload => server::module::unload(),
        Command::Monitor => pubsub::monitor(cx),
        Command::PSubscribe => pubsub::subscribe(cx, request, Kind::Pattern),
        Command::Publish => pubsub::publish(cx, request, Kind::Channel),
        Command::PubSubChannels => pubsub::channels(cx, request, Kind::Channel),
        Command::PubSubHelp => command::help::help(cx, Command::PubSub),
        Command::PubSubNumPat => pubsub::numpat(cx, request),
        Command::PubSubNumSub => pubsub::numsub(cx, request, Kind::Channel),
        Command::PubSubShardChannels => pubsub::channels(cx, request, Kind::Shard),
        Command::PubSubShardNumSub => pubsub::numsub(cx, request, Kind::Shard),
        Command::PUnsubscribe => pubsub::unsubscribe(cx, request, Kind::Pattern),
        Command::SPublish => pubsub::publish(cx, request, Kind::Shard),
        Command::SSubscribe => pubsub::subscribe(cx, request, Kind::Shard),
        Command::Subscribe => pubsub::subscribe(cx, request, Kind::Channel),
        Command::SUnsubscribe => pubsub::unsubscribe(cx, request, Kind::Shard),
        Command::Unsubscribe => pubsub::unsubscribe(cx, request, Kind::Channel),
        Command::AclCat => server::acl::cat(cx, request),
        Command::AclDelUser => server::acl::deluser(cx, request),
        Command::AclDryRun => server::acl::dryrun(cx, request),
        Command::AclGenPass => server::acl::genpass(cx, request),
        Command::AclGetUser => server::acl::getuser(cx, request),
        Command::AclHelp => command::help::help(cx, Command::Acl),
        Command::AclList => server::acl::list(cx),
        Command::AclLoad => server::acl::load(cx),
        Command::AclLog => server::acl::log(cx, request),
        Command::AclSave => server::acl::save(cx),
        Command::AclSetUser => server::acl::setuser(cx, request),
        Command::AclUsers => server::acl::users(cx),
        Command::AclWhoAmI => server::acl::whoami(cx),
        Command::ConfigGet => server::config::get(cx, request),
        Command::ConfigHelp => command::help::help(cx, Command::Config),
        Command::ConfigResetStat => server::config::reset_stat(cx),
        Command::ConfigRewrite => server::config::rewrite(cx),
        Command::ConfigSet => server::config::set(cx, request),
        Command::CommandCount => command::count(cx),
        Command::CommandDocs => command::docs::docs(cx, request),
        Command::CommandGetKeys => command::get_keys(cx, request),
        Command::CommandGetKeysAndFlags => command::get_keys_and_flags(cx, request),
        Command::CommandHelp => command::help::help(cx, Command::Command),
        Command::CommandInfo => command::info(cx, request),
        Command::CommandList => command::list(cx, request),
        Command::Command => command::command(cx),
        Command::Debug => server::debug::debug(cx, request),
        Command::Info => server::info::info(cx, request),
        Command::Shutdown => server::admin::shutdown(cx, request),
        Command::Time => server::admin::time(cx),
        Command::ClientCaching => connection::tracking::caching(cx, request),
        Command::ClientGetRedir => connection::tracking::get_redir(cx, request),
        Command::ClientTracking => connection::tracking::tracking(cx, request),
        Command::ClientTrackingInfo => connection::tracking::tracking_info(cx, request),
        Command::ClientGetName => connection::client::get_name_reply(cx, request),
        Command::ClientHelp => command::help::help(cx, Command::Client),
        Command::ClientId => connection::client::id(cx, request),
        Command::ClientInfo => connection::client::info(cx, request),
        Command::ClientRings => connection::unix_offer::rings(cx),
        Command::ClientJournal => connection::journal::journal(cx, request),
        Command::ClientKill => connection::client::kill(cx, request),
        Command::ClientList => connection::client::list(cx, request),
        Command::ClientNoEvict => connection::client::no_evict(cx, request),
        Command::ClientCapa => connection::client::capa(cx, request),
        Command::ClientNoTouch => connection::client::no_touch(cx, request),
        Command::ClientPause => connection::client::pause(cx, request),
        Command::ClientReply => connection::client::reply(cx, request),
        Command::ClientSetInfo => connection::client::set_info(cx, request),
        Command::ClientSetName => connection::client::set_name_reply(cx, request),
        Command::ClientUnblock => connection::client::unblock(cx, request),
        Command::ClientUnpause => connection::client::unpause(cx, request),
        Command::BgRewriteAof => server::persistence::bg_rewrite_aof(cx),
        Command::BgSave => server::persistence::bg_save(cx, request),
        Command::LastSave => server::persistence::last_save(cx),
        Command::Save => server::persistence::save(cx),
        Command::Failover => server::replication::failover(cx, request),
        Command::PSync => server::replication::replica::psync(cx, request),
        Command::ReplConf => server::replication::replica::repl_conf(cx, request),
        Command::ReplicaOf | Command::SlaveOf => server::replication::replica_of(cx, request),
        Command::Role => server::replication::role(cx),
        Command::Sync => server::replication::replica::sync(cx),
        Command::Wait => server::replication::wait(cx, request),
        Command::WaitAof => server::replication::wait_aof(cx, request),
        Command::ReadOnly => server::cluster::read_only(cx, true),
        Command::ReadWrite => server::cluster::read_only(cx, false),
        Command::Asking
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
        | Command::ClusterSlots => server::cluster::disabled(),
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
        | Command::CommandLog
        | Command::HotKeys
        | Command::Client
        | Command::PubSub
        | Command::Config
        | Command::Object
        | Command::Memory
        | Command::Module
        | Command::Script
        | Command::Function => {
            // A container itself runs nothing, only its subcommands do: a request with the container's name alone has too few
            // arguments.
            Err(Error::arity(request.row.full_name))
        }
    }
}
