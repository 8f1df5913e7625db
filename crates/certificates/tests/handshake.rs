//! Handshakes in memory, between rustls's two ends, with certificates as OpenSSL makes them with few options.
//!
//! The files in `pems` were made by OpenSSL 3.0 for a hundred years: `authority` and `p521-authority` by `req -x509`, `alone`
//! too, which is its own authority; `old` and `alone-old` by `x509 -req` without extensions, so that they are of version 1;
//! `named` and `p521` with extensions, the former without subjectAltName. All but the authorities are for `localhost`.

use std::io::Cursor;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::time_provider::TimeProvider;
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, ClientConnection, ServerConfig, ServerConnection, SupportedProtocolVersion};
use sleeve_certificates::{AnyServer, Clients, Identity, Names, Servers, Trusted, provider, read_key};

fn pem(name: &str) -> Vec<u8> {
    std::fs::read(format!("{}/tests/pems/{name}", env!("CARGO_MANIFEST_DIR"))).expect("a file")
}

fn certificate(name: &str) -> CertificateDer<'static> {
    CertificateDer::from_pem_slice(&pem(&format!("{name}.crt"))).expect("a certificate")
}

fn identity(name: &str) -> Identity {
    let key = read_key(&pem(&format!("{name}.key")), b"").expect("a key");
    Identity::new(vec![certificate(name)], key, &provider()).expect("they belong together")
}

fn trusted(names: &[&str]) -> Trusted {
    let mut trusted = Trusted::new();
    names.iter().for_each(|name| trusted.add(certificate(name)).expect("it can be trusted"));
    trusted
}

/// A clock that stands long after the end of every certificate's validity.
#[derive(Debug)]
struct Late;

impl TimeProvider for Late {
    fn current_time(&self) -> Option<UnixTime> {
        Some(UnixTime::since_unix_epoch(Duration::from_secs(10_000_000_000)))
    }
}

/// A client's end, with a certificate of its own or without.
struct Client<'a> {
    trusts: &'a [&'a str],
    names: Names,
    shows: Option<&'a str>,
    is_insecure: bool,
    is_late: bool,
    host: &'a str,
}

const CLIENT: Client<'static> =
    Client { trusts: &[], names: Names::Own, shows: None, is_insecure: false, is_late: false, host: "localhost" };

impl Client<'_> {
    fn config(&self, version: &'static SupportedProtocolVersion) -> ClientConfig {
        let algorithms = Arc::new(provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&algorithms));
        let builder = builder.with_protocol_versions(&[version]).expect("a version").dangerous();
        let builder = if self.is_insecure {
            builder.with_custom_certificate_verifier(Arc::new(AnyServer::new(&algorithms)))
        } else {
            let servers = Servers::new(trusted(self.trusts), algorithms, self.names);
            builder.with_custom_certificate_verifier(Arc::new(servers))
        };
        let mut config = match self.shows {
            Some(name) => builder.with_client_cert_resolver(identity(name).resolver()),
            None => builder.with_no_client_auth(),
        };
        if self.is_late {
            config.time_provider = Arc::new(Late);
        }
        config
    }

    /// Returns the outcome of a handshake with a server that shows a certificate and trusts `believes` as clients.
    fn meets(&self, shows: &str, believes: &[&str]) -> Result<(), String> {
        for version in [&TLS12, &TLS13] {
            let builder = ServerConfig::builder_with_provider(Arc::new(provider()));
            let builder = builder.with_protocol_versions(&[version]).expect("a version");
            let builder = match believes {
                [] => builder.with_no_client_auth(),
                believes => {
                    let clients =
                        Clients::new(trusted(believes), Arc::new(provider()), false).expect("some are trusted");
                    builder.with_client_cert_verifier(Arc::new(clients))
                }
            };
            let config = builder.with_cert_resolver(identity(shows).resolver());
            let name = ServerName::try_from(self.host.to_owned()).expect("a name");
            let client = ClientConnection::new(Arc::new(self.config(version)), name).expect("a client");
            shake(client, ServerConnection::new(Arc::new(config)).expect("a server"))
                .map_err(|error| format!("{version:?}: {error}"))?;
        }
        Ok(())
    }
}

fn shake(mut client: ClientConnection, mut server: ServerConnection) -> Result<(), rustls::Error> {
    while client.is_handshaking() || server.is_handshaking() {
        let mut said = Vec::new();
        while client.wants_write() {
            client.write_tls(&mut said).expect("memory takes it");
        }
        let mut said = Cursor::new(said);
        while server.read_tls(&mut said).is_ok_and(|count| count != 0) {
            server.process_new_packets()?;
        }
        let mut answer = Vec::new();
        while server.wants_write() {
            server.write_tls(&mut answer).expect("memory takes it");
        }
        let mut answer = Cursor::new(answer);
        while client.read_tls(&mut answer).is_ok_and(|count| count != 0) {
            client.process_new_packets()?;
        }
    }
    Ok(())
}

