//! Searching in geospatial indexes: everything inside a circle or a box, sorted by distance, limited, shown or stored.
//!
//! The shape is covered by up to nine cells of the geohash, each a range of scores; the members in them are measured exactly.
//! Unsorted results come in the order of the cells, so their sizes and order are those of Redis.

use sleeve_store::{Digits, SortedSet, SortedSetRef};
use sleeve_wire::number;
use sleeve_wire::reply::Writer;

use super::geohash::{Bounds, Cell, Position, latitude_distance_m, steps_for_radius};
use super::{parse_position, parse_unit, reply_distance, reply_position};
use crate::commands::sorted_set::range::store;
use crate::context::Cx;
use crate::engine::keyspace::limits;
use crate::request::error::{Error, Outcome};
use crate::request::{Key, Request};

const NO_MEMBER: Error = Error::fixed("ERR could not decode requested zset member");

const EARTH_RADIUS_M: f64 = 6_372_797.560856;

/// The shape of the searched area, all lengths in the unit of the request.
#[derive(Debug, Clone, Copy)]
enum Shape {
    Circle { radius: f64 },
    Box { width: f64, height: f64 },
}

/// A shape with its unit.
#[derive(Debug, Clone, Copy)]
struct Area {
    shape: Shape,
    /// The length of the unit in metres.
    metres: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    Ascending,
    Descending,
}

/// The command family of a search: it decides how the centre is given, and whether the result is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// GEORADIUS.
    Position,
    /// GEORADIUSBYMEMBER.
    Member,
    /// GEOSEARCH.
    Search,
    /// GEOSEARCHSTORE.
    SearchStore,
}

/// The options of a request.
#[derive(Debug, Default)]
struct SearchOptions {
    /// The centre of the area; None until an option gives it, or if the key of the member that is to be the centre is
    /// missing.
    centre: Option<Position>,
    has_centre: bool,
    is_from_member: bool,
    area: Option<Area>,
    with_distance: bool,
    with_hash: bool,
    with_position: bool,
    order: Option<Order>,
    is_any: bool,
    /// COUNT: the most results; 0 for all.
    count: usize,
    /// The index of the argument that names the destination key.
    store_at: Option<usize>,
    stores_distance: bool,
}

/// A member that was found.
struct Found {
    name: Vec<u8>,
    score: f64,
    position: Position,
    distance_m: f64,
}

/// Answers GEOSEARCH, GEOSEARCHSTORE and the forms of GEORADIUS.
pub fn search(cx: &mut Cx<'_>, request: Request<'_>, form: Form, may_store: bool) -> Outcome {
    let (protocol, len_max) = (cx.state.protocol, cx.out.bytes_max());
    let source = request.key(usize::from(form == Form::SearchStore));
    let set = cx.read_as::<SortedSet>(source)?;
    let wanted = SearchOptions::parse(request, form, may_store, set)?;
    let found = match (set, wanted.centre, wanted.area) {
        (Some(set), Some(centre), Some(area)) => wanted.find(set, centre, area),
        _ => Vec::new(),
    };
    let metres = wanted.area.map_or(1.0, |area| area.metres);
    if let Some(at) = wanted.store_at {
        let event = if form == Form::SearchStore { "geosearchstore" } else { "georadiusstore" };
        return keep(cx, key_at(request, at)?, &found, wanted.stores_distance.then_some(metres), event);
    }
    wanted.show(&mut Writer::bounded(&mut cx.out.bytes, protocol, len_max), &found, metres);
    Ok(())
}

