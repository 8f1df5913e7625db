//! Which certificates and keys are taken under TLS: the rules that server, client and replicas share.
//!
//! The TLS library takes certificates as the public web has them: version 3, with names in subjectAltName, signed by an
//! authority that is no server itself. Those of a company's own network are often otherwise, and OpenSSL takes them. Here
//! they are taken where that is as safe:
//!
//! - A certificate that is itself among the trusted ones is believed, whether it is an authority's, of version 1 or
//!   self-signed. The peer still proves that it has the key, and its time and its name count.
//! - A certificate of version 1 is believed if a trusted one has signed it. It has no extensions, so nothing that it could
//!   have signed in turn is believed.
//! - The common name counts where there is no subjectAltName and the user has named the authority.
//! - Keys may lie under a pass phrase (PKCS#8), and may be of the curve P-521.
//!
//! | room | contents |
//! | --- | --- |
//! | `verifiers` | Verifiers of the certificates of servers and of clients. |
//! | `identity` | The own certificate with its key, read from PEM. |
//! | `trusted` | The certificates that are believed, and the decisions that follow from them. |
//! | `signatures` | Checks that a peer has signed a handshake, for any form of its certificate. |
//! | `certificate` | The contents of one certificate. |
//! | `provider` | The algorithms: those of ring, and P-521. |
//! | `p521_keys` | ECDSA over the curve P-521. |
//!
//! It opens no files and no sockets. Any thread.

mod certificate;
mod identity;
mod p521_keys;
mod provider;
mod signatures;
mod trusted;
mod verifiers;

pub use identity::{Identity, read_key};
pub use provider::provider;
pub use trusted::Trusted;
pub use verifiers::{AnyServer, Clients, Names, Servers};
