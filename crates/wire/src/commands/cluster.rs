//! Commands of a cluster: CLUSTER, and the modes that its clients set on their connection.
//!
//! Rows only; `mod.rs` explains the form of a row.

macro_rules! cluster_rows {
    ([$next:ident $($rest:ident)*] $($done:tt)*) => { $next! { [$($rest)*] $($done)*

Asking "asking", Cluster, arity 1, since "3.0.0"
    [FAST] [CONNECTION]
    summary "Says that the next command follows a redirection to a slot on the move."
    complexity "O(1)"
    grammar "";

Cluster "cluster", Cluster, arity -2, since "3.0.0"
    [] []
    summary "Holds the commands about a cluster of servers that share the keys."
    complexity "Depends on subcommand."
    grammar "";

ClusterAddSlots "cluster|addslots" of Cluster, Cluster, arity -3, since "3.0.0"
    [ADMIN STALE NO_ASYNC_LOADING] []
    reach All
    summary "Gives this node slots."
    complexity "O(N) where N is the total number of hash slot arguments"
    grammar "slot:integer...";

ClusterAddSlotsRange "cluster|addslotsrange" of Cluster, Cluster, arity -4, since "7.0.0"
    [ADMIN STALE NO_ASYNC_LOADING] []
    reach All
    summary "Gives this node ranges of slots."
    complexity "O(N) where N is the total number of the slots between the start slot and end slot arguments."
    grammar "start-slot_end-slot=<start-slot:integer end-slot:integer>...";

ClusterBumpEpoch "cluster|bumpepoch" of Cluster, Cluster, arity 2, since "3.0.0"
    [ADMIN STALE NO_ASYNC_LOADING] []
    reach All
    tips "nondeterministic_output"
    summary "Raises the epoch of the configuration."
    complexity "O(1)"
    grammar "";

ClusterCountFailureReports "cluster|count-failure-reports" of Cluster, Cluster, arity 3, since "3.0.0"
    [ADMIN STALE] []
    reach All
    tips "nondeterministic_output"
    summary "Counts the nodes that say of a node that it has failed."
    complexity "O(N) where N is the number of failure reports"
    grammar "node-id";

ClusterCountKeysInSlot "cluster|countkeysinslot" of Cluster, Cluster, arity 3, since "3.0.0"
    [STALE] []
    reach Each
    summary "Counts the keys of this node in a slot."
    complexity "O(1)"
    grammar "slot:integer";

ClusterDelSlots "cluster|delslots" of Cluster, Cluster, arity -3, since "3.0.0"
    [ADMIN STALE NO_ASYNC_LOADING] []
    reach All
    summary "Takes slots from this node."
    complexity "O(N) where N is the total number of hash slot arguments"
    grammar "slot:integer...";

ClusterDelSlotsRange "cluster|delslotsrange" of Cluster, Cluster, arity -4, since "7.0.0"
    [ADMIN STALE NO_ASYNC_LOADING] []
    reach All
    summary "Takes ranges of slots from this node."
    complexity "O(N) where N is the total number of the slots between the start slot and end slot arguments."
    grammar "start-slot_end-slot=<start-slot:integer end-slot:integer>...";

ClusterFailover "cluster|failover" of Cluster, Cluster, arity -2, since "3.0.0"
    [ADMIN STALE NO_ASYNC_LOADING] []
    reach All
    summary "Has a replica take the place of its primary."
    complexity "O(1)"
    grammar "[options=<FORCE|TAKEOVER>]";

ClusterFlushSlot "cluster|flushslot" of Cluster, Cluster, arity -3, since "9.0.0"
    [WRITE ADMIN NO_ASYNC_LOADING] [KEYSPACE]
    reach All
    summary "Removes all keys of a slot."
    complexity "O(N) where N is the number of keys in the slot"
    grammar "slot:integer [flush-type=<ASYNC|SYNC>]";

ClusterFlushSlots "cluster|flushslots" of Cluster, Cluster, arity 2, since "3.0.0"
    [ADMIN STALE NO_ASYNC_LOADING] []
    reach All
    summary "Takes all slots from this node."
    complexity "O(1)"
    grammar "";

ClusterForget "cluster|forget" of Cluster, Cluster, arity 3, since "3.0.0"
    [ADMIN STALE NO_ASYNC_LOADING] []
    reach All
    summary "Has this node forget another."
    complexity "O(1)"
    grammar "node-id";

ClusterGetKeysInSlot "cluster|getkeysinslot" of Cluster, Cluster, arity 4, since "3.0.0"
    [STALE] []
    reach Each
    tips "nondeterministic_output"
    summary "Lists keys of this node in a slot."
    complexity "O(log(N)) where N is the number of requested keys"
    grammar "slot:integer count:integer";

ClusterHelp "cluster|help" of Cluster, Cluster, arity 2, since "5.0.0"
    [LOADING STALE] []
    summary "Lists the subcommands of CLUSTER."
    complexity "O(1)"
    grammar "";

ClusterInfo "cluster|info" of Cluster, Cluster, arity 2, since "3.0.0"
    [LOADING STALE] []
    tips "nondeterministic_output"
    summary "Tells how the cluster is doing, as this node sees it."
    complexity "O(1)"
    grammar "";

ClusterKeySlot "cluster|keyslot" of Cluster, Cluster, arity 3, since "3.0.0"
    [STALE] []
    summary "Computes the slot of a key."
    complexity "O(N) where N is the number of bytes in the key"
    grammar "key:string";

ClusterLinks "cluster|links" of Cluster, Cluster, arity 2, since "7.0.0"
    [STALE] []
    tips "nondeterministic_output"
    summary "Lists the connections to and from other nodes."
    complexity "O(N) where N is the total number of Cluster nodes"
    grammar "";

ClusterMeet "cluster|meet" of Cluster, Cluster, arity -4, since "3.0.0"
    [ADMIN STALE NO_ASYNC_LOADING] []
    reach All
    summary "Introduces this node to another."
    complexity "O(1)"
    grammar "ip port:integer [cluster_bus_port:integer@4.0.0]";

ClusterMyId "cluster|myid" of Cluster, Cluster, arity 2, since "3.0.0"
    [LOADING STALE] []
    summary "Gives the name of this node."
    complexity "O(1)"
    grammar "";

ClusterMyShardId "cluster|myshardid" of Cluster, Cluster, arity 2, since "7.2.0"
    [LOADING STALE] []
    tips "nondeterministic_output"
    summary "Gives the name of the shard of this node."
    complexity "O(1)"
    grammar "";

ClusterNodes "cluster|nodes" of Cluster, Cluster, arity 2, since "3.0.0"
    [LOADING STALE] []
    tips "nondeterministic_output"
    summary "Describes all nodes, as this one sees them."
    complexity "O(N) where N is the total number of Cluster nodes"
    grammar "";

ClusterReplicas "cluster|replicas" of Cluster, Cluster, arity 3, since "5.0.0"
    [ADMIN STALE] []
    tips "nondeterministic_output"
    summary "Lists the replicas of a node."
    complexity "O(1)"
    grammar "node-id";

ClusterReplicate "cluster|replicate" of Cluster, Cluster, arity 3, since "3.0.0"
    [ADMIN STALE NO_ASYNC_LOADING] []
    reach All
    summary "Makes this node the replica of another."
    complexity "O(1)"
    grammar "node-id";

ClusterReset "cluster|reset" of Cluster, Cluster, arity -2, since "3.0.0"
    [ADMIN NOSCRIPT STALE] []
    reach All
    summary "Has this node forget the cluster."
    complexity "O(N) where N is the number of known nodes. The command may execute a FLUSHALL as a side effect."
    grammar "[hard_soft=<HARD|SOFT>]";

ClusterSaveConfig "cluster|saveconfig" of Cluster, Cluster, arity 2, since "3.0.0"
    [ADMIN STALE NO_ASYNC_LOADING] []
    reach All
    summary "Writes the configuration of the cluster to disk."
    complexity "O(1)"
    grammar "";

ClusterSetConfigEpoch "cluster|set-config-epoch" of Cluster, Cluster, arity 3, since "3.0.0"
    [ADMIN STALE NO_ASYNC_LOADING] []
    reach All
    summary "Sets the epoch of the configuration in a new node."
    complexity "O(1)"
    grammar "config-epoch:integer";

ClusterSetSlot "cluster|setslot" of Cluster, Cluster, arity -4, since "3.0.0"
    [ADMIN STALE NO_ASYNC_LOADING] []
    reach All
    summary "Says whose a slot is, or whither it moves."
    complexity "O(1)"
    grammar "slot:integer subcommand=<IMPORTING node-id|MIGRATING node-id|NODE node-id|STABLE>";

ClusterShards "cluster|shards" of Cluster, Cluster, arity 2, since "7.0.0"
    [LOADING STALE] []
    tips "nondeterministic_output"
    summary "Describes which nodes serve which slots."
    complexity "O(N) where N is the total number of cluster nodes"
    grammar "";

ClusterSlaves "cluster|slaves" of Cluster, Cluster, arity 3, since "3.0.0"
    [ADMIN STALE] []
    tips "nondeterministic_output"
    deprecated "5.0.0" "`CLUSTER REPLICAS`"
    summary "Lists the replicas of a node."
    complexity "O(1)"
    grammar "node-id";

ClusterSlotStats "cluster|slot-stats" of Cluster, Cluster, arity -4, since "8.0.0"
    [LOADING STALE] []
    reach Each
    tips "nondeterministic_output" "request_policy:all_shards"
    summary "Tells the keys, the time and the bytes of this node's slots."
    complexity "O(N) where N is the number of slots, O(N*log(N)) with ORDERBY"
    grammar "filter=<slotsrange=<SLOTSRANGE start-slot:integer end-slot:integer>|orderby=<ORDERBY metric:string \
        [LIMIT limit:integer] [order=<ASC|DESC>]>>";

ClusterSlots "cluster|slots" of Cluster, Cluster, arity 2, since "3.0.0"
    [LOADING STALE] []
    tips "nondeterministic_output"
    deprecated "7.0.0" "`CLUSTER SHARDS`"
    summary "Lists ranges of slots with the nodes that serve them."
    complexity "O(N) where N is the total number of Cluster nodes"
    grammar "";

ReadOnly "readonly", Cluster, arity 1, since "3.0.0"
    [LOADING STALE FAST] [CONNECTION]
    summary "Lets this connection read from a replica of a cluster."
    complexity "O(1)"
    grammar "";

ReadWrite "readwrite", Cluster, arity 1, since "3.0.0"
    [LOADING STALE FAST] [CONNECTION]
    summary "Takes back what READONLY said."
    complexity "O(1)"
    grammar "";

    } };
}
