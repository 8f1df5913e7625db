//! Positions on the earth as integers of 52 bits, and distances between them.
//!
//! A geohash halves the ranges of longitude and latitude 26 times each. Each halving gives a bit that says in which half the
//! position is, and the bits of both alternate. Positions near each other often have scores near each other, so an area is a
//! few ranges of scores: the cell around its middle and the eight around that. The latitudes are those of the Mercator
//! projection, so that cells are alike. Pure functions; every floating-point operation is that of Redis, in its order,
//! because the last digits are shown.

/// The greatest longitude, in degrees; its negative is the least.
pub const LONGITUDE_MAX: f64 = 180.0;

/// The greatest latitude, in degrees; its negative is the least.
pub const LATITUDE_MAX: f64 = 85.051_128_78;

/// Bits of each of the two coordinates in a score.
pub const STEPS_MAX: u32 = 26;

/// The first number that is too large for 64 bits.
const TWO_TO_THE_64TH: f64 = 18_446_744_073_709_551_616.0;

const EARTH_RADIUS_M: f64 = 6_372_797.560856;

/// Half of the earth's circumference in the Mercator projection.
const MERCATOR_MAX_M: f64 = 20_037_726.37;

/// A point.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Position {
    /// Degrees east.
    pub longitude: f64,
    /// Degrees north.
    pub latitude: f64,
}

/// A cell: the points with geohashes that begin with the same bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cell {
    /// The bits of both coordinates, alternating.
    pub bits: u64,
    /// The number of bits of each coordinate.
    pub steps: u32,
}

/// A rectangle of coordinates.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bounds {
    /// The western edge.
    pub west: f64,
    /// The southern edge.
    pub south: f64,
    /// The eastern edge.
    pub east: f64,
    /// The northern edge.
    pub north: f64,
}

impl Position {
    /// Returns whether the position is within the limits, so that it has a score.
    pub fn is_valid(&self) -> bool {
        (-LONGITUDE_MAX..=LONGITUDE_MAX).contains(&self.longitude)
            && (-LATITUDE_MAX..=LATITUDE_MAX).contains(&self.latitude)
    }

    /// Returns the score of a position.
    pub fn score(&self) -> f64 {
        self.cell(STEPS_MAX).bits as f64
    }

    /// Returns the middle of the cell that a score stands for.
    pub fn of_score(score: f64) -> Self {
        // Any sorted set may be asked for positions. A score that is no geohash is cut to 64 bits as processors do.
        let bits = match score {
            ..0.0 => (score as i64).cast_unsigned(),
            _ if score >= TWO_TO_THE_64TH => 0,
            _ => score as u64,
        };
        let bounds = Cell { bits, steps: STEPS_MAX }.bounds();
        let middle = |low: f64, high: f64, max: f64| ((low + high) / 2.0).clamp(-max, max);
        Self {
            longitude: middle(bounds.west, bounds.east, LONGITUDE_MAX),
            latitude: middle(bounds.south, bounds.north, LATITUDE_MAX),
        }
    }

    /// Returns the cell with so many bits of each coordinate in which the position is.
    pub fn cell(&self, steps: u32) -> Cell {
        let latitude = share(self.latitude, -LATITUDE_MAX, LATITUDE_MAX, steps);
        let longitude = share(self.longitude, -LONGITUDE_MAX, LONGITUDE_MAX, steps);
        Cell { bits: interleave(latitude, longitude), steps }
    }

    /// Returns the distance to another position in metres, along a great circle.
    pub fn distance_m(&self, other: Self) -> f64 {
        let (longitude, other_longitude) = (self.longitude.to_radians(), other.longitude.to_radians());
        let half_longitude = ((other_longitude - longitude) / 2.0).sin();
        // On one meridian the latitudes alone give the distance; the sum below would not be exact.
        if half_longitude == 0.0 {
            return latitude_distance_m(self.latitude, other.latitude);
        }
        let (latitude, other_latitude) = (self.latitude.to_radians(), other.latitude.to_radians());
        let half_latitude = ((other_latitude - latitude) / 2.0).sin();
        let part =
            half_latitude * half_latitude + latitude.cos() * other_latitude.cos() * half_longitude * half_longitude;
        2.0 * EARTH_RADIUS_M * part.sqrt().asin()
    }

