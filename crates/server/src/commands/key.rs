//! STUB key
use crate::cx::Cx;
use crate::error::{Error, Outcome};
use crate::request::Request;

pub fn copy(_cx: &mut Cx<'_>, _request: Request<'_>) -> Outcome {
    Err(Error::fixed("ERR not built"))
}

pub fn del(_cx: &mut Cx<'_>, _request: Request<'_>) -> Outcome {
    Err(Error::fixed("ERR not built"))
}

pub fn exists(_cx: &mut Cx<'_>, _request: Request<'_>) -> Outcome {
    Err(Error::fixed("ERR not built"))
}

pub fn keys(_cx: &mut Cx<'_>, _request: Request<'_>) -> Outcome {
    Err(Error::fixed("ERR not built"))
}

pub fn relocate(_cx: &mut Cx<'_>, _request: Request<'_>) -> Outcome {
    Err(Error::fixed("ERR not built"))
}

pub fn persist(_cx: &mut Cx<'_>, _request: Request<'_>) -> Outcome {
    Err(Error::fixed("ERR not built"))
}

pub fn randomkey(_cx: &mut Cx<'_>, _request: Request<'_>) -> Outcome {
    Err(Error::fixed("ERR not built"))
}

pub fn rename(_cx: &mut Cx<'_>, _request: Request<'_>) -> Outcome {
    Err(Error::fixed("ERR not built"))
}

pub fn renamenx(_cx: &mut Cx<'_>, _request: Request<'_>) -> Outcome {
    Err(Error::fixed("ERR not built"))
}

pub fn scan(_cx: &mut Cx<'_>, _request: Request<'_>) -> Outcome {
    Err(Error::fixed("ERR not built"))
}

pub fn touch(_cx: &mut Cx<'_>, _request: Request<'_>) -> Outcome {
    Err(Error::fixed("ERR not built"))
}

pub fn kind(_cx: &mut Cx<'_>, _request: Request<'_>) -> Outcome {
    Err(Error::fixed("ERR not built"))
}

pub fn unlink(_cx: &mut Cx<'_>, _request: Request<'_>) -> Outcome {
    Err(Error::fixed("ERR not built"))
}
