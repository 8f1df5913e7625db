//! The chores that make a release: the binary, Debian's packages, the image, and the list of the libraries in them.

pub mod dist;
pub mod image;
pub mod package;
pub mod sbom;
