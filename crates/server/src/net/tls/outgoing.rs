//! The TLS configuration of connections to other servers: a certificate of this server, and the certificates that it trusts.
//!
//! As in Redis, a server with a certificate that a trusted one has signed is accepted under any name: primaries are named by
//! addresses, which change hands when one fails. Any thread.

use std::sync::Arc;

use rustls::ClientConfig;
use sleeve_certificates::{Names, Servers, provider};

use super::settings;
use super::settings::{OF_SERVER, Own};
use crate::config::{Config, Opt};

/// The options of the certificate that is presented to primaries, if it differs from the one for clients.
const OF_CLIENT: Own = [Opt::TlsClientCertFile, Opt::TlsClientKeyFile, Opt::TlsClientKeyFilePass];

/// Builds the configuration of connections to primaries from the present options.
///
/// # Errors
/// The first file that cannot be used, or the first word that names nothing.
pub fn load(config: &Config) -> Result<Arc<ClientConfig>, String> {
    let mut provider = provider();
    let own = if config.is_set(Opt::TlsClientCertFile) { OF_CLIENT } else { OF_SERVER };
    let identity = settings::identity(config, own, &provider)?;
    settings::restrict_suites(config, &mut provider)?;
    let provider = Arc::new(provider);
    let servers = Servers::new(settings::trusted(config)?, Arc::clone(&provider), Names::Any);
    let builder = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&settings::versions(config)?)
        .map_err(|error| format!("the ciphers do not fit the protocols: {error}"))?;
    let builder = builder.dangerous().with_custom_certificate_verifier(Arc::new(servers));
    Ok(Arc::new(builder.with_client_cert_resolver(identity.resolver())))
}
