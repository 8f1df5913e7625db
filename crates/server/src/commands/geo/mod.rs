//! Geospatial indexes: sorted sets that hold geohashes as scores. This module adds members and answers about single ones.
//!
//! Searching is in `search`, the arithmetic in `geohash`.

pub mod geohash;
pub mod search;

use sleeve_store::SortedSet;
use sleeve_wire::number;
use sleeve_wire::reply::{Protocol, Writer};

use super::sorted_set;
use super::sorted_set::AddOptions;
use crate::context::Cx;
use crate::request::Request;
use crate::request::error::{Error, Outcome};
use geohash::Position;

/// GEOADD key \[NX|XX\] \[CH\] longitude latitude member \[longitude latitude member ...\]
pub fn geoadd(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let (mut options, mut at) = (AddOptions::default(), 2);
    while let Some(word) = request.args.get(at) {
        let option = match word {
            _ if word.eq_ignore_ascii_case(b"nx") => &mut options.only_new,
            _ if word.eq_ignore_ascii_case(b"xx") => &mut options.only_present,
            _ if word.eq_ignore_ascii_case(b"ch") => &mut options.counts_changes,
            _ => break,
        };
        *option = true;
        at += 1;
    }
    let rest = request.len() - at;
    if rest == 0 || !rest.is_multiple_of(3) || (options.only_new && options.only_present) {
        return Err(Error::SYNTAX);
    }
    let score = |at| Ok((parse_position(request.arg(at), request.arg(at + 1))?.score(), request.arg(at + 2)));
    let members = (at..request.len()).step_by(3).map(score).collect::<Result<Vec<(f64, &[u8])>, Error>>()?;
    sorted_set::add(cx, request.key(0), options, members.into_iter())
}

/// Reads longitude and latitude.
pub fn parse_position(longitude: &[u8], latitude: &[u8]) -> Result<Position, Error> {
    let degrees = |text| number::parse_f64(text).ok_or(Error::NOT_FLOAT);
    let position = Position { longitude: degrees(longitude)?, latitude: degrees(latitude)? };
    if position.is_valid() {
        return Ok(position);
    }
    let Position { longitude, latitude } = position;
    Err(Error::new(format!("ERR invalid longitude,latitude pair {longitude:.6},{latitude:.6}")))
}

/// Reads a unit, and returns its length in metres.
pub fn parse_unit(text: &[u8]) -> Result<f64, Error> {
    match text {
        _ if text.eq_ignore_ascii_case(b"m") => Ok(1.0),
        _ if text.eq_ignore_ascii_case(b"km") => Ok(1000.0),
        _ if text.eq_ignore_ascii_case(b"ft") => Ok(0.3048),
        _ if text.eq_ignore_ascii_case(b"mi") => Ok(1609.34),
        _ => Err(Error::fixed("ERR unsupported unit provided. please use M, KM, FT, MI")),
    }
}

/// GEODIST key member1 member2 \[M|KM|FT|MI\]
pub fn geodist(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let metres = match request.len() {
        4 => 1.0,
        5 => parse_unit(request.arg(4))?,
        _ => return Err(Error::SYNTAX),
    };
    let positions = cx.read_as::<SortedSet>(request.key(0))?.and_then(|set| {
        let position = |at| set.score(request.arg(at)).map(Position::of_score);
        Some((position(2)?, position(3)?))
    });
    match positions {
        Some((one, other)) => reply_distance(&mut cx.reply(), one.distance_m(other) / metres),
        None => cx.reply().null(),
    }
    Ok(())
}

/// Writes a distance with four decimals, which is text in both protocols.
pub fn reply_distance(reply: &mut Writer<'_>, distance: f64) {
    reply.bulk(format!("{distance:.4}").as_bytes());
}

/// GEOHASH key \[member ...\]
pub fn geohash(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    sorted_set::reply_scores(cx, request, |reply, score| match score {
        Some(score) => reply.bulk(&Position::of_score(score).text()),
        None => reply.null(),
    })
}

/// GEOPOS key \[member ...\]
pub fn geopos(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    sorted_set::reply_scores(cx, request, |reply, score| match score {
        Some(score) => reply_position(reply, Position::of_score(score)),
        None => reply.null_array(),
    })
}

/// Writes longitude and latitude.
pub fn reply_position(reply: &mut Writer<'_>, position: Position) {
    reply.array(2);
    reply_degrees(reply, position.longitude);
    reply_degrees(reply, position.latitude);
}

/// Writes degrees with up to seventeen decimals, as Redis formats numbers for people.
fn reply_degrees(reply: &mut Writer<'_>, degrees: f64) {
    let text = format!("{degrees:.17}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    let text = if text == "-0" { "0" } else { text };
    match reply.protocol {
        Protocol::Resp2 => reply.bulk(text.as_bytes()),
        Protocol::Resp3 => {
            reply.out.push(b',');
            reply.out.extend_from_slice(text.as_bytes());
            reply.bulk_end();
        }
    }
}
