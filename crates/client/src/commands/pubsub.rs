//! The commands about publishing as methods, one line each. [`Client::subscribe`](crate::Client::subscribe) and methods like
//! it subscribe.

use crate::resp::request::{ToArg, ToArgs};

super::commands! {
    /// Commands about publishing.
    ///
    /// ```
    /// # #[cfg(feature = "embedded")] {
    /// use sleeve::{Client, prelude::*};
    ///
    /// let client = Client::embedded();
    /// let subscription = client.subscribe("news")?;
    /// assert_eq!(client.publish("news", "hello").wait()?, 1);
    /// assert_eq!(client.pubsub_channels::<Vec<String>>().wait()?, ["news"]);
    /// # }
    /// # Ok::<(), sleeve::Error>(())
    /// ```
    PubSubCommands {
        /// Sends a message to all subscribers of the channel; returns their number.
        publish(channel: impl ToArg, message: impl ToArg) -> u64 = ["PUBLISH", channel, message];
        /// Sends a message to all subscribers of the shard channel; returns their number.
        spublish(channel: impl ToArg, message: impl ToArg) -> u64 = ["SPUBLISH", channel, message];
        /// Returns the channels with subscribers.
        pubsub_channels<T>() -> T = ["PUBSUB", "CHANNELS"];
        /// Returns the channels with subscribers that match this glob pattern.
        pubsub_channels_matching<T>(pattern: impl ToArg) -> T = ["PUBSUB", "CHANNELS", pattern];
        /// Returns the help of PUBSUB, in lines.
        pubsub_help() -> Vec<String> = ["PUBSUB", "HELP"];
        /// Returns the number of patterns with subscribers.
        pubsub_numpat() -> u64 = ["PUBSUB", "NUMPAT"];
        /// Returns each of the channels with the number of its subscribers.
        pubsub_numsub<T>(channels: impl ToArgs) -> T = ["PUBSUB", "NUMSUB", channels];
        /// Returns the shard channels with subscribers.
        pubsub_shardchannels<T>() -> T = ["PUBSUB", "SHARDCHANNELS"];
        /// Returns the shard channels with subscribers that match this glob pattern.
        pubsub_shardchannels_matching<T>(pattern: impl ToArg) -> T = ["PUBSUB", "SHARDCHANNELS", pattern];
        /// Returns each of the shard channels with the number of its subscribers.
        pubsub_shardnumsub<T>(channels: impl ToArgs) -> T = ["PUBSUB", "SHARDNUMSUB", channels];
    }
}
