//! What connections to other servers begin with under TLS: a certificate of this server's, and whom it trusts.
//!
//! As with every server of this kind, who has a certificate that a trusted one has signed is believed, whatever name it is for:
//! primaries are named by addresses, which change hands when one fails. Any thread.

use std::sync::Arc;

use rustls::ClientConfig;
use sleeve_certificates::{Names, Servers, provider};

use super::settings;
use super::settings::{OF_SERVER, Own};
use crate::config::{Config, Opt};

/// What primaries are shown, where it is not what clients are shown.
const OF_CLIENT: Own = [Opt::TlsClientCertFile, Opt::TlsClientKeyFile, Opt::TlsClientKeyFilePass];

/// Makes what connections to primaries begin with, as the options say now.
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
