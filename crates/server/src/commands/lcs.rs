//! STUB
use crate::cx::Cx;
use crate::error::{Error, Outcome};
use crate::request::Request;

pub fn lcs(_cx: &mut Cx<'_>, _request: Request<'_>) -> Outcome {
    Err(Error::fixed("ERR not built"))
}
