//! The chores that make a release: the binary, Debian's packages, the image, the list of the libraries in them, and the checks
//! of the examples for Compose and Kubernetes.

pub mod dist;
pub mod image;
pub mod manifests;
pub mod package;
pub mod sbom;
