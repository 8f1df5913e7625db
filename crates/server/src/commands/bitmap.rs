//! STUB bitmap
use crate::cx::Cx;
use crate::error::{Error, Outcome};
use crate::request::Request;

pub fn bitcount(_cx: &mut Cx<'_>, _request: Request<'_>) -> Outcome {
    Err(Error::fixed("ERR not built"))
}

pub fn bitfield(_cx: &mut Cx<'_>, _request: Request<'_>) -> Outcome {
    Err(Error::fixed("ERR not built"))
}

pub fn bitfield_ro(_cx: &mut Cx<'_>, _request: Request<'_>) -> Outcome {
    Err(Error::fixed("ERR not built"))
}

pub fn bitop(_cx: &mut Cx<'_>, _request: Request<'_>) -> Outcome {
    Err(Error::fixed("ERR not built"))
}

pub fn bitpos(_cx: &mut Cx<'_>, _request: Request<'_>) -> Outcome {
    Err(Error::fixed("ERR not built"))
}

pub fn getbit(_cx: &mut Cx<'_>, _request: Request<'_>) -> Outcome {
    Err(Error::fixed("ERR not built"))
}

pub fn setbit(_cx: &mut Cx<'_>, _request: Request<'_>) -> Outcome {
    Err(Error::fixed("ERR not built"))
}
