//! The chores that make a release: the binary, Debian's packages, the image, the list of the libraries in them, the site of
//! the documents, and the checks of the examples for Compose and Kubernetes.

pub mod book;
pub mod dist;
pub mod image;
pub mod manifests;
pub mod package;
pub mod sbom;
