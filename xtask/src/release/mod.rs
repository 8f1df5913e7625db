//! The chores that make a release: the binary, Debian's packages, the image, the list of the libraries in them, the
//! packages of the crates, the site of the documents, and the checks of the examples for Compose and Kubernetes and of the
//! libraries' licences.

pub mod book;
pub mod crates;
pub mod deny;
pub mod dist;
pub mod image;
pub mod manifests;
pub mod package;
pub mod sbom;
