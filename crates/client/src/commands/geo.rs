//! Geo commands, one line each.
//!
//! Members come alone, or, with more, as arrays that begin with the member: distance, hash and position follow in this
//! order, such as `Vec<(String, f64, (f64, f64))>`.

use crate::resp::number::Number;
use crate::resp::options::geo::{GeoArea, GeoOptions, GeoUnit};
use crate::resp::options::sorted_set::AddOptions;
use crate::resp::request::{ToArg, ToArgs};

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
        /// Adds members, given as longitude, latitude (degrees) and member; returns the number of new ones.
        geoadd(key: impl ToArg, positions: impl ToArgs) -> u64 = ["GEOADD", key, positions];
        /// Works as `geoadd` does, under a condition; comparisons of scores are not allowed.
        geoadd_with(key: impl ToArg, positions: impl ToArgs, options: AddOptions) -> u64 = ["GEOADD", key, options, positions];
        /// Returns the distance between two members, or nil if one does not exist.
        geodist(key: impl ToArg, one: impl ToArg, other: impl ToArg, unit: GeoUnit) -> Option<f64> = ["GEODIST", key, one, other, unit];
        /// Returns the positions of members as geohash texts of 11 characters; nil for one that does not exist.
        geohash(key: impl ToArg, members: impl ToArgs) -> Vec<Option<String>> = ["GEOHASH", key, members];
        /// Returns longitude and latitude of members; nil for a member that does not exist.
        geopos(key: impl ToArg, members: impl ToArgs) -> Vec<Option<(f64, f64)>> = ["GEOPOS", key, members];
        /// Returns the members around a position (longitude and latitude, degrees). The old form of `geosearch`.
        georadius<T>(key: impl ToArg, position: (impl Number, impl Number), radius: impl Number, unit: GeoUnit) -> T = ["GEORADIUS", key, position, radius, unit];
        /// Works as `georadius` does, with options.
        georadius_with<T>(key: impl ToArg, position: (impl Number, impl Number), radius: impl Number, unit: GeoUnit, options: GeoOptions) -> T = ["GEORADIUS", key, position, radius, unit, options];
        /// Works as `georadius` does, also on servers that take no writes.
        georadius_ro<T>(key: impl ToArg, position: (impl Number, impl Number), radius: impl Number, unit: GeoUnit) -> T = ["GEORADIUS_RO", key, position, radius, unit];
        /// Works as `georadius_ro` does, with options.
        georadius_ro_with<T>(key: impl ToArg, position: (impl Number, impl Number), radius: impl Number, unit: GeoUnit, options: GeoOptions) -> T = ["GEORADIUS_RO", key, position, radius, unit, options];
        /// Works as `georadius` does, and stores the members with their positions; returns their number.
        georadius_store(key: impl ToArg, position: (impl Number, impl Number), radius: impl Number, unit: GeoUnit, destination: impl ToArg) -> u64 = ["GEORADIUS", key, position, radius, unit, "STORE", destination];
        /// Works as `georadius_store` does, with options.
        georadius_store_with(key: impl ToArg, position: (impl Number, impl Number), radius: impl Number, unit: GeoUnit, destination: impl ToArg, options: GeoOptions) -> u64 = ["GEORADIUS", key, position, radius, unit, options, "STORE", destination];
        /// Works as `georadius` does, and stores the members with their distances as scores; returns their number.
        georadius_storedist(key: impl ToArg, position: (impl Number, impl Number), radius: impl Number, unit: GeoUnit, destination: impl ToArg) -> u64 = ["GEORADIUS", key, position, radius, unit, "STOREDIST", destination];
        /// Works as `georadius_storedist` does, with options.
        georadius_storedist_with(key: impl ToArg, position: (impl Number, impl Number), radius: impl Number, unit: GeoUnit, destination: impl ToArg, options: GeoOptions) -> u64 = ["GEORADIUS", key, position, radius, unit, options, "STOREDIST", destination];
        /// Returns the members around another one. The old form of `geosearch`.
        georadiusbymember<T>(key: impl ToArg, member: impl ToArg, radius: impl Number, unit: GeoUnit) -> T = ["GEORADIUSBYMEMBER", key, member, radius, unit];
        /// Works as `georadiusbymember` does, with options.
        georadiusbymember_with<T>(key: impl ToArg, member: impl ToArg, radius: impl Number, unit: GeoUnit, options: GeoOptions) -> T = ["GEORADIUSBYMEMBER", key, member, radius, unit, options];
        /// Works as `georadiusbymember` does, also on servers that take no writes.
        georadiusbymember_ro<T>(key: impl ToArg, member: impl ToArg, radius: impl Number, unit: GeoUnit) -> T = ["GEORADIUSBYMEMBER_RO", key, member, radius, unit];
        /// Works as `georadiusbymember_ro` does, with options.
        georadiusbymember_ro_with<T>(key: impl ToArg, member: impl ToArg, radius: impl Number, unit: GeoUnit, options: GeoOptions) -> T = ["GEORADIUSBYMEMBER_RO", key, member, radius, unit, options];
        /// Works as `georadiusbymember` does, and stores the members with their positions; returns their number.
        georadiusbymember_store(key: impl ToArg, member: impl ToArg, radius: impl Number, unit: GeoUnit, destination: impl ToArg) -> u64 = ["GEORADIUSBYMEMBER", key, member, radius, unit, "STORE", destination];
        /// Works as `georadiusbymember_store` does, with options.
        georadiusbymember_store_with(key: impl ToArg, member: impl ToArg, radius: impl Number, unit: GeoUnit, destination: impl ToArg, options: GeoOptions) -> u64 = ["GEORADIUSBYMEMBER", key, member, radius, unit, options, "STORE", destination];
        /// Works as `georadiusbymember` does, and stores the members with their distances as scores; returns their number.
        georadiusbymember_storedist(key: impl ToArg, member: impl ToArg, radius: impl Number, unit: GeoUnit, destination: impl ToArg) -> u64 = ["GEORADIUSBYMEMBER", key, member, radius, unit, "STOREDIST", destination];
        /// Works as `georadiusbymember_storedist` does, with options.
        georadiusbymember_storedist_with(key: impl ToArg, member: impl ToArg, radius: impl Number, unit: GeoUnit, destination: impl ToArg, options: GeoOptions) -> u64 = ["GEORADIUSBYMEMBER", key, member, radius, unit, options, "STOREDIST", destination];
        /// Returns the members in an area.
        geosearch<T>(key: impl ToArg, area: GeoArea) -> T = ["GEOSEARCH", key, area];
        /// Works as `geosearch` does, with options.
        geosearch_with<T>(key: impl ToArg, area: GeoArea, options: GeoOptions) -> T = ["GEOSEARCH", key, area, options];
        /// Stores the members in an area with their positions; returns their number.
        geosearchstore(destination: impl ToArg, source: impl ToArg, area: GeoArea) -> u64 = ["GEOSEARCHSTORE", destination, source, area];
        /// Works as `geosearchstore` does, with options.
        geosearchstore_with(destination: impl ToArg, source: impl ToArg, area: GeoArea, options: GeoOptions) -> u64 = ["GEOSEARCHSTORE", destination, source, area, options];
        /// Stores the members in an area with their distances as scores; returns their number.
        geosearchstore_storedist(destination: impl ToArg, source: impl ToArg, area: GeoArea) -> u64 = ["GEOSEARCHSTORE", destination, source, area, "STOREDIST"];
        /// Works as `geosearchstore_storedist` does, with options.
        geosearchstore_storedist_with(destination: impl ToArg, source: impl ToArg, area: GeoArea, options: GeoOptions) -> u64 = ["GEOSEARCHSTORE", destination, source, area, options, "STOREDIST"];
    }
}
