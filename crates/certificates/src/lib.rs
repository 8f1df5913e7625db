//! The rules by which certificates and keys are accepted under TLS. The server, the client and replicas share them.
//!
//! The TLS library accepts certificates as the public web has them: version 3, with names in subjectAltName, signed by an
//! authority that is no server itself. Certificates of a company's own network often differ, and OpenSSL accepts them. Here
//! they are accepted where that is as safe:
//!
//! - A certificate that is itself among the trusted ones is believed, whether it is an authority's, of version 1 or
//!   self-signed. The peer still has to prove that it has the key, and the certificate's time and name are checked.
//! - A certificate of version 1 is believed if a trusted one has signed it. It has no extensions, so no certificate that it
//!   has signed in turn is believed.
//! - The common name counts where there is no subjectAltName and the user has named the authority.
//! - Keys may be encrypted with a pass phrase (PKCS#8), and may be of the curve P-521.
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
