use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use tonic::client::Grpc;
use tonic::transport::{Channel, Endpoint as Transport};

use crate::backoff::random_bits;
use crate::connect::Connector;
use crate::error::{Error, ErrorKind};
use crate::options::{Authorization, Tls};

const MESSAGE_BYTES_MAX: usize = 32 << 20;

/// How far a server may be ahead of a client that reads. The connection has the largest window that there is: answers
/// that nobody reads yet must not keep other answers from arriving over the same connection.
const STREAM_WINDOW_BYTES: u32 = 1 << 20;
const CONNECTION_WINDOW_BYTES: u32 = (1 << 31) - 1;

/// A server from which nothing comes is asked after so long, and is taken for dead when it does not answer for as long.
/// Servers take more frequent questions as an attack. It is about processes that stand still; the kernel finds machines
/// that are gone.
const KEEP_ALIVE: Duration = Duration::from_secs(10);

/// Bounds connecting with the handshake of TLS, in which a process that stands still would not be noticed otherwise.
const CONNECT: Duration = Duration::from_secs(10);

/// Bounds how long an endpoint that fails is left alone.
const REST_MIN: Duration = Duration::from_millis(100);
const REST_MAX: Duration = Duration::from_secs(5);

/// One router.
pub(crate) struct Endpoint {
    transport: Transport,
    channel: OnceLock<Channel>, // made within a runtime
    pub(crate) authorization: Authorization,
    rest: Mutex<Rest>,
    /// Whether the server has said that it serves this client.
    pub(crate) known: AtomicBool,
}

#[derive(Default)]
struct Rest {
    failures: u32, // without a success between
    until: Option<Instant>,
}

impl Endpoint {
    /// Errors: `Options`.
    fn new(address: &str, tls: Option<&Tls>, authorization: &Authorization) -> Result<Self, Error> {
        let wrong = |e: &dyn std::fmt::Debug| {
            Error::new(
                ErrorKind::Options,
                format!("endpoint {address:?}, want host:port: {e:?}"),
            )
        };
        let scheme = if tls.is_some() { "https" } else { "http" };
        let uri: http::Uri = format!("{scheme}://{address}").parse().map_err(|e| wrong(&e))?;
        // What else an address may have in a URI would not be used, or would hide which host is meant.
        let more = address.contains(['/', '?', '#', '@']);
        if more || uri.port_u16().is_none() || uri.host().is_none_or(str::is_empty) {
            return Err(wrong(&uri));
        }
        let mut transport = Transport::from(uri)
            .initial_stream_window_size(STREAM_WINDOW_BYTES)
            .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
            .connect_timeout(CONNECT)
            .http2_keep_alive_interval(KEEP_ALIVE)
            .keep_alive_timeout(KEEP_ALIVE)
            .keep_alive_while_idle(true);
        if let Some(tls) = tls {
            transport = transport.tls_config(tls.config()).map_err(|e| wrong(&e))?;
        }
        Ok(Self {
            transport,
            channel: OnceLock::new(),
            authorization: authorization.clone(),
            rest: Mutex::default(),
            known: AtomicBool::new(false),
        })
    }

    /// Returns what makes calls.
    pub(crate) fn grpc(&self) -> Grpc<Channel> {
        let connect = || self.transport.connect_with_connector_lazy(Connector::new());
        Grpc::new(self.channel.get_or_init(connect).clone())
            .max_decoding_message_size(MESSAGE_BYTES_MAX)
            .max_encoding_message_size(MESSAGE_BYTES_MAX)
    }

    /// Notes how a call ended. A server that answers, even with an error, is well, unless it cannot reach its nodes.
    pub(crate) fn told(&self, error: Option<&Error>) {
        let mut rest = self.rest.lock().unwrap_or_else(PoisonError::into_inner);
        match error.map(Error::kind) {
            Some(ErrorKind::Unavailable | ErrorKind::Deadline) => {
                let time = REST_MIN.saturating_mul(1 << rest.failures.min(10)).min(REST_MAX);
                rest.until = Some(Instant::now() + time);
                rest.failures = rest.failures.saturating_add(1);
            }
            _ => *rest = Rest::default(),
        }
    }

    /// Returns until when it is left alone, if it is after now.
    fn rests_until(&self, now: Instant) -> Option<Instant> {
        let rest = self.rest.lock().unwrap_or_else(PoisonError::into_inner);
        rest.until.filter(|until| *until > now)
    }
}

/// Takes endpoints in turn.
pub(crate) struct Endpoints {
    all: Vec<Arc<Endpoint>>, // not empty
    next: AtomicUsize,
}

impl Endpoints {
    /// Errors: `Options`.
    pub(crate) fn new(addresses: &[String], tls: Option<&Tls>, authorization: &Authorization) -> Result<Self, Error> {
        let all = addresses
            .iter()
            .map(|address| Endpoint::new(address, tls, authorization).map(Arc::new));
        Ok(Self {
            all: all.collect::<Result<_, _>>()?,
            next: AtomicUsize::new(random_bits() as usize % addresses.len()),
        })
    }

    /// Returns the endpoint for the next call; one that rests only when all do, and then the one that rests shortest.
    pub(crate) fn pick(&self) -> Arc<Endpoint> {
        let first = self.next.fetch_add(1, Ordering::Relaxed) % self.all.len();
        let (before, from) = self.all.split_at(first);
        let now = Instant::now();
        let turn = from.iter().chain(before);
        // None, which is less than all times, is of one that does not rest; of equal ones the first is returned.
        let best = turn.min_by_key(|endpoint| endpoint.rests_until(now));
        best.unwrap_or(&self.all[first]).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_that_fail_rest() {
        let addresses = ["localhost:1", "localhost:2", "localhost:3"].map(str::to_owned);
        let endpoints = Endpoints::new(&addresses, None, &Authorization::Nobody).unwrap();
        let picked = |endpoints: &Endpoints| {
            let mut found: Vec<_> = (0..6).map(|_| endpoints.pick().transport.uri().port_u16()).collect();
            found.sort_unstable();
            found.dedup();
            found
        };
        let unavailable = Error::new(ErrorKind::Unavailable, "");
        assert_eq!(picked(&endpoints), [Some(1), Some(2), Some(3)]);
        for _ in 0..7 {
            endpoints.all[0].told(Some(&unavailable));
            endpoints.all[1].told(Some(&unavailable));
        }
        assert_eq!(picked(&endpoints), [Some(3)]);
        for _ in 0..9 {
            endpoints.all[2].told(Some(&unavailable));
        }
        assert_eq!(picked(&endpoints).len(), 1);
        endpoints.all[1].told(Some(&Error::new(ErrorKind::Invalid, "")));
        assert_eq!(picked(&endpoints), [Some(2)]);
    }
}
