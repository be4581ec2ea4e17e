use std::fmt;
use std::time::Duration;

use prost::Message;
use tonic::Code;

use crate::model::Series;
use crate::proto;

/// What an error means to a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Too few replicas, or no server could be reached. Nobody knows whether something was written.
    Unavailable,
    /// A queue of the server is full. Nobody knows whether something was written.
    Overloaded,
    /// A disk is full, read-only or failing.
    ReadOnly,
    /// There may be no more series.
    SeriesLimit,
    /// Too many new series a second.
    SeriesRate,
    /// The write is so far behind others of its session that nobody knows whether it was applied.
    BatchOld,
    /// The request is wrong and stays wrong.
    Invalid,
    /// The query met one of its limits.
    QueryLimit,
    /// The server takes the caller for gone.
    Cancelled,
    /// The time is over. Nobody knows whether something was written.
    Deadline,
    /// What is named does not exist.
    NotFound,
    /// The cluster is not in a state in which this may be done.
    Refused,
    /// Client and server do not understand each other.
    Version,
    /// A fault of the server, or of this crate.
    Internal,
    /// Nobody knows the caller's credentials, or there were none.
    Unauthenticated,
    /// The caller is known and does not have the right.
    Denied,
    /// The options of a client or writer cannot work.
    Options,
    /// The writer is closed.
    Closed,
    /// The writer's buffer is full.
    BufferFull,
    /// The answer lacks shards, as was allowed.
    Partial,
}

/// Any error of this crate. [`Error::kind`] says what it means.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Error {
    /// All that needs no more than a kind and a text.
    #[non_exhaustive]
    Failed {
        /// What it means.
        kind: ErrorKind,
        /// For people.
        message: String,
        /// When the server asks to try again, from then; zero: it does not say.
        retry_after: Duration,
    },
    /// A query met one of its limits.
    #[non_exhaustive]
    QueryLimit {
        /// `"series"`, `"samples"` or `"bytes"`.
        what: String,
        /// The most of it that the query may use.
        limit: i64,
        /// For people.
        message: String,
    },
    /// The last thing of an answer that lacks shards; only where that was allowed.
    #[non_exhaustive]
    Partial {
        /// The shards for which nobody answers.
        shards: Vec<u32>,
    },
    /// Points were not written, or nobody knows whether they were.
    Write(Box<WriteError>),
}

/// Bounds the reasons that a [`WriteError`] holds.
const CAUSES_MAX: usize = 16;

/// Points that were refused, or of which nobody knows whether they were written.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct WriteError {
    /// Their number.
    pub points: usize,
    /// The first reasons, at most 16: failures, then refusals.
    pub causes: Vec<WriteCause>,
    /// The number of reasons in all.
    pub total: usize,
}

/// Why points were not written.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum WriteCause {
    /// The server has left out a series.
    Refused(RefusedSeries),
    /// A batch failed.
    Failed(Error),
}

/// The samples of one series that a server has left out of a batch, and why.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct RefusedSeries {
    /// The series.
    pub series: Series,
    /// The number of samples.
    pub points: usize,
    /// Why.
    pub error: Error,
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self::Failed {
            kind,
            message: message.into(),
            retry_after: Duration::ZERO,
        }
    }

    /// Returns what it means; of a [`WriteError`] what its first cause does.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Failed { kind, .. } => *kind,
            Self::QueryLimit { .. } => ErrorKind::QueryLimit,
            Self::Partial { .. } => ErrorKind::Partial,
            Self::Write(e) => e.causes.first().map_or(ErrorKind::Internal, |c| c.error().kind()),
        }
    }

    /// Reports whether the same request may succeed later.
    pub fn may_pass(&self) -> bool {
        matches!(
            self.kind(),
            ErrorKind::Unavailable | ErrorKind::Overloaded | ErrorKind::SeriesRate | ErrorKind::Deadline
        )
    }

    /// Returns when the server asks to try again, from then; zero: it does not say.
    pub fn retry_after(&self) -> Duration {
        match self {
            Self::Failed { retry_after, .. } => *retry_after,
            _ => Duration::ZERO,
        }
    }

    /// Returns the error of a message; unknown kinds are `Internal`.
    pub(crate) fn of_message(m: Option<proto::Error>) -> Self {
        let Some(m) = m else {
            return Self::new(ErrorKind::Internal, "a refusal without a reason");
        };
        match (kind_of_message(m.kind()), m.limit) {
            (ErrorKind::QueryLimit, Some(limit)) => Self::QueryLimit {
                what: limit.what,
                limit: limit.limit,
                message: m.message,
            },
            (kind, _) => Self::Failed {
                kind,
                message: m.message,
                retry_after: Duration::from_millis(m.retry_after_ms.into()),
            },
        }
    }

    /// Returns what a call ended with.
    pub(crate) fn of_status(status: &tonic::Status) -> Self {
        if let Some(m) = detail_of(status.details()) {
            return Self::of_message(Some(m));
        }
        let mut message = status.message().to_owned();
        let mut source = std::error::Error::source(status);
        let ours = source.is_some(); // of this side: servers send none
        while let Some(error) = source {
            message = format!("{message}: {error}");
            source = error.source();
        }
        let kind = match status.code() {
            Code::Internal if message.starts_with("failed to decode Protobuf message") => ErrorKind::Internal,
            // A connection that breaks in the middle of a call ends it so, in some versions and proxies, without our
            // details. A call that this side cancels has nobody who would see its status.
            Code::Unavailable | Code::Internal | Code::Cancelled => ErrorKind::Unavailable,
            Code::Unknown if ours => ErrorKind::Unavailable,
            Code::ResourceExhausted => ErrorKind::Overloaded,
            Code::DeadlineExceeded => ErrorKind::Deadline,
            Code::InvalidArgument => ErrorKind::Invalid,
            Code::NotFound => ErrorKind::NotFound,
            Code::Unimplemented => ErrorKind::Version,
            Code::FailedPrecondition => ErrorKind::Refused,
            Code::Unauthenticated => ErrorKind::Unauthenticated,
            Code::PermissionDenied => ErrorKind::Denied,
            _ => ErrorKind::Internal,
        };
        Self::new(kind, message)
    }
}

