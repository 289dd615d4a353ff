//! How programs inside come to trust the gate's certificates: a file with the sandbox's own authority and all that the host
//! trusts, and the variables by which programs are led to it.
//!
//! Most of these variables *replace* what a program trusts otherwise, so the file has to hold everything.

use std::ffi::{OsStr, OsString};
use std::path::Path;

/// The file's name.
pub(crate) const BUNDLE: &str = "ca.pem";
/// The same certificates for Java.
pub(crate) const JAVA_STORE: &str = "ca.p12";

/// The variables that name such a file, and who reads them.
const VARIABLES: &[&str] = &[
    // OpenSSL, Go, uv, rustls-native-certs, httpx and with it the SDKs of Anthropic and OpenAI, Ruby, .NET.
    "SSL_CERT_FILE",
    // Node, where it adds to what is built in; Bun.
    "NODE_EXTRA_CA_CERTS",
    "CURL_CA_BUNDLE",
    // Python's requests, which looks at curl's after it.
    "REQUESTS_CA_BUNDLE",
    // Builds with GnuTLS look at no other.
    "GIT_SSL_CAINFO",
    "PIP_CERT",
    "CARGO_HTTP_CAINFO",
    "DENO_CERT",
    "AWS_CA_BUNDLE",
    "CLOUDSDK_CORE_CUSTOM_CA_CERTS_FILE",
    "NIX_SSL_CERT_FILE",
    "npm_config_cafile",
    "BUNDLE_SSL_CA_CERT",
    "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH",
];

/// The variables, for a bundle in this folder inside. `java` are the options that the command has for Java so far, where there is
/// a store for it.
pub(crate) fn variables(folder: &Path, java: Option<Option<&OsStr>>) -> Vec<(OsString, OsString)> {
    let bundle = folder.join(BUNDLE).into_os_string();
    let mut list: Vec<(OsString, OsString)> =
        VARIABLES.iter().map(|name| ((*name).into(), bundle.clone())).collect();
    if let Some(options) = java {
        let mut value = options.map(OsStr::to_owned).unwrap_or_default();
        if !value.is_empty() {
            value.push(" ");
        }
        value.push("-Djavax.net.ssl.trustStore=");
        value.push(folder.join(JAVA_STORE));
        value.push(" -Djavax.net.ssl.trustStoreType=PKCS12 -Djavax.net.ssl.trustStorePassword=");
        value.push(super::java::PASSWORD);
        list.push(("JAVA_TOOL_OPTIONS".into(), value));
    }
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_variable_leads_to_the_bundle_and_java_keeps_its_options() {
        let set = variables(Path::new("/run/kennel"), Some(Some(OsStr::new("-Xmx1g"))));
        assert!(set.iter().filter(|(_, value)| value == "/run/kennel/ca.pem").count() == VARIABLES.len());
        let (_, java) = set.iter().find(|(name, _)| name == "JAVA_TOOL_OPTIONS").expect("it is set");
        let java = java.to_str().expect("text");
        assert!(java.starts_with("-Xmx1g -Djavax.net.ssl.trustStore=/run/kennel/ca.p12 "), "{java}");
        assert_eq!(variables(Path::new("/x"), None).len(), VARIABLES.len());
    }
}
