use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::{Certificate, ClientTlsConfig, Identity};

use crate::backoff::Backoff;
use crate::error::{Error, ErrorKind};

pub(crate) fn wrong(message: impl Into<String>) -> Error {
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

pub(crate) type TokenSource = Arc<dyn Fn() -> io::Result<String> + Send + Sync>;

/// Says who calls.
#[derive(Clone)]
pub(crate) enum Credentials {
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
    pub(crate) fn of(credentials: Option<&Credentials>) -> Result<Self, Error> {
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
