//! STUB keyspace
use crate::cx::Cx;
use crate::error::{Error, Outcome};
use crate::request::Request;

pub fn dbsize(_cx: &mut Cx<'_>, _request: Request<'_>) -> Outcome {
    Err(Error::fixed("ERR not built"))
}

pub fn flushall(_cx: &mut Cx<'_>, _request: Request<'_>) -> Outcome {
    Err(Error::fixed("ERR not built"))
}

pub fn flushdb(_cx: &mut Cx<'_>, _request: Request<'_>) -> Outcome {
    Err(Error::fixed("ERR not built"))
}

pub fn swapdb(_cx: &mut Cx<'_>, _request: Request<'_>) -> Outcome {
    Err(Error::fixed("ERR not built"))
}
