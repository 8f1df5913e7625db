//! Options of the geo commands: units, areas, and the facts that come with the members.
//!
//! Each writes the words that the server documents, in the order in which it wants them. Pure data; any thread.

use crate::request::{Request, ToArg, ToArgs};
use crate::values::number::Number;

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

/// Where GEOSEARCH looks.
///
/// ```
/// use sleeve::{GeoArea, GeoUnit};
///
/// let nearby = GeoArea::around_member("Palermo").within(200.0, GeoUnit::Kilometres);
/// let box_of_a_map = GeoArea::around(15.0, 37.0).in_box(400.0, 300.0, GeoUnit::Kilometres);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct GeoArea {
    centre: GeoCentre,
    shape: (&'static str, Vec<f64>, GeoUnit),
}

/// The middle of an area that has no shape yet; see [`GeoArea`].
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum GeoCentre {
    /// The position of a member.
    Member(String),
    /// Longitude and latitude, degrees.
    Position(f64, f64),
}

impl GeoArea {
    /// Around a position: longitude and latitude, degrees.
    pub fn around(longitude: impl Number, latitude: impl Number) -> GeoCentre {
        GeoCentre::Position(longitude.to_f64(), latitude.to_f64())
    }

    /// Around a member.
    pub fn around_member(member: impl Into<String>) -> GeoCentre {
        GeoCentre::Member(member.into())
    }
}

impl GeoCentre {
    /// A circle of this radius.
    pub fn within(self, radius: impl Number, unit: GeoUnit) -> GeoArea {
        GeoArea { centre: self, shape: ("BYRADIUS", vec![radius.to_f64()], unit) }
    }

    /// A box of this width and height, along the parallels and meridians.
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

/// The order of the members, their number, and the facts that come with each.
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
    /// All members, in no order, without more.
    pub fn new() -> Self {
        Self::default()
    }

    /// The nearest first.
    pub fn nearest_first(mut self) -> Self {
        self.order = Some("ASC");
        self
    }

    /// The farthest first.
    pub fn farthest_first(mut self) -> Self {
        self.order = Some("DESC");
        self
    }

    /// Only so many: the nearest ones, unless the farthest come first.
    pub fn count(mut self, count: u64) -> Self {
        (self.count, self.is_any) = (Some(count), false);
        self
    }

    /// Only so many, whichever are found first: faster where there are many.
    pub fn any(mut self, count: u64) -> Self {
        (self.count, self.is_any) = (Some(count), true);
        self
    }

    /// With longitude and latitude.
    pub fn with_position(mut self) -> Self {
        self.has_position = true;
        self
    }

    /// With the distance from the centre, in the unit that was asked for.
    pub fn with_distance(mut self) -> Self {
        self.has_distance = true;
        self
    }

    /// With the score: the position as an integer of 52 bits.
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
