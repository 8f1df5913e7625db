//! OpenSSL's lists of ciphers, read for the available suites.
//!
//! A list begins with no suite and is read from left to right. A word adds the suites that it describes and that are not in
//! the list; a word after `+` moves them to the end, one after `-` removes them until they are added again, one after `!`
//! removes them for good. A word is a suite's name, a property of suites, or several properties joined by `+`. A property
//! that OpenSSL knows and no available suite has (DHE, CBC, RSA key exchange) describes no suite, as in an OpenSSL that was
//! built without it. A list that leaves no suite is an error. Pure functions; any thread.

use rustls::SupportedCipherSuite;

/// A suite of TLS 1.2: the standard's name, OpenSSL's, and the words that describe it in addition to those that describe all.
struct Suite {
    standard: &'static str,
    openssl: &'static str,
    words: &'static [&'static str],
}

const SUITES: [Suite; 6] = [
    Suite {
        standard: "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
        openssl: "ECDHE-ECDSA-AES256-GCM-SHA384",
        words: &["ECDSA", "aECDSA", "AES", "AES256", "AESGCM", "SHA384"],
    },
    Suite {
        standard: "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
        openssl: "ECDHE-ECDSA-AES128-GCM-SHA256",
        words: &["ECDSA", "aECDSA", "AES", "AES128", "AESGCM", "SHA256"],
    },
    Suite {
        standard: "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
        openssl: "ECDHE-ECDSA-CHACHA20-POLY1305",
        words: &["ECDSA", "aECDSA", "CHACHA20"],
    },
    Suite {
        standard: "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
        openssl: "ECDHE-RSA-AES256-GCM-SHA384",
        words: &["RSA", "aRSA", "AES", "AES256", "AESGCM", "SHA384"],
    },
    Suite {
        standard: "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
        openssl: "ECDHE-RSA-AES128-GCM-SHA256",
        words: &["RSA", "aRSA", "AES", "AES128", "AESGCM", "SHA256"],
    },
    Suite {
        standard: "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
        openssl: "ECDHE-RSA-CHACHA20-POLY1305",
        words: &["RSA", "aRSA", "CHACHA20"],
    },
];

/// The words that describe every available suite.
const OF_ALL: [&str; 8] = ["ALL", "DEFAULT", "HIGH", "TLSv1.2", "ECDHE", "EECDH", "kECDHE", "kEECDH"];

/// Returns the suites of TLS 1.2 that a list describes, in its order.
///
/// # Errors
/// The list leaves no suite.
pub(super) fn of_tls12(list: &str, known: Vec<SupportedCipherSuite>) -> Result<Vec<SupportedCipherSuite>, String> {
    if list.trim().is_empty() {
        return Ok(known);
    }
    let (mut chosen, mut left): (Vec<SupportedCipherSuite>, Vec<SupportedCipherSuite>) = (Vec::new(), known);
    for word in list.split([':', ',', ' ', ';']).filter(|word| !word.is_empty() && !word.starts_with('@')) {
        let (sign, description) = match word.chars().next() {
            Some(sign @ ('!' | '-' | '+')) => (sign, word.get(1..).unwrap_or_default()),
            _ => (' ', word),
        };
        let is_meant = |suite: &SupportedCipherSuite| fits(suite, description);
        match sign {
            '!' => {
                chosen.retain(|suite| !is_meant(suite));
                left.retain(|suite| !is_meant(suite));
            }
            '-' => left.extend(chosen.extract_if(.., |suite| is_meant(suite))),
            '+' => {
                let moved: Vec<_> = chosen.extract_if(.., |suite| is_meant(suite)).collect();
                chosen.extend(moved);
            }
            _ => chosen.extend(left.extract_if(.., |suite| is_meant(suite))),
        }
    }
    if chosen.is_empty() {
        let names: Vec<_> = SUITES.iter().map(|suite| suite.openssl).collect();
        return Err(format!("'{list}' leaves none of those that there are: {}", names.join(", ")));
    }
    Ok(chosen)
}

