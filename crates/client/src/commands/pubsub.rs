//! Commands about publishing, one line each. To listen is [`Client::subscribe`](crate::Client::subscribe) and its kin.

use crate::request::{ToArg, ToArgs};

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
        /// Sends a message to all who listen to the channel; answers how many they are.
        publish(channel: impl ToArg, message: impl ToArg) -> u64 = ["PUBLISH", channel, message];
        /// Sends a message to all who listen to the shard channel; answers how many they are.
        spublish(channel: impl ToArg, message: impl ToArg) -> u64 = ["SPUBLISH", channel, message];
        /// The channels that somebody listens to.
        pubsub_channels<T>() -> T = ["PUBSUB", "CHANNELS"];
        /// The channels that somebody listens to and that this glob pattern matches.
        pubsub_channels_matching<T>(pattern: impl ToArg) -> T = ["PUBSUB", "CHANNELS", pattern];
        /// What PUBSUB can do, in lines.
        pubsub_help() -> Vec<String> = ["PUBSUB", "HELP"];
        /// How many patterns somebody listens to.
        pubsub_numpat() -> u64 = ["PUBSUB", "NUMPAT"];
        /// Each of the channels with how many listen to it.
        pubsub_numsub<T>(channels: impl ToArgs) -> T = ["PUBSUB", "NUMSUB", channels];
        /// The shard channels that somebody listens to.
        pubsub_shardchannels<T>() -> T = ["PUBSUB", "SHARDCHANNELS"];
        /// The shard channels that somebody listens to and that this glob pattern matches.
        pubsub_shardchannels_matching<T>(pattern: impl ToArg) -> T = ["PUBSUB", "SHARDCHANNELS", pattern];
        /// Each of the shard channels with how many listen to it.
        pubsub_shardnumsub<T>(channels: impl ToArgs) -> T = ["PUBSUB", "SHARDNUMSUB", channels];
    }
}
