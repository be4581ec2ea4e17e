use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use http::uri::PathAndQuery;
use prost::Message;
use tokio::time::{Instant, sleep, timeout_at};
use tonic::{Request, Streaming};
use tonic_prost::ProstCodec;

use crate::backoff::{Backoff, random_fraction};
use crate::endpoint::{Endpoint, Endpoints};
use crate::error::{Error, ErrorKind};
use crate::options::Settings;
use crate::proto;

/// The level of the API that this crate is built for; see proto/README.md.
const API_LEVEL: u32 = 1;

/// A method of the API: its path, and the messages that it takes and returns.
pub(crate) struct Method<Q, R> {
    path: &'static str,
    messages: std::marker::PhantomData<fn(Q) -> R>,
}

impl<Q, R> Method<Q, R> {
    pub(crate) const fn new(path: &'static str) -> Self {
        Self {
            path,
            messages: std::marker::PhantomData,
        }
    }
}

const GET_SERVER_INFO: Method<proto::GetServerInfoRequest, proto::GetServerInfoResponse> =
    Method::new("/tickmesh.v1.ClusterService/GetServerInfo");

/// Makes calls: attempts, each with another endpoint.
pub(crate) struct Calls {
    endpoints: Endpoints,
    pub(crate) settings: Settings,
}

impl Calls {
    pub(crate) fn new(endpoints: Endpoints, settings: Settings) -> Self {
        Self { endpoints, settings }
    }

    /// Makes attempts until one succeeds, one fails in a way that stays, or the time is over. An attempt is told when
    /// it ends at the latest.
    async fn retry<T, F>(&self, until: Instant, attempt: impl Fn(Arc<Endpoint>, Instant) -> F) -> Result<T, Error>
    where
        F: Future<Output = Result<T, Error>>,
    {
        let mut waits = Waits::new(self.settings.backoff, until);
        loop {
            let endpoint = self.endpoints.pick();
            let end = until.min(Instant::now() + self.settings.attempt_timeout);
            let outcome = match self.greet(&endpoint, end).await {
                Ok(()) => attempt(endpoint.clone(), end).await,
                Err(error) => Err(error),
            };
            endpoint.told(outcome.as_ref().err());
            match outcome {
                Err(error) if error.may_pass() => waits.next(error).await?,
                outcome => return outcome,
            }
        }
    }

    /// Asks a server, once, whether it serves this client.
    async fn greet(&self, endpoint: &Endpoint, end: Instant) -> Result<(), Error> {
        if !endpoint.known.load(Ordering::Relaxed) {
            let request = proto::GetServerInfoRequest {
                client: self.settings.name.clone(),
                api_level: API_LEVEL,
            };
            answer(endpoint, &GET_SERVER_INFO, request, end).await?;
            endpoint.known.store(true, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Makes a call that is answered once.
    pub(crate) async fn unary<Q, R>(&self, method: Method<Q, R>, request: &Q, until: Instant) -> Result<R, Error>
    where
        Q: Message + Clone + 'static,
        R: Message + Default + 'static,
    {
        let method = &method;
        self.retry(until, |endpoint, end| async move {
            answer(&endpoint, method, request.clone(), end).await
        })
        .await
    }

    /// Makes a call that is answered by a stream, up to its first message. How long an answer may take is the caller's
    /// and the server's to say.
    pub(crate) async fn stream<Q, R>(&self, method: Method<Q, R>, request: &Q) -> Result<Opened<R>, Error>
    where
        Q: Message + Clone + 'static,
        R: Message + Default + 'static,
    {
        let until = Instant::now() + self.settings.call_timeout;
        let path = method.path;
        self.retry(until, |endpoint, _| async move {
            let request = with_authorization(&endpoint, Request::new(request.clone()))?;
            let mut grpc = endpoint.grpc();
            ready(&mut grpc).await?;
            let codec = ProstCodec::<Q, R>::default();
            let opened = grpc
                .server_streaming(request, PathAndQuery::from_static(path), codec)
                .await;
            let mut rest = opened.map_err(|e| Error::of_status(&e))?.into_inner();
            let first = rest.message().await.map_err(|e| Error::of_status(&e))?;
            Ok(Opened { first, rest })
        })
        .await
    }
}

/// A stream of which the first message is there, if there is any.
pub(crate) struct Opened<R> {
    pub(crate) first: Option<R>,
    pub(crate) rest: Streaming<R>,
}

/// Makes one attempt of a call that is answered once.
async fn answer<Q, R>(endpoint: &Endpoint, method: &Method<Q, R>, request: Q, end: Instant) -> Result<R, Error>
where
    Q: Message + 'static,
    R: Message + Default + 'static,
{
    let mut request = with_authorization(endpoint, Request::new(request))?;
    request.set_timeout(end.saturating_duration_since(Instant::now()));
    let mut grpc = endpoint.grpc();
    let call = async {
        ready(&mut grpc).await?;
        let codec = ProstCodec::<Q, R>::default();
        let answered = grpc.unary(request, PathAndQuery::from_static(method.path), codec).await;
        answered.map_err(|e| Error::of_status(&e))
    };
    match timeout_at(end, call).await {
        Ok(Ok(response)) => Ok(response.into_inner()),
        // The transport ends a call at its timeout, too, with another code.
        Ok(Err(error)) if Instant::now() < end => Err(error),
        _ => Err(Error::new(ErrorKind::Deadline, "no answer in time")),
    }
}

/// Waits until a channel takes a call.
async fn ready(grpc: &mut tonic::client::Grpc<tonic::transport::Channel>) -> Result<(), Error> {
    let taken = grpc.ready().await;
    taken.map_err(|e| Error::of_status(&tonic::Status::from_error(e.into())))
}

fn with_authorization<Q>(endpoint: &Endpoint, mut request: Request<Q>) -> Result<Request<Q>, Error> {
    if let Some(value) = endpoint.authorization.value()? {
        request.metadata_mut().insert("authorization", value);
    }
    Ok(request)
}

/// The waits between the attempts of one call, and what these failed for.
pub(crate) struct Waits {
    backoff: Backoff,
    until: Instant,
    failures: u32,
    reason: Option<Error>, // of the last attempt that failed for more than that its time was over
}

impl Waits {
    pub(crate) fn new(backoff: Backoff, until: Instant) -> Self {
        Self {
            backoff,
            until,
            failures: 0,
            reason: None,
        }
    }

    /// Waits after an attempt that has failed. Returns why attempts failed when the time would be over.
    pub(crate) async fn next(&mut self, error: Error) -> Result<(), Error> {
        self.failures = self.failures.saturating_add(1);
        let retry_after = error.retry_after();
        if error.kind() != ErrorKind::Deadline || self.reason.is_none() {
            self.reason = Some(error);
        }
        let delay: Duration = self.backoff.delay(self.failures, retry_after, random_fraction());
        match self.reason.take_if(|_| Instant::now() + delay > self.until) {
            Some(reason) => Err(reason),
            None => {
                sleep(delay).await;
                Ok(())
            }
        }
    }
}