/// Returns the suites of TLS 1.3 that a list names, in its order.
///
/// # Errors
/// A name that is no suite of TLS 1.3, or no available one.
pub(super) fn of_tls13(list: &str, known: Vec<SupportedCipherSuite>) -> Result<Vec<SupportedCipherSuite>, String> {
    /// The suites that OpenSSL has but leaves out by default; they are not available here.
    const ABSENT: [&str; 2] = ["TLS_AES_128_CCM_SHA256", "TLS_AES_128_CCM_8_SHA256"];
    if list.trim().is_empty() {
        return Ok(known);
    }
    let mut chosen = Vec::new();
    for name in list.split(':').filter(|name| !ABSENT.contains(name)) {
        let suite = known.iter().find(|suite| standard_name(suite) == name);
        chosen.push(*suite.ok_or_else(|| format!("'{name}' is none of {}", names_of(&known)))?);
    }
    if chosen.is_empty() { Err(format!("'{list}' leaves none of {}", names_of(&known))) } else { Ok(chosen) }
}

fn names_of(suites: &[SupportedCipherSuite]) -> String {
    suites.iter().map(standard_name).collect::<Vec<_>>().join(", ")
}

/// Returns whether a word, or several joined by `+`, describes a suite.
fn fits(suite: &SupportedCipherSuite, description: &str) -> bool {
    let own = standard_name(suite);
    let Some(row) = SUITES.iter().find(|row| row.standard == own) else { return false };
    let is_so =
        |word: &str| word == row.standard || word == row.openssl || row.words.contains(&word) || OF_ALL.contains(&word);
    !description.is_empty() && description.split('+').all(is_so)
}

fn standard_name(suite: &SupportedCipherSuite) -> String {
    format!("{:?}", suite.suite()).replace("TLS13_", "TLS_")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(list: &str) -> Vec<String> {
        let known = sleeve_certificates::provider().cipher_suites;
        let old = known.into_iter().filter(|suite| matches!(suite, SupportedCipherSuite::Tls12(_))).collect();
        let suites = of_tls12(list, old).unwrap_or_default();
        suites.iter().map(|suite| standard_name(suite).replace("TLS_ECDHE_", "")).collect()
    }

    #[test]
    fn lists_of_openssl_choose_and_order_suites() {
        assert_eq!(chosen("").len(), 6);
        for all in ["DEFAULT:!MEDIUM", "HIGH:!aNULL:!kRSA:!PSK:!SRP:!MD5:!RC4", "ALL:@STRENGTH", "ECDHE, @SECLEVEL=2"] {
            assert_eq!(chosen(all).len(), 6, "{all}");
        }
        assert_eq!(
            chosen("ECDHE+AESGCM:!ECDSA:+AES256"),
            ["RSA_WITH_AES_128_GCM_SHA256", "RSA_WITH_AES_256_GCM_SHA384"]
        );
        let named = "ECDHE-RSA-CHACHA20-POLY1305:DHE-RSA-AES256-GCM-SHA384:ECDHE-RSA-AES256-GCM-SHA384:AES256-SHA";
        assert_eq!(chosen(named), ["RSA_WITH_CHACHA20_POLY1305_SHA256", "RSA_WITH_AES_256_GCM_SHA384"]);
        assert_eq!(chosen("CHACHA20:-RSA:RSA+CHACHA20").len(), 2, "what was taken out may come again");
        assert_eq!(chosen("!CHACHA20:CHACHA20").len(), 0, "what was thrown out may not");
    }

    #[test]
    fn a_list_that_leaves_none_is_refused_with_the_names_of_all() {
        let refused = of_tls12("DHE:nonsense", Vec::new()).expect_err("none is left");
        assert!(refused.contains("'DHE:nonsense' leaves none") && refused.contains("ECDHE-RSA-AES128-GCM-SHA256"));
        assert!(of_tls13("TLS_NONSENSE", Vec::new()).is_err_and(|why| why.contains("'TLS_NONSENSE' is none of")));
    }
}
