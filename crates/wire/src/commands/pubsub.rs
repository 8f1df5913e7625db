//! Commands about publishing and subscribing.
//!
//! Rows only; `mod.rs` explains the form of a row.

macro_rules! pubsub_rows {
    ([$next:ident $($rest:ident)*] $($done:tt)*) => { $next! { [$($rest)*] $($done)*

PSubscribe "psubscribe", PubSub, arity -2, since "2.0.0"
    [PUBSUB NOSCRIPT LOADING STALE] []
    connection Messages
    summary "Listens to all channels whose names match patterns."
    complexity "O(N) where N is the number of patterns to subscribe to."
    grammar "pattern=<pattern>...";

Publish "publish", PubSub, arity 3, since "2.0.0"
    [PUBSUB LOADING STALE FAST MAY_REPLICATE] []
    summary "Sends a message to all who listen to a channel."
    complexity "O(N+M) where N is the number of clients subscribed to the receiving channel and M is the total number of \
        subscribed patterns (by any client)."
    grammar "channel message";

PubSub "pubsub", PubSub, arity -2, since "2.8.0"
    [] []
    summary "Holds the commands that look at subscriptions."
    complexity "Depends on subcommand."
    grammar "";

PubSubChannels "pubsub|channels" of PubSub, PubSub, arity -2, since "2.8.0"
    [PUBSUB LOADING STALE] []
    summary "Lists the channels that somebody listens to."
    complexity "O(N) where N is the number of active channels, and assuming constant time pattern matching (relatively short \
        channels and patterns)"
    grammar "[pattern]";

PubSubHelp "pubsub|help" of PubSub, PubSub, arity 2, since "6.2.0"
    [LOADING STALE] []
    summary "Lists the subcommands of PUBSUB."
    complexity "O(1)"
    grammar "";

PubSubNumPat "pubsub|numpat" of PubSub, PubSub, arity 2, since "2.8.0"
    [PUBSUB LOADING STALE] []
    summary "Counts the patterns that somebody listens to."
    complexity "O(1)"
    grammar "";

PubSubNumSub "pubsub|numsub" of PubSub, PubSub, arity -2, since "2.8.0"
    [PUBSUB LOADING STALE] []
    summary "Counts who listens to each of the given channels."
    complexity "O(N) for the NUMSUB subcommand, where N is the number of requested channels"
    grammar "[channel...]";

PubSubShardChannels "pubsub|shardchannels" of PubSub, PubSub, arity -2, since "7.0.0"
    [PUBSUB LOADING STALE] []
    summary "Lists the shard channels that somebody listens to."
    complexity "O(N) where N is the number of active shard channels, and assuming constant time pattern matching (relatively \
        short shard channels)."
    grammar "[pattern]";

PubSubShardNumSub "pubsub|shardnumsub" of PubSub, PubSub, arity -2, since "7.0.0"
    [PUBSUB LOADING STALE] []
    summary "Counts who listens to each of the given shard channels."
    complexity "O(N) for the SHARDNUMSUB subcommand, where N is the number of requested shard channels"
    grammar "[shardchannel...]";

PUnsubscribe "punsubscribe", PubSub, arity -1, since "2.0.0"
    [PUBSUB NOSCRIPT LOADING STALE] []
    connection Messages
    summary "Stops listening to patterns, or to all of them."
    complexity "O(N) where N is the number of patterns to unsubscribe."
    grammar "[pattern...]";

SPublish "spublish", PubSub, arity 3, since "7.0.0"
    [PUBSUB LOADING STALE FAST MAY_REPLICATE] []
    keys (1; NOT_KEY)
    summary "Sends a message to all who listen to a shard channel."
    complexity "O(N) where N is the number of clients subscribed to the receiving shard channel."
    grammar "shardchannel message";

SSubscribe "ssubscribe", PubSub, arity -2, since "7.0.0"
    [PUBSUB NOSCRIPT LOADING STALE] []
    keys (1 to -1 step 1; NOT_KEY)
    connection Messages
    summary "Listens to shard channels."
    complexity "O(N) where N is the number of shard channels to subscribe to."
    grammar "shardchannel...";

Subscribe "subscribe", PubSub, arity -2, since "2.0.0"
    [PUBSUB NOSCRIPT LOADING STALE] []
    connection Messages
    summary "Listens to channels."
    complexity "O(N) where N is the number of channels to subscribe to."
    grammar "channel...";

SUnsubscribe "sunsubscribe", PubSub, arity -1, since "7.0.0"
    [PUBSUB NOSCRIPT LOADING STALE] []
    keys (1 to -1 step 1; NOT_KEY)
    connection Messages
    summary "Stops listening to shard channels, or to all of them."
    complexity "O(N) where N is the number of shard channels to unsubscribe."
    grammar "[shardchannel...]";

Unsubscribe "unsubscribe", PubSub, arity -1, since "2.0.0"
    [PUBSUB NOSCRIPT LOADING STALE] []
    connection Messages
    summary "Stops listening to channels, or to all of them."
    complexity "O(N) where N is the number of channels to unsubscribe."
    grammar "[channel...]";

    } };
}
