use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use http::Uri;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tower_service::Service;

/// Bounds all attempts to connect together. The kernel of a machine that is there answers however busy its processes
/// are.
const DIAL: Duration = Duration::from_secs(2);

/// After so long another attempt to connect begins while those before go on: of several machines behind one address
/// one may be gone.
const ANOTHER: Duration = Duration::from_millis(500);

/// The kernel asks a peer from which nothing comes, so that nobody waits for an answer of a machine that is gone.
const KEEP_ALIVE: Duration = Duration::from_secs(1);
const KEEP_ALIVE_PROBES: u32 = 2;

/// The kernel of the peer may leave bytes without an acknowledgement for so long. It is longer than both waits for
/// probes, so that one packet that is lost ends nothing.
#[cfg(any(target_os = "linux", target_os = "android"))]
const UNACKNOWLEDGED: Duration = Duration::from_millis(2200);

/// Makes TCP connections that end soon when the other machine is gone.
#[derive(Debug, Clone)]
pub(crate) struct Connector(HttpConnector);

impl Connector {
    pub(crate) fn new() -> Self {
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_keepalive(Some(KEEP_ALIVE));
        tcp.set_keepalive_interval(Some(KEEP_ALIVE));
        tcp.set_keepalive_retries(Some(KEEP_ALIVE_PROBES));
        #[cfg(any(target_os = "linux", target_os = "android"))]
        tcp.set_tcp_user_timeout(Some(UNACKNOWLEDGED));
        Self(tcp)
    }
}

impl Service<Uri> for Connector {
    type Response = TokioIo<TcpStream>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Self::Response>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.poll_ready(context).map_err(io::Error::other)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let tcp = self.0.clone();
        Box::pin(hedged(move || {
            let mut tcp = tcp.clone();
            let uri = uri.clone();
            async move { tcp.call(uri).await.map_err(io::Error::other) }
        }))
    }
}

/// Begins attempts until the first of them ends, be it with an error.
async fn hedged<T, F>(mut begin: impl FnMut() -> F) -> io::Result<T>
where
    T: Send + 'static,
    F: Future<Output = io::Result<T>> + Send + 'static,
{
    let mut attempts = JoinSet::new(); // dropped, it ends those that are not needed
    let first = async {
        loop {
            attempts.spawn(begin());
            if let Ok(Some(ended)) = timeout(ANOTHER, attempts.join_next()).await {
                return ended.map_err(io::Error::other)?;
            }
        }
    };
    timeout(DIAL, first).await?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn connections_end_soon_after_their_machine() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let uri = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
        let stream = Connector::new().call(uri).await.unwrap().into_inner();
        let socket = socket2::SockRef::from(&stream);
        assert!(socket.keepalive().unwrap());
        assert_eq!(socket.tcp_keepalive_time().unwrap(), Duration::from_secs(1));
        assert_eq!(socket.tcp_keepalive_interval().unwrap(), Duration::from_secs(1));
        assert_eq!(socket.tcp_keepalive_retries().unwrap(), 2);
        assert_eq!(socket.tcp_user_timeout().unwrap(), Some(Duration::from_millis(2200)));
    }

    #[tokio::test]
    async fn an_attempt_to_connect_that_hangs_is_not_waited_for() {
        let mut begun = 0;
        let second = hedged(|| {
            begun += 1;
            let number = begun;
            async move {
                if number == 1 {
                    std::future::pending::<()>().await;
                }
                Ok(number)
            }
        });
        assert_eq!(second.await.unwrap(), 2);
        let never = hedged(std::future::pending::<io::Result<()>>);
        assert_eq!(never.await.unwrap_err().kind(), io::ErrorKind::TimedOut);
    }
}