fn kind_of_message(kind: proto::ErrorKind) -> ErrorKind {
    use proto::ErrorKind as Code;
    match kind {
        Code::Unavailable => ErrorKind::Unavailable,
        Code::Overloaded => ErrorKind::Overloaded,
        Code::ReadOnly => ErrorKind::ReadOnly,
        Code::SeriesLimit => ErrorKind::SeriesLimit,
        Code::SeriesRate => ErrorKind::SeriesRate,
        Code::BatchOld => ErrorKind::BatchOld,
        Code::Invalid | Code::Batch | Code::Key => ErrorKind::Invalid,
        Code::QueryLimit => ErrorKind::QueryLimit,
        Code::Cancelled => ErrorKind::Cancelled,
        Code::Deadline => ErrorKind::Deadline,
        Code::NotFound => ErrorKind::NotFound,
        Code::Refused => ErrorKind::Refused,
        Code::Version => ErrorKind::Version,
        Code::Unauthenticated => ErrorKind::Unauthenticated,
        Code::Denied => ErrorKind::Denied,
        _ => ErrorKind::Internal,
    }
}

/// A `google.rpc.Status`, as far as it is needed.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct RpcStatus {
    #[prost(message, repeated, tag = "3")]
    pub(crate) details: Vec<RpcDetail>,
}

/// A `google.protobuf.Any`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct RpcDetail {
    #[prost(string, tag = "1")]
    pub(crate) type_url: String,
    #[prost(bytes = "vec", tag = "2")]
    pub(crate) value: Vec<u8>,
}

/// Returns the `tickmesh.v1.Error` among the details of a status. Of bytes that are no details there is none.
fn detail_of(details: &[u8]) -> Option<proto::Error> {
    let status = RpcStatus::decode(details).ok()?;
    let detail = status
        .details
        .iter()
        .find(|d| d.type_url.ends_with("/tickmesh.v1.Error"))?;
    proto::Error::decode(detail.value.as_slice()).ok()
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed { message, .. } | Self::QueryLimit { message, .. } => f.write_str(message),
            Self::Partial { shards } => {
                write!(f, "the answer is not complete: {} shards do not answer", shards.len())
            }
            Self::Write(e) => e.fmt(f),
        }
    }
}

impl std::error::Error for Error {}

impl WriteError {
    /// Adds points that were not written, and why.
    pub(crate) fn add(&mut self, points: usize, cause: WriteCause) {
        self.points += points;
        self.total += 1;
        let at = match cause {
            WriteCause::Failed(_) => self.causes.partition_point(|c| matches!(c, WriteCause::Failed(_))),
            WriteCause::Refused(_) => self.causes.len(),
        };
        if at < CAUSES_MAX {
            self.causes.insert(at, cause);
            self.causes.truncate(CAUSES_MAX);
        }
    }

    /// Adds series that a server has refused.
    pub(crate) fn add_refused(&mut self, refused: Vec<RefusedSeries>) {
        for r in refused {
            self.add(r.points, WriteCause::Refused(r));
        }
    }

    /// Returns an error when something was added.
    pub(crate) fn into_result(self) -> Result<(), Error> {
        if self.total == 0 {
            return Ok(());
        }
        Err(Error::Write(Box::new(self)))
    }
}

impl fmt::Display for WriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} points may not have been written, {} errors",
            self.points, self.total
        )?;
        match self.causes.first() {
            Some(WriteCause::Failed(error)) => write!(f, ", the first: {error}"),
            Some(WriteCause::Refused(r)) => write!(f, ", the first: {} is refused: {}", r.series, r.error),
            None => Ok(()),
        }
    }
}

impl std::error::Error for WriteError {}

impl WriteCause {
    /// Returns the reason.
    pub fn error(&self) -> &Error {
        match self {
            Self::Refused(r) => &r.error,
            Self::Failed(error) => error,
        }
    }
}