#[test]
fn a_certificate_that_is_itself_trusted_is_believed_of_any_version() {
    for name in ["alone", "alone-old", "old", "named", "p521"] {
        let client = Client { trusts: &[name], shows: Some(name), ..CLIENT };
        client.meets(name, &[name]).unwrap_or_else(|error| panic!("{name}: {error}"));
        let late = Client { is_late: true, ..client };
        let refused = late.meets(name, &[name]).expect_err("its time is over");
        assert!(refused.contains("xpired"), "{name}: {refused}");
    }
    let elsewhere = Client { trusts: &["alone"], host: "elsewhere", ..CLIENT };
    assert!(elsewhere.meets("alone", &[]).is_err_and(|error| error.contains("not valid for name \"elsewhere\"")));
    assert_eq!(Client { names: Names::Any, ..elsewhere }.meets("alone", &[]), Ok(()));
}

#[test]
fn what_a_trusted_authority_has_signed_is_believed_in_its_old_forms() {
    for (name, authority) in [("old", "authority"), ("named", "authority"), ("p521", "p521-authority")] {
        let client = Client { trusts: &[authority], shows: Some(name), ..CLIENT };
        client.meets(name, &[authority]).unwrap_or_else(|error| panic!("{name}: {error}"));
        let late = Client { is_late: true, ..client };
        let refused = late.meets(name, &[authority]).expect_err("its time is over");
        assert!(refused.contains("xpired"), "{name}: {refused}");
    }
    let refused = Client { trusts: &["authority"], host: "elsewhere", ..CLIENT }.meets("named", &[]);
    let refused = refused.expect_err("it is for another");
    assert!(refused.contains("subjectAltName=DNS:elsewhere"), "{refused}");
}

#[test]
fn nobody_else_is_believed() {
    for (name, authority) in [("old", "p521-authority"), ("named", "p521-authority"), ("alone-old", "old")] {
        let client = Client { trusts: &[authority], ..CLIENT };
        assert!(client.meets(name, &[]).is_err_and(|error| error.contains("UnknownIssuer")), "{name}");
        let client = Client { trusts: &[name], shows: Some(name), ..CLIENT };
        assert!(client.meets(name, &[authority]).is_err_and(|error| error.contains("UnknownIssuer")), "{name}");
    }
    assert!(CLIENT.meets("named", &[]).is_err_and(|error| error.contains("UnknownIssuer")), "none are trusted");
    // A certificate that was signed by another one of the same name, and an authority that is a server itself.
    let refused = Client { trusts: &["old"], ..CLIENT }.meets("alone", &[]).expect_err("it is not trusted");
    assert!(refused.contains("CaUsedAsEndEntity: the server's certificate is an authority's own"), "{refused}");
}

#[test]
fn who_is_told_to_believes_anybody_who_has_the_key() {
    for name in ["alone", "alone-old", "old", "named", "p521"] {
        let client = Client { is_insecure: true, is_late: true, host: "elsewhere", ..CLIENT };
        client.meets(name, &[]).unwrap_or_else(|error| panic!("{name}: {error}"));
    }
    let other = read_key(&pem("named.key"), b"").expect("a key");
    let refused = Identity::new(vec![certificate("old")], other, &provider()).map(drop);
    assert_eq!(refused, Err("the certificate and the key do not belong together".to_owned()));
}

#[test]
fn keys_under_a_pass_phrase_are_read_with_it() {
    let plain = read_key(&pem("old.key"), b"").expect("a key");
    for name in ["old.aes256.key", "old.scrypt.key"] {
        let text = [pem("old.crt"), pem(name)].concat();
        assert_eq!(read_key(&text, b"secret").expect("the pass phrase").secret_der(), plain.secret_der());
        assert!(read_key(&text, b"").is_err_and(|why| why.contains("a pass phrase, and none is given")));
        assert!(read_key(&text, b"wrong").is_err_and(|why| why.contains("the pass phrase is wrong")));
    }
    assert_eq!(read_key(&pem("old.key"), b"of no use").expect("none is needed").secret_der(), plain.secret_der());
    assert!(read_key(&pem("old.traditional.key"), b"secret").is_err_and(|why| why.contains("openssl pkcs8 -topk8")));
    assert!(
        read_key(b"-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----", b"x").is_err()
    );
}
