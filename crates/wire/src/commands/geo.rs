//! Geo commands: positions on the earth as scores of a sorted set.
//!
//! Rows only; `mod.rs` explains the form of a row.

macro_rules! geo_rows {
    ([$next:ident $($rest:ident)*] $($done:tt)*) => { $next! { [$($rest)*] $($done)*

GeoAdd "geoadd", Geo, arity -5, since "3.2.0"
    [WRITE DENYOOM] [GEO]
    keys (1; RW UPDATE)
    summary "Adds members with their positions to a geospatial index, which is a sorted set."
    complexity "O(log(N)) for each item added, where N is the number of elements in the sorted set."
    grammar "key [condition=<NX|XX>@6.2.0] [change=CH@6.2.0] longitude_latitude_member=<longitude:double \
        latitude:double member>...";

GeoDist "geodist", Geo, arity -4, since "3.2.0"
    [READONLY] [GEO]
    keys (1; RO ACCESS)
    summary "Gives the distance between two members of a geospatial index."
    complexity "O(log(N))"
    grammar "key member1 member2 [unit=<M|KM|FT|MI>]";

GeoHash "geohash", Geo, arity -2, since "3.2.0"
    [READONLY] [GEO]
    keys (1; RO ACCESS)
    summary "Gives the positions of members of a geospatial index as geohash text."
    complexity "O(log(N)) for each member requested, where N is the number of elements in the sorted set."
    grammar "key member...";

GeoPos "geopos", Geo, arity -2, since "3.2.0"
    [READONLY] [GEO]
    keys (1; RO ACCESS)
    summary "Gives longitude and latitude of members of a geospatial index."
    complexity "O(N) where N is the number of members requested."
    grammar "key member...";

GeoRadius "georadius", Geo, arity -6, since "3.2.0"
    [WRITE DENYOOM MOVABLE_KEYS] [GEO]
    keys (1; RO ACCESS) (after "STORE" 6; OW UPDATE) (after "STOREDIST" 6; OW UPDATE)
    deprecated "6.2.0" "`GEOSEARCH` and `GEOSEARCHSTORE` with the `BYRADIUS` argument"
    summary "Finds the members of a geospatial index around a position, and gives or stores them."
    complexity "O(N+log(M)) where N is the number of elements inside the bounding box of the circular area delimited \
        by center and radius and M is the number of items inside the index."
    grammar "key longitude:double latitude:double radius:double unit=<M|KM|FT|MI> [WITHCOORD] [WITHDIST] [WITHHASH] \
        [count=<COUNT count:integer [ANY@6.2.0]>] [order=<ASC|DESC>] [STORE key#1] [STOREDIST key#2]";

GeoRadiusRo "georadius_ro", Geo, arity -6, since "3.2.10"
    [READONLY] [GEO]
    keys (1; RO ACCESS)
    deprecated "6.2.0" "`GEOSEARCH` with the `BYRADIUS` argument"
    summary "Finds the members of a geospatial index around a position."
    complexity "O(N+log(M)) where N is the number of elements inside the bounding box of the circular area delimited \
        by center and radius and M is the number of items inside the index."
    grammar "key longitude:double latitude:double radius:double unit=<M|KM|FT|MI> [WITHCOORD] [WITHDIST] [WITHHASH] \
        [count=<COUNT count:integer [ANY@6.2.0]>] [order=<ASC|DESC>]";

GeoRadiusByMember "georadiusbymember", Geo, arity -5, since "3.2.0"
    [WRITE DENYOOM MOVABLE_KEYS] [GEO]
    keys (1; RO ACCESS) (after "STORE" 5; OW UPDATE) (after "STOREDIST" 5; OW UPDATE)
    deprecated "6.2.0" "`GEOSEARCH` and `GEOSEARCHSTORE` with the `BYRADIUS` and `FROMMEMBER` arguments"
    summary "Finds the members of a geospatial index around a member, and gives or stores them."
    complexity "O(N+log(M)) where N is the number of elements inside the bounding box of the circular area delimited \
        by center and radius and M is the number of items inside the index."
    grammar "key member radius:double unit=<M|KM|FT|MI> [WITHCOORD] [WITHDIST] [WITHHASH] [count=<COUNT \
        count:integer [ANY]>] [order=<ASC|DESC>] [STORE key#1] [STOREDIST key#2]";

GeoRadiusByMemberRo "georadiusbymember_ro", Geo, arity -5, since "3.2.10"
    [READONLY] [GEO]
    keys (1; RO ACCESS)
    deprecated "6.2.0" "`GEOSEARCH` with the `BYRADIUS` and `FROMMEMBER` arguments"
    summary "Finds the members of a geospatial index around a member."
    complexity "O(N+log(M)) where N is the number of elements inside the bounding box of the circular area delimited \
        by center and radius and M is the number of items inside the index."
    grammar "key member radius:double unit=<M|KM|FT|MI> [WITHCOORD] [WITHDIST] [WITHHASH] [count=<COUNT \
        count:integer [ANY]>] [order=<ASC|DESC>]";

GeoSearch "geosearch", Geo, arity -7, since "6.2.0"
    [READONLY] [GEO]
    keys (1; RO ACCESS)
    summary "Finds the members of a geospatial index inside a circle or a box."
    complexity "O(N+log(M)) where N is the number of elements in the grid-aligned bounding box area around the shape \
        provided as the filter and M is the number of items inside the shape"
    grammar "key from=<FROMMEMBER member|FROMLONLAT longitude_latitude=<longitude:double latitude:double>> \
        by=<circle=<BYRADIUS radius:double unit=<M|KM|FT|MI>>|box=<BYBOX width:double height:double \
        unit=<M|KM|FT|MI>>> [order=<ASC|DESC>] [count=<COUNT count:integer [ANY]>] [WITHCOORD] [WITHDIST] [WITHHASH]";

GeoSearchStore "geosearchstore", Geo, arity -8, since "6.2.0"
    [WRITE DENYOOM] [GEO]
    keys (1; OW UPDATE) (2; RO ACCESS)
    summary "Finds the members of a geospatial index inside a circle or a box, and stores them."
    complexity "O(N+log(M)) where N is the number of elements in the grid-aligned bounding box area around the shape \
        provided as the filter and M is the number of items inside the shape"
    grammar "destination:key source:key#1 from=<FROMMEMBER member|FROMLONLAT longitude_latitude=<longitude:double \
        latitude:double>> by=<circle=<BYRADIUS radius:double unit=<M|KM|FT|MI>>|box=<BYBOX width:double \
        height:double unit=<M|KM|FT|MI>>> [order=<ASC|DESC>] [count=<COUNT count:integer [ANY]>] [STOREDIST]";

    } };
}