    /// Returns the eleven letters of the usual geohash, in which latitudes go up to the poles.
    pub fn text(&self) -> [u8; 11] {
        const LETTERS: &[u8; 32] = b"0123456789bcdefghjkmnpqrstuvwxyz";
        let latitude = share(self.latitude, -90.0, 90.0, STEPS_MAX);
        let longitude = share(self.longitude, -180.0, 180.0, STEPS_MAX);
        let bits = interleave(latitude, longitude);
        // 52 bits are ten letters and two bits, which Redis shows as 0.
        std::array::from_fn(|at| if at == 10 { b'0' } else { LETTERS[(bits >> (47 - 5 * at)) as usize & 31] })
    }
}

/// Returns the distance between two latitudes on one meridian.
pub fn latitude_distance_m(latitude: f64, other: f64) -> f64 {
    EARTH_RADIUS_M * (other.to_radians() - latitude.to_radians()).abs()
}

/// Returns which of two to the power of `steps` equal parts of a range a coordinate is in.
fn share(coordinate: f64, low: f64, high: f64, steps: u32) -> u32 {
    let offset = (coordinate - low) / (high - low);
    (offset * (1_u64 << steps) as f64) as u32
}

/// Returns the alternating bits of two numbers, those of the first in the even places.
fn interleave(even: u32, odd: u32) -> u64 {
    spread(even) | spread(odd) << 1
}

/// Moves bit `n` to place `2 n`.
fn spread(bits: u32) -> u64 {
    let masks = [
        (16, 0x0000_ffff_0000_ffff),
        (8, 0x00ff_00ff_00ff_00ff),
        (4, 0x0f0f_0f0f_0f0f_0f0f),
        (2, 0x3333_3333_3333_3333),
        (1, 0x5555_5555_5555_5555),
    ];
    masks.into_iter().fold(u64::from(bits), |bits, (shift, mask)| (bits | bits << shift) & mask)
}

/// Moves bit `2 n` to place `n`, and drops the odd bits.
fn gather(bits: u64) -> u32 {
    let masks = [
        (1, 0x3333_3333_3333_3333),
        (2, 0x0f0f_0f0f_0f0f_0f0f),
        (4, 0x00ff_00ff_00ff_00ff),
        (8, 0x0000_ffff_0000_ffff),
        (16, 0x0000_0000_ffff_ffff),
    ];
    let even = bits & 0x5555_5555_5555_5555;
    masks.into_iter().fold(even, |bits: u64, (shift, mask)| (bits | bits >> shift) & mask) as u32
}

const LATITUDE_BITS: u64 = 0x5555_5555_5555_5555;
const LONGITUDE_BITS: u64 = !LATITUDE_BITS;

impl Cell {
    /// Returns the rectangle of the cell.
    pub fn bounds(&self) -> Bounds {
        let parts = (1_u64 << self.steps) as f64;
        let (latitude, longitude) = (f64::from(gather(self.bits)), f64::from(gather(self.bits >> 1)));
        let edge = |share: f64, max: f64| -max + (share / parts) * (2.0 * max);
        Bounds {
            west: edge(longitude, LONGITUDE_MAX),
            south: edge(latitude, LATITUDE_MAX),
            east: edge(longitude + 1.0, LONGITUDE_MAX),
            north: edge(latitude + 1.0, LATITUDE_MAX),
        }
    }

    /// Returns the range of the scores of all positions in the cell: the first score, and the one behind the last.
    pub fn scores(&self) -> (f64, f64) {
        let shift = 2 * (STEPS_MAX - self.steps);
        ((self.bits << shift) as f64, ((self.bits + 1) << shift) as f64)
    }

