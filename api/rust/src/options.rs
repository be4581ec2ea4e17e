use std::fmt;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::{Certificate, ClientTlsConfig, Identity};

use crate::backoff::Backoff;
use crate::client::Client;
use crate::endpoint::Endpoints;
use crate::error::{Error, ErrorKind};

fn wrong(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Options, message)
}

/// How many replicas have a write when it is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum WriteLevel {
    /// A majority of the voters of each shard.
    #[default]
    Majority,
    /// A majority, and every full voter of each shard. A batch that one of them does not have within the write timeout
    /// ends with `Unavailable`, though it is written and will not be undone.
    All,
}

/// TLS to the servers.
#[derive(Clone, Default)]
pub struct Tls {
    ca: Option<Vec<u8>>,
    identity: Option<(Vec<u8>, Vec<u8>)>,
}

impl Tls {
    /// Returns TLS by the certificate authorities that the system knows.
    pub fn new() -> Self {
        Self::default()
    }

    /// Trusts these certificate authorities, a PEM text, and no others.
    pub fn ca(mut self, pem: impl AsRef<[u8]>) -> Self {
        self.ca = Some(pem.as_ref().to_vec());
        self
    }

    /// Shows a certificate to servers that ask; both are PEM texts.
    pub fn identity(mut self, certificate_pem: impl AsRef<[u8]>, key_pem: impl AsRef<[u8]>) -> Self {
        self.identity = Some((certificate_pem.as_ref().to_vec(), key_pem.as_ref().to_vec()));
        self
    }

    pub(crate) fn config(&self) -> ClientTlsConfig {
        let mut config = ClientTlsConfig::new();
        config = match &self.ca {
            Some(pem) => config.ca_certificate(Certificate::from_pem(pem)),
            None => config.with_native_roots(),
        };
        if let Some((certificate, key)) = &self.identity {
            config = config.identity(Identity::from_pem(certificate, key));
        }
        config
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").finish_non_exhaustive()
    }
}

type TokenSource = Arc<dyn Fn() -> io::Result<String> + Send + Sync>;

/// Says who calls.
#[derive(Clone)]
enum Credentials {
    Token(String),
    Source(TokenSource),
    User { name: String, password: String },
}

/// What goes with each call to say who makes it.
#[derive(Clone)]
pub(crate) enum Authorization {
    Nobody,
    Fixed(MetadataValue<Ascii>),
    Source(TokenSource),
}

impl Authorization {
    /// Returns the metadata. Errors: `Internal`, with what the source of tokens failed with.
    pub(crate) fn value(&self) -> Result<Option<MetadataValue<Ascii>>, Error> {
        match self {
            Self::Nobody => Ok(None),
            Self::Fixed(value) => Ok(Some(value.clone())),
            Self::Source(source) => {
                let internal = |e: &dyn fmt::Display| Error::new(ErrorKind::Internal, format!("no token: {e}"));
                let token = source().map_err(|e| internal(&e))?;
                bearer(token.trim()).map(Some).map_err(|e| internal(&e))
            }
        }
    }

    /// Errors: `Options`.
    fn of(credentials: Option<&Credentials>) -> Result<Self, Error> {
        match credentials {
            None => Ok(Self::Nobody),
            Some(Credentials::Source(source)) => Ok(Self::Source(source.clone())),
            Some(Credentials::Token(token)) => bearer(token).map(Self::Fixed).map_err(wrong),
            Some(Credentials::User { name, .. }) if name.is_empty() || name.contains(':') => {
                Err(wrong("the user's name is empty, or has a colon"))
            }
            Some(Credentials::User { name, password }) => {
                let both = base64::engine::general_purpose::STANDARD.encode(format!("{name}:{password}"));
                metadata_of(&format!("Basic {both}")).map(Self::Fixed).map_err(wrong)
            }
        }
    }
}

fn bearer(token: &str) -> Result<MetadataValue<Ascii>, &'static str> {
    if token.is_empty() || token.contains(char::is_whitespace) {
        return Err("the token is empty, or has spaces");
    }
    metadata_of(&format!("Bearer {token}"))
}

fn metadata_of(text: &str) -> Result<MetadataValue<Ascii>, &'static str> {
    let value = text.parse::<MetadataValue<Ascii>>();
    let mut value = value.map_err(|_| "the token has characters that no header can have")?;
    value.set_sensitive(true);
    Ok(value)
}

/// Longer durations mean it: no clock ends before it, so that `Duration::MAX` is a timeout, too.
pub(crate) const DURATION_MAX: Duration = Duration::from_secs(30 * 365 * 24 * 3600);

/// The options of a client, as its parts use them.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) name: String,
    pub(crate) attempt_timeout: Duration,
    pub(crate) write_timeout: Duration,
    pub(crate) call_timeout: Duration,
    pub(crate) backoff: Backoff,
    pub(crate) write_level: WriteLevel,
}

/// Options of a [`Client`], which [`ClientBuilder::build`] makes.
#[derive(Clone)]
#[must_use]
pub struct ClientBuilder {
    endpoints: Vec<String>,
    tls: Option<Tls>,
    credentials: Option<Credentials>,
    insecure_credentials: bool,
    settings: Settings,
}

impl fmt::Debug for ClientBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientBuilder")
            .field("endpoints", &self.endpoints)
            .field("tls", &self.tls)
            .field("settings", &self.settings)
            .finish_non_exhaustive() // credentials are nobody's to read
    }
}