/// Returns the key in the argument `at`. The row has named this key, so that its shard is locked.
fn key_at(request: Request<'_>, at: usize) -> Result<Key<'_>, Error> {
    let place = request.key_places.iter().find(|place| place.index as usize == at).ok_or(Error::SYNTAX)?;
    Ok(Key { name: request.arg(at), hash: place.hash })
}

fn keep(cx: &mut Cx<'_>, key: Key<'_>, found: &[Found], unit: Option<f64>, event: &'static str) -> Outcome {
    let limits = limits::of_sorted_sets(cx.engine);
    let longest = found.iter().map(|found| found.name.len()).max().unwrap_or(0);
    let hash_key = cx.engine.keyspace.store.hash_key();
    let mut result = SortedSet::with_room(hash_key, found.len(), longest, limits);
    for found in found {
        result.set(&found.name, unit.map_or(found.score, |metres| found.distance_m / metres), limits);
    }
    // Each stored member counts as a change.
    let count = store(cx, key, result, event);
    cx.changed_many(count.saturating_sub(1) as u64);
    Ok(())
}

impl SearchOptions {
    fn parse(request: Request<'_>, form: Form, may_store: bool, set: Option<SortedSetRef<'_>>) -> Result<Self, Error> {
        let mut wanted = Self::default();
        let mut at = match form {
            Form::Position => {
                wanted.set_centre(Some(parse_position(request.arg(2), request.arg(3))?));
                wanted.area = Some(parse_circle(request.arg(4), request.arg(5))?);
                6
            }
            Form::Member => {
                if let Some(set) = set {
                    wanted.set_centre(Some(position_of(set, request.arg(2))?));
                    wanted.area = Some(parse_circle(request.arg(3), request.arg(4))?);
                }
                5
            }
            Form::Search => 2,
            Form::SearchStore => {
                wanted.store_at = Some(1);
                3
            }
        };
        let is_search = matches!(form, Form::Search | Form::SearchStore);
        while at < request.len() {
            at += match wanted.parse_common(request, at)? {
                0 if is_search => wanted.parse_search(request, at, form, set)?,
                0 if may_store => wanted.parse_store(request, at)?,
                0 => return Err(Error::SYNTAX),
                used => used,
            };
        }
        wanted.check(request, form)?;
        Ok(wanted)
    }

    fn set_centre(&mut self, centre: Option<Position>) {
        (self.centre, self.has_centre) = (centre, true);
    }

    /// Reads an option that all forms have; returns how many arguments it takes, or 0 if it is none of these options.
    fn parse_common(&mut self, request: Request<'_>, at: usize) -> Result<usize, Error> {
        match request.arg(at).to_ascii_lowercase().as_slice() {
            b"withdist" => self.with_distance = true,
            b"withhash" => self.with_hash = true,
            b"withcoord" => self.with_position = true,
            b"any" => self.is_any = true,
            b"asc" => self.order = Some(Order::Ascending),
            b"desc" => self.order = Some(Order::Descending),
            b"count" if at + 1 < request.len() => {
                let count = number::parse_i64(request.arg(at + 1)).ok_or(Error::NOT_INTEGER)?;
                let positive = usize::try_from(count).ok().filter(|count| *count > 0);
                self.count = positive.ok_or(Error::fixed("ERR COUNT must be > 0"))?;
                return Ok(2);
            }
            _ => return Ok(0),
        }
        Ok(1)
    }

    fn parse_store(&mut self, request: Request<'_>, at: usize) -> Result<usize, Error> {
        let word = request.arg(at);
        self.stores_distance = word.eq_ignore_ascii_case(b"storedist");
        if at + 1 >= request.len() || !(self.stores_distance || word.eq_ignore_ascii_case(b"store")) {
            return Err(Error::SYNTAX);
        }
        self.store_at = Some(at + 1);
        Ok(2)
    }

    /// Reads an option of GEOSEARCH that gives the centre or the size of the area.
    fn parse_search(
        &mut self,
        request: Request<'_>,
        at: usize,
        form: Form,
        set: Option<SortedSetRef<'_>>,
    ) -> Result<usize, Error> {
        let (word, more) = (request.arg(at).to_ascii_lowercase(), request.len() - 1 - at);
        let (is_box, is_circle) = match self.area.map(|area| area.shape) {
            Some(Shape::Box { .. }) => (true, false),
            Some(Shape::Circle { .. }) => (false, true),
            None => (false, false),
        };
        let is_from_position = self.has_centre && !self.is_from_member;
        match word.as_slice() {
            b"frommember" if more >= 1 && !is_from_position => {
                self.set_centre(set.map(|set| position_of(set, request.arg(at + 1))).transpose()?);
                self.is_from_member = true;
                Ok(2)
            }
            b"fromlonlat" if more >= 2 && !self.is_from_member => {
                self.set_centre(Some(parse_position(request.arg(at + 1), request.arg(at + 2))?));
                Ok(3)
            }
            b"byradius" if more >= 2 && !is_box => {
                self.area = Some(parse_circle(request.arg(at + 1), request.arg(at + 2))?);
                Ok(3)
            }
            b"bybox" if more >= 3 && !is_circle => {
                self.area = Some(parse_box(request.arg(at + 1), request.arg(at + 2), request.arg(at + 3))?);
                Ok(4)
            }
            b"storedist" if form == Form::SearchStore => {
                self.stores_distance = true;
                Ok(1)
            }
            _ => Err(Error::SYNTAX),
        }
    }

    fn check(&self, request: Request<'_>, form: Form) -> Outcome {
        let name = || String::from_utf8_lossy(request.arg(0)).into_owned();
        let is_search = matches!(form, Form::Search | Form::SearchStore);
        if self.store_at.is_some() && (self.with_distance || self.with_hash || self.with_position) {
            let what = if is_search { "GEOSEARCHSTORE" } else { "STORE option in GEORADIUS" };
            let text = format!("ERR {what} is not compatible with WITHDIST, WITHHASH and WITHCOORD options");
            return Err(Error::new(text));
        }
        if is_search && !self.has_centre {
            let text = format!("ERR exactly one of FROMMEMBER or FROMLONLAT can be specified for {}", name());
            return Err(Error::new(text));
        }
        if is_search && self.area.is_none() {
            let text = format!("ERR exactly one of BYRADIUS and BYBOX can be specified for {}", name());
            return Err(Error::new(text));
        }
        if self.is_any && self.count == 0 {
            return Err(Error::fixed("ERR the ANY argument requires COUNT argument"));
        }
        Ok(())
    }

    fn find(&self, set: SortedSetRef<'_>, centre: Position, area: Area) -> Vec<Found> {
        let most = if self.is_any { self.count } else { usize::MAX };
        let mut found = Vec::new();
        let mut last = None;
        for cell in area.cells(centre).into_iter().flatten() {
            // With a huge radius neighbours are the same cell.
            if last == Some(cell) {
                continue;
            }
            if found.len() >= most {
                break;
            }
            find_in(set, cell, centre, area, most, &mut found);
            last = Some(cell);
        }
        let is_limited = self.count != 0 && !self.is_any;
        match self.order.or(is_limited.then_some(Order::Ascending)) {
            Some(Order::Ascending) => found.sort_by(|one, other| one.distance_m.total_cmp(&other.distance_m)),
            Some(Order::Descending) => found.sort_by(|one, other| other.distance_m.total_cmp(&one.distance_m)),
            None => {}
        }
        if self.count != 0 {
            found.truncate(self.count);
        }
        found
    }

    fn show(&self, reply: &mut Writer<'_>, found: &[Found], metres: f64) {
        let options = [self.with_distance, self.with_hash, self.with_position];
        let extra = options.into_iter().filter(|is_given| *is_given).count();
        reply.array(found.len());
        for found in found {
            if reply.is_full() {
                return;
            }
            if extra != 0 {
                reply.array(1 + extra);
            }
            reply.bulk(&found.name);
            if self.with_distance {
                reply_distance(reply, found.distance_m / metres);
            }
            if self.with_hash {
                reply.integer(found.score as i64);
            }
            if self.with_position {
                reply_position(reply, found.position);
            }
        }
    }
}

/// Adds the members of a cell that lie in the area, until `found` has `most` of them.
fn find_in(set: SortedSetRef<'_>, cell: Cell, centre: Position, area: Area, most: usize, found: &mut Vec<Found>) {
    let (least, end) = cell.scores();
    let ranks = set.count_below(least, false)..set.count_below(end, false);
    let mut digits = Digits::default();
    set.visit(ranks, false, |name, score| {
        if found.len() >= most {
            return;
        }
        let position = Position::of_score(score);
        if let Some(distance_m) = area.distance_m(centre, position) {
            found.push(Found { name: name.bytes(&mut digits).to_vec(), score, position, distance_m });
        }
    });
}

fn position_of(set: SortedSetRef<'_>, member: &[u8]) -> Result<Position, Error> {
    set.score(member).map(Position::of_score).ok_or(NO_MEMBER)
}

fn parse_circle(radius: &[u8], unit: &[u8]) -> Result<Area, Error> {
    let radius = number::parse_f64(radius).ok_or(Error::fixed("ERR need numeric radius"))?;
    if radius < 0.0 {
        return Err(Error::fixed("ERR radius cannot be negative"));
    }
    Ok(Area { shape: Shape::Circle { radius }, metres: parse_unit(unit)? })
}

fn parse_box(width: &[u8], height: &[u8], unit: &[u8]) -> Result<Area, Error> {
    let width = number::parse_f64(width).ok_or(Error::fixed("ERR need numeric width"))?;
    let height = number::parse_f64(height).ok_or(Error::fixed("ERR need numeric height"))?;
    if width < 0.0 || height < 0.0 {
        return Err(Error::fixed("ERR height or width cannot be negative"));
    }
    Ok(Area { shape: Shape::Box { width, height }, metres: parse_unit(unit)? })
}

impl Area {
    /// Returns the distance of a position from the centre, if it is inside.
    fn distance_m(&self, centre: Position, position: Position) -> Option<f64> {
        match self.shape {
            Shape::Circle { radius } => {
                let distance_m = centre.distance_m(position);
                (distance_m <= radius * self.metres).then_some(distance_m)
            }
            Shape::Box { width, height } => {
                let beside = Position { longitude: centre.longitude, latitude: position.latitude };
                let is_inside = latitude_distance_m(position.latitude, centre.latitude) <= height * self.metres / 2.0
                    && position.distance_m(beside) <= width * self.metres / 2.0;
                is_inside.then(|| centre.distance_m(position))
            }
        }
    }

    /// Returns the rectangle around the shape.
    fn bounds(&self, centre: Position) -> Bounds {
        let (width, height) = match self.shape {
            Shape::Circle { radius } => (radius, radius),
            Shape::Box { width, height } => (width / 2.0, height / 2.0),
        };
        let (width, height) = (self.metres * width, self.metres * height);
        let north = (height / EARTH_RADIUS_M).to_degrees();
        let edge = if centre.latitude < 0.0 { centre.latitude - north } else { centre.latitude + north };
        let east = (width / EARTH_RADIUS_M / edge.to_radians().cos()).to_degrees();
        Bounds {
            west: centre.longitude - east,
            south: centre.latitude - north,
            east: centre.longitude + east,
            north: centre.latitude + north,
        }
    }

    /// Returns the cells to be searched, in order: the centre's cell, then those around it, without the cells that the area
    /// does not touch.
    fn cells(&self, centre: Position) -> [Option<Cell>; 9] {
        let radius = match self.shape {
            Shape::Circle { radius } => radius,
            Shape::Box { width, height } => ((width / 2.0) * (width / 2.0) + (height / 2.0) * (height / 2.0)).sqrt(),
        };
        let bounds = self.bounds(centre);
        let mut cell = centre.cell(steps_for_radius(radius * self.metres, centre.latitude));
        let is_too_small = cell.neighbour(0, 1).bounds().north < bounds.north
            || cell.neighbour(0, -1).bounds().south > bounds.south
            || cell.neighbour(1, 0).bounds().east < bounds.east
            || cell.neighbour(-1, 0).bounds().west > bounds.west;
        if is_too_small && cell.steps > 1 {
            cell = centre.cell(cell.steps - 1);
        }
        let own = cell.bounds();
        let is_useless = |east: i8, north: i8| {
            cell.steps >= 2
                && ((north < 0 && own.south < bounds.south)
                    || (north > 0 && own.north > bounds.north)
                    || (east < 0 && own.west < bounds.west)
                    || (east > 0 && own.east > bounds.east))
        };
        let around = [(0, 0), (0, 1), (0, -1), (1, 0), (-1, 0), (1, 1), (-1, 1), (1, -1), (-1, -1)];
        around.map(|(east, north)| (!is_useless(east, north)).then(|| cell.neighbour(east, north)))
    }
}
