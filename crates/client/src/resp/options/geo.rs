//! Options of the geo commands: units, areas, and the details that are returned with the members.
//!
//! Each writes the words of its command in the order that the server documents. Pure data; any thread.

use crate::resp::number::Number;
use crate::resp::request::{Request, ToArg, ToArgs};

/// A unit of distance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum GeoUnit {
    /// Metres.
    Metres,
    /// Kilometres.
    Kilometres,
    /// Miles.
    Miles,
    /// Feet.
    Feet,
}

impl ToArgs for GeoUnit {
    fn write_to(&self, request: &mut Request) {
        request.word(match self {
            Self::Metres => "m",
            Self::Kilometres => "km",
            Self::Miles => "mi",
            Self::Feet => "ft",
        });
    }
}

impl ToArg for GeoUnit {}

/// The area in which GEOSEARCH searches.
#[derive(Clone, Debug, PartialEq)]
pub struct GeoArea {
    centre: GeoCentre,
    shape: (&'static str, Vec<f64>, GeoUnit),
}

/// The centre of an area that has no shape yet; see [`GeoArea`].
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum GeoCentre {
    /// The position of a member.
    Member(String),
    /// Longitude and latitude, in degrees.
    Position(f64, f64),
}

impl GeoArea {
    /// Centres the area on a position: longitude and latitude, in degrees.
    pub fn around(longitude: impl Number, latitude: impl Number) -> GeoCentre {
        GeoCentre::Position(longitude.to_f64(), latitude.to_f64())
    }

    /// Centres the area on a member.
    pub fn around_member(member: impl Into<String>) -> GeoCentre {
        GeoCentre::Member(member.into())
    }
}

impl GeoCentre {
    /// Makes the area a circle of this radius.
    pub fn within(self, radius: impl Number, unit: GeoUnit) -> GeoArea {
        GeoArea { centre: self, shape: ("BYRADIUS", vec![radius.to_f64()], unit) }
    }

    /// Makes the area a box of this width and height, along the parallels and meridians.
    pub fn in_box(self, width: impl Number, height: impl Number, unit: GeoUnit) -> GeoArea {
        GeoArea { centre: self, shape: ("BYBOX", vec![width.to_f64(), height.to_f64()], unit) }
    }
}

impl ToArgs for GeoArea {
    fn write_to(&self, request: &mut Request) {
        match &self.centre {
            GeoCentre::Member(member) => request.word("FROMMEMBER").arg(member),
            GeoCentre::Position(longitude, latitude) => request.word("FROMLONLAT").arg(longitude).arg(latitude),
        };
        let (shape, sizes, unit) = &self.shape;
        request.arg(shape).arg(sizes).arg(unit);
    }
}

/// The order of the returned members, their number, and the details that are returned with each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GeoOptions {
    order: Option<&'static str>,
    count: Option<u64>,
    is_any: bool,
    has_position: bool,
    has_distance: bool,
    has_hash: bool,
}

impl GeoOptions {
    /// Returns the defaults: all members, in no order, without details.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the nearest members first.
    pub fn nearest_first(mut self) -> Self {
        self.order = Some("ASC");
        self
    }

    /// Returns the farthest members first.
    pub fn farthest_first(mut self) -> Self {
        self.order = Some("DESC");
        self
    }

    /// Returns at most this many members: the nearest ones, unless the farthest come first.
    pub fn count(mut self, count: u64) -> Self {
        (self.count, self.is_any) = (Some(count), false);
        self
    }

    /// Returns at most this many members, the first that are found: faster if there are many.
    pub fn any(mut self, count: u64) -> Self {
        (self.count, self.is_any) = (Some(count), true);
        self
    }

    /// Returns each member with its longitude and latitude.
    pub fn with_position(mut self) -> Self {
        self.has_position = true;
        self
    }

    /// Returns each member with its distance from the centre, in the unit of the area.
    pub fn with_distance(mut self) -> Self {
        self.has_distance = true;
        self
    }

    /// Returns each member with its score: the position as an integer of 52 bits.
    pub fn with_hash(mut self) -> Self {
        self.has_hash = true;
        self
    }
}

impl ToArgs for GeoOptions {
    fn write_to(&self, request: &mut Request) {
        request.arg(self.order);
        request.arg(self.count.map(|count| ("COUNT", count, self.is_any.then_some("ANY"))));
        request.arg(self.has_position.then_some("WITHCOORD"));
        request.arg(self.has_distance.then_some("WITHDIST"));
        request.arg(self.has_hash.then_some("WITHHASH"));
    }
}