impl ClientBuilder {
    pub(crate) fn new(endpoints: Vec<String>) -> Self {
        Self {
            endpoints,
            tls: None,
            credentials: None,
            insecure_credentials: false,
            settings: Settings {
                name: "tickmesh-rust".to_owned(),
                attempt_timeout: Duration::from_secs(10),
                write_timeout: Duration::from_secs(60),
                call_timeout: Duration::from_secs(30),
                backoff: Backoff {
                    min: Duration::from_millis(20),
                    max: Duration::from_secs(2),
                },
                write_level: WriteLevel::Majority,
            },
        }
    }

    /// Uses TLS.
    pub fn tls(mut self, tls: Tls) -> Self {
        self.tls = Some(tls);
        self
    }

    /// Says who calls, by a token. Of this, `token_source` and `user` the last one counts.
    pub fn token(mut self, token: impl Into<String>) -> Self {
        self.credentials = Some(Credentials::Token(token.into()));
        self
    }

    /// Says who calls, by what returns the token at each attempt: one that is rotated. It must not block for long. Its
    /// error ends the call.
    pub fn token_source(mut self, source: impl Fn() -> io::Result<String> + Send + Sync + 'static) -> Self {
        self.credentials = Some(Credentials::Source(Arc::new(source)));
        self
    }

    /// Says who calls, by name and password.
    pub fn user(mut self, name: impl Into<String>, password: impl Into<String>) -> Self {
        self.credentials = Some(Credentials::User {
            name: name.into(),
            password: password.into(),
        });
        self
    }

    /// Lets a token or password cross the network without TLS, for everybody on the way to read.
    pub fn insecure_credentials(mut self) -> Self {
        self.insecure_credentials = true;
        self
    }

    /// Identifies the caller, for the server's logs; default `tickmesh-rust`.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.settings.name = name.into();
        self
    }

    /// Bounds one attempt; default 10 s.
    pub fn attempt_timeout(mut self, timeout: Duration) -> Self {
        self.settings.attempt_timeout = timeout;
        self
    }

    /// Bounds all attempts to write one batch; default 60 s.
    pub fn write_timeout(mut self, timeout: Duration) -> Self {
        self.settings.write_timeout = timeout;
        self
    }

    /// Bounds all attempts of other calls; default 30 s. What is answered by a stream makes no further attempt after
    /// it, and its answer may take as long as the caller waits for it.
    pub fn call_timeout(mut self, timeout: Duration) -> Self {
        self.settings.call_timeout = timeout;
        self
    }

    /// Bounds the waits between attempts, which grow; default 20 ms to 2 s.
    pub fn retry_delay(mut self, min: Duration, max: Duration) -> Self {
        self.settings.backoff = Backoff { min, max };
        self
    }

    /// Says how many replicas a write waits for.
    pub fn write_level(mut self, level: WriteLevel) -> Self {
        self.settings.write_level = level;
        self
    }

    /// Returns the client, which connects when something is asked. Errors: `Options`, for what cannot work, or would be
    /// readable for everybody.
    pub fn build(mut self) -> Result<Client, Error> {
        if self.endpoints.is_empty() {
            return Err(wrong("no endpoints"));
        }
        let authorization = Authorization::of(self.credentials.as_ref())?;
        if self.credentials.is_some() && self.tls.is_none() && !self.insecure_credentials {
            if let Some(far) = self.endpoints.iter().find(|address| !on_loopback(address)) {
                return Err(wrong(format!(
                    "a token or password would cross the network to {far} for everybody to read: use tls, or allow \
                     it with insecure_credentials"
                )));
            }
        }
        let s = &mut self.settings;
        for duration in [
            &mut s.attempt_timeout,
            &mut s.write_timeout,
            &mut s.call_timeout,
            &mut s.backoff.min,
            &mut s.backoff.max,
        ] {
            *duration = DURATION_MAX.min(*duration);
        }
        if [s.attempt_timeout, s.write_timeout, s.call_timeout, s.backoff.min].contains(&Duration::ZERO) {
            return Err(wrong("a time of zero"));
        }
        if s.backoff.min > s.backoff.max {
            return Err(wrong("of the retry delays the shortest is longer than the longest"));
        }
        let endpoints = Endpoints::new(&self.endpoints, self.tls.as_ref(), &authorization)?;
        Ok(Client::of(endpoints, self.settings))
    }
}

/// Reports whether an address, host:port, is of this machine alone. No name but localhost is.
fn on_loopback(address: &str) -> bool {
    let host = match address.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or(rest),
        None => address.rsplit_once(':').map_or(address, |(host, _)| host),
    };
    host.eq_ignore_ascii_case("localhost") || host.parse().is_ok_and(|ip: IpAddr| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vectors;

    #[test]
    fn the_loopback_is_what_the_vectors_say() {
        for (address, is) in vectors::read()["loopback"].as_object().unwrap() {
            assert_eq!(on_loopback(address), is.as_bool().unwrap(), "{address}");
        }
    }

    #[test]
    fn credentials_are_not_printed() {
        let builder = Client::builder(["localhost:1"])
            .token("secret-token")
            .tls(Tls::new().identity("c", "secret-key"));
        assert!(!format!("{builder:?}").contains("secret"), "{builder:?}");
        assert!(!format!("{:?}", builder.user("a", "secret")).contains("secret"));
    }
}
