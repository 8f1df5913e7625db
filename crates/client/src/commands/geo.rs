//! Geo commands, one line each.
//!
//! Members come alone, or, with more, as arrays that begin with the member: distance, hash and position follow in this
//! order, such as `Vec<(String, f64, (f64, f64))>`.

use crate::request::{ToArg, ToArgs};
use crate::values::number::Number;
use crate::values::options::geo::{GeoArea, GeoOptions, GeoUnit};
use crate::values::options::sorted_set::AddOptions;

super::commands! {
    /// Commands on positions: sorted sets with places on the earth as scores.
    ///
    /// ```
    /// # #[cfg(feature = "embedded")] {
    /// use sleeve::{Client, prelude::*};
    ///
    /// let client = Client::embedded();
    /// client.geoadd("cities", (13.361389, 38.115556, "Palermo")).wait()?;
    /// client.geoadd("cities", (15.087269, 37.502669, "Catania")).wait()?;
    /// let kilometres = client.geodist("cities", "Palermo", "Catania", sleeve::GeoUnit::Kilometres).wait()?;
    /// assert!(kilometres.is_some_and(|distance| (160.0..170.0).contains(&distance)));
    /// # }
    /// # Ok::<(), sleeve::Error>(())
    /// ```
    GeoCommands {
        /// Adds members, given as longitude, latitude (degrees) and member; answers how many are new.
        geoadd(key: impl ToArg, positions: impl ToArgs) -> u64 = ["GEOADD", key, positions];
        /// As `geoadd`, under a condition; comparisons are not for positions.
        geoadd_with(key: impl ToArg, positions: impl ToArgs, options: AddOptions) -> u64 = ["GEOADD", key, options, positions];
        /// The distance between two members, or nil if one is not there.
        geodist(key: impl ToArg, one: impl ToArg, other: impl ToArg, unit: GeoUnit) -> Option<f64> = ["GEODIST", key, one, other, unit];
        /// The positions of members as geohash texts of 11 characters, nil for one that is not there.
        geohash(key: impl ToArg, members: impl ToArgs) -> Vec<Option<String>> = ["GEOHASH", key, members];
        /// Longitude and latitude of members, nil for one that is not there.
        geopos(key: impl ToArg, members: impl ToArgs) -> Vec<Option<(f64, f64)>> = ["GEOPOS", key, members];
        /// The members around a position (longitude and latitude, degrees). The old form of `geosearch`.
        georadius<T>(key: impl ToArg, position: (impl Number, impl Number), radius: impl Number, unit: GeoUnit) -> T = ["GEORADIUS", key, position, radius, unit];
        /// As `georadius`, with options.
        georadius_with<T>(key: impl ToArg, position: (impl Number, impl Number), radius: impl Number, unit: GeoUnit, options: GeoOptions) -> T = ["GEORADIUS", key, position, radius, unit, options];
        /// As `georadius`, of servers that take no writes.
        georadius_ro<T>(key: impl ToArg, position: (impl Number, impl Number), radius: impl Number, unit: GeoUnit) -> T = ["GEORADIUS_RO", key, position, radius, unit];
        /// As `georadius_ro`, with options.
        georadius_ro_with<T>(key: impl ToArg, position: (impl Number, impl Number), radius: impl Number, unit: GeoUnit, options: GeoOptions) -> T = ["GEORADIUS_RO", key, position, radius, unit, options];
        /// As `georadius`, and stores the members with their positions; answers how many.
        georadius_store(key: impl ToArg, position: (impl Number, impl Number), radius: impl Number, unit: GeoUnit, destination: impl ToArg) -> u64 = ["GEORADIUS", key, position, radius, unit, "STORE", destination];
        /// As `georadius_store`, with options.
        georadius_store_with(key: impl ToArg, position: (impl Number, impl Number), radius: impl Number, unit: GeoUnit, destination: impl ToArg, options: GeoOptions) -> u64 = ["GEORADIUS", key, position, radius, unit, options, "STORE", destination];
        /// As `georadius`, and stores the members with their distances for scores; answers how many.
        georadius_storedist(key: impl ToArg, position: (impl Number, impl Number), radius: impl Number, unit: GeoUnit, destination: impl ToArg) -> u64 = ["GEORADIUS", key, position, radius, unit, "STOREDIST", destination];
        /// As `georadius_storedist`, with options.
        georadius_storedist_with(key: impl ToArg, position: (impl Number, impl Number), radius: impl Number, unit: GeoUnit, destination: impl ToArg, options: GeoOptions) -> u64 = ["GEORADIUS", key, position, radius, unit, options, "STOREDIST", destination];
        /// The members around another one. The old form of `geosearch`.
        georadiusbymember<T>(key: impl ToArg, member: impl ToArg, radius: impl Number, unit: GeoUnit) -> T = ["GEORADIUSBYMEMBER", key, member, radius, unit];
        /// As `georadiusbymember`, with options.
        georadiusbymember_with<T>(key: impl ToArg, member: impl ToArg, radius: impl Number, unit: GeoUnit, options: GeoOptions) -> T = ["GEORADIUSBYMEMBER", key, member, radius, unit, options];
        /// As `georadiusbymember`, of servers that take no writes.
        georadiusbymember_ro<T>(key: impl ToArg, member: impl ToArg, radius: impl Number, unit: GeoUnit) -> T = ["GEORADIUSBYMEMBER_RO", key, member, radius, unit];
        /// As `georadiusbymember_ro`, with options.
        georadiusbymember_ro_with<T>(key: impl ToArg, member: impl ToArg, radius: impl Number, unit: GeoUnit, options: GeoOptions) -> T = ["GEORADIUSBYMEMBER_RO", key, member, radius, unit, options];
        /// As `georadiusbymember`, and stores the members with their positions; answers how many.
        georadiusbymember_store(key: impl ToArg, member: impl ToArg, radius: impl Number, unit: GeoUnit, destination: impl ToArg) -> u64 = ["GEORADIUSBYMEMBER", key, member, radius, unit, "STORE", destination];
        /// As `georadiusbymember_store`, with options.
        georadiusbymember_store_with(key: impl ToArg, member: impl ToArg, radius: impl Number, unit: GeoUnit, destination: impl ToArg, options: GeoOptions) -> u64 = ["GEORADIUSBYMEMBER", key, member, radius, unit, options, "STORE", destination];
        /// As `georadiusbymember`, and stores the members with their distances for scores; answers how many.
        georadiusbymember_storedist(key: impl ToArg, member: impl ToArg, radius: impl Number, unit: GeoUnit, destination: impl ToArg) -> u64 = ["GEORADIUSBYMEMBER", key, member, radius, unit, "STOREDIST", destination];
        /// As `georadiusbymember_storedist`, with options.
        georadiusbymember_storedist_with(key: impl ToArg, member: impl ToArg, radius: impl Number, unit: GeoUnit, destination: impl ToArg, options: GeoOptions) -> u64 = ["GEORADIUSBYMEMBER", key, member, radius, unit, options, "STOREDIST", destination];
        /// The members in an area.
        geosearch<T>(key: impl ToArg, area: GeoArea) -> T = ["GEOSEARCH", key, area];
        /// As `geosearch`, with options.
        geosearch_with<T>(key: impl ToArg, area: GeoArea, options: GeoOptions) -> T = ["GEOSEARCH", key, area, options];
        /// Stores the members in an area with their positions; answers how many.
        geosearchstore(destination: impl ToArg, source: impl ToArg, area: GeoArea) -> u64 = ["GEOSEARCHSTORE", destination, source, area];
        /// As `geosearchstore`, with options.
        geosearchstore_with(destination: impl ToArg, source: impl ToArg, area: GeoArea, options: GeoOptions) -> u64 = ["GEOSEARCHSTORE", destination, source, area, options];
        /// Stores the members in an area with their distances for scores; answers how many.
        geosearchstore_storedist(destination: impl ToArg, source: impl ToArg, area: GeoArea) -> u64 = ["GEOSEARCHSTORE", destination, source, area, "STOREDIST"];
        /// As `geosearchstore_storedist`, with options.
        geosearchstore_storedist_with(destination: impl ToArg, source: impl ToArg, area: GeoArea, options: GeoOptions) -> u64 = ["GEOSEARCHSTORE", destination, source, area, options, "STOREDIST"];
    }
}
