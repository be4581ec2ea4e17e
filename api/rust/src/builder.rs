use std::fmt;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use crate::backoff::Backoff;
use crate::client::Client;
use crate::endpoint::Endpoints;
use crate::error::Error;
use crate::options::{Authorization, Credentials, DURATION_MAX, Settings, Tls, WriteLevel, wrong};

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

impl Client {
    /// Begins the options of a client of these endpoints: the addresses, `host:port`, of the gRPC ports of routers, or
    /// of one standalone server.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickmesh::Client;
    ///
    /// let client = Client::builder(["router-1:6183", "router-2:6183"])
    ///     .write_timeout(Duration::from_secs(300))
    ///     .build()?;
    ///
    /// // A token would cross the network for everybody to read.
    /// assert!(Client::builder(["router-1:6183"]).token("t").build().is_err());
    /// # Ok::<(), tickmesh::Error>(())
    /// ```
    pub fn builder(endpoints: impl IntoIterator<Item = impl Into<String>>) -> ClientBuilder {
        ClientBuilder::new(endpoints.into_iter().map(Into::into).collect())
    }
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
