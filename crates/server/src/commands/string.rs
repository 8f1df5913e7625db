//! STUB string
use crate::cx::Cx;
use crate::error::{Error, Outcome};
use crate::request::Request;

pub fn append(_cx: &mut Cx<'_>, _request: Request<'_>) -> Outcome {
    Err(Error::fixed("ERR not built"))
}

pub fn decr(_cx: &mut Cx<'_>, _request: Request<'_>) -> Outcome {
    Err(Error::fixed("ERR not built"))
}

pub fn decrby(_cx: &mut Cx<'_>, _request: Request<'_>) -> Outcome {
    Err(Error::fixed("ERR not built"))
}

pub fn get(_cx: &mut Cx<'_>, _request: Request<'_>) -> Outcome {
    Err(Error::fixed("ERR not built"))
}

pub fn getdel(_cx: &mut Cx<'_>, _request: Request<'_>) -> Outcome {
    Err(Error::fixed("ERR not built"))
}

pub fn getex(_cx: &mut Cx<'_>, _request: Request<'_>) -> Outcome {
    Err(Error::fixed("ERR not built"))
}

pub fn getrange(_cx: &mut Cx<'_>, _request: Request<'_>) -> Outcome {
    Err(Error::fixed("ERR not built"))
}

pub fn getset(_cx: &mut Cx<'_>, _request: Request<'_>) -> Outcome {
    Err(Error::fixed("ERR not built"))
}

pub fn incr(_cx: &mut Cx<'_>, _request: Request<'_>) -> Outcome {
    Err(Error::fixed("ERR not built"))
}

pub fn incrby(_cx: &mut Cx<'_>, _request: Request<'_>) -> Outcome {
    Err(Error::fixed("ERR not built"))
}

pub fn incrbyfloat(_cx: &mut Cx<'_>, _request: Request<'_>) -> Outcome {
    Err(Error::fixed("ERR not built"))
}

pub fn lcs(_cx: &mut Cx<'_>, _request: Request<'_>) -> Outcome {
    Err(Error::fixed("ERR not built"))
}

pub fn mget(_cx: &mut Cx<'_>, _request: Request<'_>) -> Outcome {
    Err(Error::fixed("ERR not built"))
}

pub fn mset(_cx: &mut Cx<'_>, _request: Request<'_>) -> Outcome {
    Err(Error::fixed("ERR not built"))
}

pub fn msetnx(_cx: &mut Cx<'_>, _request: Request<'_>) -> Outcome {
    Err(Error::fixed("ERR not built"))
}

pub fn psetex(_cx: &mut Cx<'_>, _request: Request<'_>) -> Outcome {
    Err(Error::fixed("ERR not built"))
}

pub fn set(_cx: &mut Cx<'_>, _request: Request<'_>) -> Outcome {
    Err(Error::fixed("ERR not built"))
}

pub fn setex(_cx: &mut Cx<'_>, _request: Request<'_>) -> Outcome {
    Err(Error::fixed("ERR not built"))
}

pub fn setnx(_cx: &mut Cx<'_>, _request: Request<'_>) -> Outcome {
    Err(Error::fixed("ERR not built"))
}

pub fn setrange(_cx: &mut Cx<'_>, _request: Request<'_>) -> Outcome {
    Err(Error::fixed("ERR not built"))
}

pub fn strlen(_cx: &mut Cx<'_>, _request: Request<'_>) -> Outcome {
    Err(Error::fixed("ERR not built"))
}

pub fn substr(_cx: &mut Cx<'_>, _request: Request<'_>) -> Outcome {
    Err(Error::fixed("ERR not built"))
}