    /// Returns the neighbour so many cells to the east and to the north; beyond an edge it is the cell at the opposite edge.
    pub fn neighbour(&self, east: i8, north: i8) -> Self {
        let bits = step(self.bits, east, LONGITUDE_BITS, self.steps);
        Self { bits: step(bits, north, LATITUDE_BITS, self.steps), steps: self.steps }
    }
}

/// Adds 1 or -1 to the number that the bits of `mask` hold, with wrap-around.
fn step(bits: u64, by: i8, mask: u64, steps: u32) -> u64 {
    if by == 0 {
        return bits;
    }
    let used = u64::MAX >> (64 - 2 * steps);
    // At the very end of a range a cell has one bit more. Redis keeps that bit in the coordinate that does not move.
    let (own, other) = (bits & mask, bits & !mask);
    let moved = match by {
        // For an addition the bits of the other coordinate are set, so that a carry passes over them; for a subtraction they
        // are clear, so that a borrow does.
        1 => (own | !mask).wrapping_add(mask & mask.wrapping_neg()),
        _ => own.wrapping_sub(mask & mask.wrapping_neg()),
    };
    moved & mask & used | other
}

/// Returns how many steps make cells of about the size of a radius around a latitude.
pub fn steps_for_radius(radius_m: f64, latitude: f64) -> u32 {
    if radius_m == 0.0 {
        return STEPS_MAX;
    }
    let (mut steps, mut radius_m) = (1_i32, radius_m);
    while radius_m < MERCATOR_MAX_M {
        radius_m *= 2.0;
        steps += 1;
    }
    // The cells are so wide that the nine around a position contain the circle in most cases; near the poles they are wider.
    steps -= 2;
    let is_far = !(-66.0..=66.0).contains(&latitude);
    let is_polar = !(-80.0..=80.0).contains(&latitude);
    steps -= i32::from(is_far) + i32::from(is_polar);
    steps.clamp(1, STEPS_MAX as i32) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_and_text_are_those_of_redis() {
        let palermo = Position { longitude: 13.361389, latitude: 38.115556 };
        let catania = Position { longitude: 15.087269, latitude: 37.502669 };
        assert_eq!((palermo.score(), catania.score()), (3479099956230698.0, 3479447370796909.0));
        assert_eq!(Position::of_score(palermo.score()).text(), *b"sqc8b49rny0");
        assert_eq!(Position::of_score(catania.score()).text(), *b"sqdtr74hyu0");
        let distance = Position::of_score(palermo.score()).distance_m(Position::of_score(catania.score()));
        assert_eq!(format!("{distance:.4}"), "166274.1516");
    }

    #[test]
    fn neighbours_are_one_cell_away_and_round_the_edges() {
        for steps in [1, 5, 26] {
            let cell = Position { longitude: 13.0, latitude: 38.0 }.cell(steps);
            assert_eq!(cell.neighbour(1, 0).neighbour(-1, 0), cell);
            assert_eq!(cell.neighbour(0, 1).neighbour(0, -1), cell);
            assert_eq!(cell.neighbour(1, -1).neighbour(-1, 1), cell);
            if steps > 1 {
                assert_eq!(cell.neighbour(1, 0).bounds().west, cell.bounds().east);
                assert_eq!(cell.neighbour(0, 1).bounds().south, cell.bounds().north);
            }
        }
        let last = Cell { bits: 0b1111, steps: 2 };
        assert_eq!(last.neighbour(1, 1), Cell { bits: 0, steps: 2 });
    }

    #[test]
    fn spreading_and_gathering_undo_each_other() {
        for bits in [0, 1, 0x3ff_ffff, 0x155_5555, 0x2aa_aaaa] {
            assert_eq!((gather(spread(bits)), gather(spread(bits) << 1)), (bits, 0));
        }
    }
}
