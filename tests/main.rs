//! All tests of running servers and clients, in one program, because linking a program takes longer than running most of
//! them. `tidy`, which reads sources and runs nothing, is a program of its own.
//!
//! The folders are subjects. A test's full name is its path: `cargo xtask test` prints it, and
//! `cargo test -p sleeve-tests persistence::restarts::` runs one file. The code that the tests share is in `src/`.
//!
//! | file | checks |
//! | --- | --- |
//! | `commands/differential` | random commands get the same replies and leave the same data on several servers |
//! | `commands/effects` | effects that replies do not show, of every command that touches data: dirty counts, events, propagation, memory |
//! | `commands/golden` | the transcripts of `golden/*.txt`, against Redis, Valkey, Redis 8 and Sleeve |
//! | `commands/hot_keys` | HOTKEYS over several workers, and HOTKEYS TOP |
//! | `commands/migrate` | MIGRATE between Sleeve, Redis and Valkey |
//! | `commands/permissions` | COMMAND INFO and the ACL categories of every command; random ACL rules |
//! | `commands/refusals` | which error each command gets in each state of the server, and its words |
//! | `commands/renamed` | `rename-command` |
//! | `commands/users` | ACL files, users of the configuration file, clients whose user changes |
//! | `persistence/failing` | full and read-only disks, AOF files that another process removes |
//! | `persistence/inapplicable` | requests of an AOF that the server cannot apply |
//! | `persistence/journal_units` | every write command leaves one unit in the journal |
//! | `persistence/point_in_time` | a snapshot equals the data at its instant, while writes go on |
//! | `persistence/producers` | numbered messages of stream producers outlive the process |
//! | `persistence/reload` | DEBUG RELOAD and DEBUG LOADAOF |
//! | `persistence/removal` | requests while an AOF of gigabytes is removed |
//! | `persistence/replay` | the journal of a random run, replayed, gives the same data |
//! | `persistence/restarts` | data after `kill -9`, rewrites and snapshots; files exchanged with other servers |
//! | `persistence/saving` | SAVE, BGSAVE, BGREWRITEAOF and SHUTDOWN: the files that they leave |
//! | `persistence/sync_threads` | the threads that write and sync an AOF; no reply leaves before its changes are durable |
//! | `persistence/totals` | the bytes, writes and fsyncs of the AOF in INFO |
//! | `replication/acknowledged` | WAIT and WAITAOF without acknowledgements |
//! | `replication/chains` | chains of three servers of every make |
//! | `replication/failover` | FAILOVER, and SHUTDOWN that waits for replicas |
//! | `replication/history` | reads on a replica see a prefix of the primary's order |
//! | `replication/ids` | replication ids and partial syncs across restarts |
//! | `replication/migration` | `sleeve migrate`: the role moves under load and no acknowledged write is lost |
//! | `replication/primary` | Sleeve as the primary: full syncs, partial syncs, slow replicas, the words of PSYNC |
//! | `replication/replica` | Sleeve as the replica: its replies, its link, diskless loading, writable replicas |
//! | `client/blocking` | blocking commands |
//! | `client/calls` | every method, and every way of waiting for a reply |
//! | `client/coalescing` | merged calls give each caller the replies of single calls |
//! | `client/collections` | the methods on collections |
//! | `client/connecting` | passwords, protocols, kinds of address, servers that are not there yet |
//! | `client/credentials` | credentials from a provider |
//! | `client/examples` | the examples of `crates/client/examples`, run as tests |
//! | `client/groups` | consumers of a stream's group |
//! | `client/idle` | a connection to a server that closes idle ones |
//! | `client/multiplex` | many callers on one connection each get their own reply |
//! | `client/near_cache` | the near cache |
//! | `client/reconnect` | a connection that is cut a thousand times |
//! | `client/replicated` | `reply.replicated(n)` and `reply.synced_on(n)` |
//! | `client/scripts` | scripts and functions |
//! | `client/subscriptions` | subscriptions |
//! | `client/synced` | `reply.synced()` |
//! | `cluster` | slots, a resharding under load, a primary that is killed, a full restart |
//! | `cluster/encrypted` | a cluster whose bus speaks TLS |
//! | `cluster/failover_times` | the time until a killed primary is replaced, beside Redis |
//! | `cluster/mixed` | clusters of Sleeve with Redis 7.0, Redis 8 and Valkey 9 |
//! | `cluster/near_cache` | the near cache over a cluster |
//! | `cluster/partitions` | nodes that are cut off |
//! | `cluster/remote_caller` | callers on nodes of a network of their own (used by `sentinel` too) |
//! | `cluster/shards` | the load on real nodes, and what happens to them (used by the other files) |
//! | `cluster/sleeve_nodes` | crashes, failovers, restarts and moved slots in clusters of Sleeve |
//! | `sentinel` | a primary and two replicas under three Sentinels, and the client's view of failovers |
//! | `sentinel/failovers` | failovers by kills and stops under load |
//! | `sentinel/partitions` | primaries that are cut off |
//! | `connections/drivers` | the drivers of the option `io` |
//! | `connections/limits` | limits on clients: silence, unread replies, memory, number |
//! | `connections/shared_memory` | connections that move to shared memory |
//! | `connections/tls` | certificates that are accepted, and bytes that arrive unchanged |
//! | `connections/unix_offer` | the Unix socket that a server offers to clients of its machine |
//! | `interop/exchange` | snapshots and AOFs that go to other servers and back |
//! | `interop/odd_values` | RESTORE and loading of odd and damaged values of every encoding |
//! | `interop/options` | the configuration files of other servers (`stock/`), and their options |
//! | `interop/rdb_files` | RDB files of the store, read and written beside real servers |
//! | `attack/dumps` | tampered dumps with a valid checksum |
//! | `attack/hostile` | random commands with hostile arguments |
//! | `attack/hostile_scripts` | scripts that are written to do harm |
//! | `attack/split_requests` | requests that arrive cut at every byte |
//! | `concurrency/endurance` | memory and slowest replies under load for a long time |
//! | `concurrency/linearizable` | concurrent calls have an order in which one server would have given the same replies |
//! | `concurrency/workers` | several workers on the same data |
//! | `process/doctor` | `sleeve doctor` names the fault that the test planted |
//! | `process/memory_figures` | the figures of INFO memory |
//! | `process/starter` | the starter of these tests: each kind of server comes up and is gone after the drop |
//! | `process/system` | title, OOM score, log, end by a signal |

mod attack;
mod client;
mod cluster;
mod commands;
mod concurrency;
mod connections;
mod interop;
mod persistence;
mod process;
mod replication;
mod sentinel;
