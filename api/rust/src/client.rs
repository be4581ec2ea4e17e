use std::fmt;
use std::ops::RangeInclusive;
use std::sync::Arc;

use tokio::time::{Instant, timeout_at};

use crate::answer::{Answer, Page};
use crate::batch::{Batch, Batches, Delivered, Refusals};
use crate::calls::{Calls, Method, Waits};
use crate::endpoint::Endpoints;
use crate::error::{Error, ErrorKind, WriteCause, WriteError};
use crate::model::{Chunk, Sample, Series};
use crate::name::Name;
use crate::options::{Settings, WriteLevel};
use crate::proto::{self, NameKind};
use crate::query::{Names, Query, Read, Selector, last_message, series_message};
use crate::session::Session;

const WRITE: Method<proto::WriteRequest, proto::WriteResponse> = Method::new("/tickmesh.v1.WriteService/Write");
const SCAN: Method<proto::ScanRequest, proto::ScanResponse> = Method::new("/tickmesh.v1.QueryService/Scan");
const LAST: Method<proto::LastRequest, proto::LastResponse> = Method::new("/tickmesh.v1.QueryService/Last");
const LIST_SERIES: Method<proto::ListSeriesRequest, proto::ListSeriesResponse> =
    Method::new("/tickmesh.v1.QueryService/ListSeries");
const LIST_NAMES: Method<proto::ListNamesRequest, proto::ListNamesResponse> =
    Method::new("/tickmesh.v1.QueryService/ListNames");
const DELETE: Method<proto::DeleteRequest, proto::DeleteResponse> = Method::new("/tickmesh.v1.QueryService/Delete");

/// A connection to a cluster. Clones share it; it ends with the last of them.
///
/// It belongs to the Tokio runtime in which it is used first. The future of each call may be dropped: the call then
/// ends, and of a write nobody knows whether it was written.
#[derive(Clone)]
pub struct Client(pub(crate) Arc<Shared>);

/// What clones and writers share.
pub(crate) struct Shared {
    calls: Calls,
    session: Session, // of write
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("settings", &self.0.calls.settings)
            .finish_non_exhaustive()
    }
}

impl Client {
    pub(crate) fn of(endpoints: Endpoints, settings: Settings) -> Self {
        Self(Arc::new(Shared {
            calls: Calls::new(endpoints, settings),
            session: Session::new(),
        }))
    }

    /// Writes samples and waits for the answer; of equal series and time the last one counts.
    ///
    /// They go in batches that a message can hold, one after the other, each repeated with its id until the write
    /// timeout. Returns what the first batch that failed ended with: those before it are written, those after it are not
    /// sent. [`Error::Write`] where the server refused series, the failure, if any, being its first cause.
    pub async fn write<I>(&self, samples: I) -> Result<(), Error>
    where
        I: IntoIterator<Item = Sample>,
    {
        let mut lost = WriteError::default();
        for batch in Batches::new(samples.into_iter()) {
            let delivered = match batch {
                Ok(batch) => self.0.deliver(batch, &self.0.session).await,
                Err(error) => Delivered {
                    refused: Vec::new(),
                    failed: Some((0, error)),
                },
            };
            lost.add_refused(delivered.refused);
            if let Some((points, error)) = delivered.failed {
                if lost.total == 0 {
                    return Err(error);
                }
                lost.add(points, WriteCause::Failed(error));
                break;
            }
        }
        lost.into_result()
    }

    /// Returns samples, or windows, as they arrive; the chunks of one series come in order of time, without another
    /// series between. Until the first chunk it is tried again elsewhere, within the call timeout.
    pub async fn query(&self, query: &Query) -> Result<Answer<Chunk>, Error> {
        let opened = self.0.calls.stream(SCAN, &query.to_message()).await?;
        let mut series = None;
        Ok(Answer::new(opened, move |m: proto::ScanResponse| {
            let chunks = m.chunks.into_iter().map(|chunk| {
                if let Some(next) = chunk.series {
                    series = Some(Series::of_message(next)?);
                }
                match (&series, chunk.columns) {
                    (Some(series), Some(columns)) => Ok(Chunk::of_message(series.clone(), columns)),
                    _ => Err(Error::new(ErrorKind::Internal, "a chunk without a series or columns")),
                }
            });
            Ok(Page {
                items: chunks.collect::<Result<_, Error>>()?,
                shards_missing: m.shards_missing,
            })
        }))
    }

    /// Returns the newest sample, from a time on, of each series that matches, in no order.
    pub async fn last(&self, selector: &Selector, from_ms: i64, read: Read) -> Result<Answer<Sample>, Error> {
        let request = last_message(selector, from_ms, read);
        let opened = self.0.calls.stream(LAST, &request).await?;
        Ok(Answer::new(opened, |m: proto::LastResponse| {
            let samples = m.points.into_iter().map(|point| {
                let series = point
                    .series
                    .ok_or_else(|| Error::new(ErrorKind::Internal, "a sample without a series"))?;
                Ok(Sample::new(&Series::of_message(series)?, point.time_ms, point.value))
            });
            Ok(Page {
                items: samples.collect::<Result<_, Error>>()?,
                shards_missing: m.shards_missing,
            })
        }))
    }

    /// Returns the series that match, at most `limit` of them (0: all), in no order.
    pub async fn series(&self, selector: &Selector, limit: u32, read: Read) -> Result<Answer<Series>, Error> {
        let request = series_message(selector, limit, read);
        let opened = self.0.calls.stream(LIST_SERIES, &request).await?;
        Ok(Answer::new(opened, |m: proto::ListSeriesResponse| {
            Ok(Page {
                items: m.series.into_iter().map(Series::of_message).collect::<Result<_, _>>()?,
                shards_missing: m.shards_missing,
            })
        }))
    }

    /// Returns the databases that have series and that the caller may read. The database of `names` does not count.
    pub async fn databases(&self, names: &Names) -> Result<Vec<Name>, Error> {
        self.names(NameKind::Database, names, Name::default(), Name::default())
            .await
    }

    /// Returns the metrics of a database.
    pub async fn metrics(&self, names: &Names) -> Result<Vec<Name>, Error> {
        self.names(NameKind::Metric, names, Name::default(), Name::default())
            .await
    }

    /// Returns the names of the tags of a metric; an empty metric means all metrics.
    pub async fn tag_names(&self, metric: impl Into<Name>, names: &Names) -> Result<Vec<Name>, Error> {
        self.names(NameKind::TagName, names, metric.into(), Name::default())
            .await
    }

    /// Returns the values of a tag; an empty metric means all metrics, an empty tag all tags.
    pub async fn tag_values(
        &self,
        metric: impl Into<Name>,
        tag: impl Into<Name>,
        names: &Names,
    ) -> Result<Vec<Name>, Error> {
        self.names(NameKind::TagValue, names, metric.into(), tag.into()).await
    }

    async fn names(&self, kind: NameKind, names: &Names, metric: Name, tag: Name) -> Result<Vec<Name>, Error> {
        let request = names.to_message(kind, metric, tag);
        let opened = self.0.calls.stream(LIST_NAMES, &request).await?;
        let answer = Answer::new(opened, |m: proto::ListNamesResponse| {
            Ok(Page {
                items: m.names.into_iter().map(Name::from).collect(),
                shards_missing: Vec::new(),
            })
        });
        answer.collect().await
    }

    /// Hides the samples of these times, milliseconds since 1970 UTC, that were written before it. Returns the number
    /// of series that had some, or may have had.
    pub async fn delete(&self, selector: &Selector, times_ms: RangeInclusive<i64>) -> Result<u64, Error> {
        let request = proto::DeleteRequest {
            selector: Some(selector.to_message()),
            from_ms: *times_ms.start(),
            to_ms: *times_ms.end(),
        };
        let until = Instant::now() + self.0.calls.settings.call_timeout;
        let answer = self.0.calls.unary(DELETE, &request, until).await?;
        Ok(answer.series_touched.try_into().unwrap_or_default())
    }
}

impl Shared {
    /// Writes a batch, repeated with its id; what is refused for now follows in batches of its own.
    pub(crate) async fn deliver(&self, batch: Batch, session: &Session) -> Delivered {
        let until = Instant::now() + self.calls.settings.write_timeout;
        let mut waits = Waits::new(self.calls.settings.backoff, until);
        let mut refused = Vec::new();
        let mut rest = batch; // not yet answered for good
        let failed = loop {
            let Refusals {
                again,
                refused: of_batch,
            } = match self.write_batch(&rest, session, until).await {
                Ok(result) => rest.refusals(result),
                Err(error) => break Some((rest.points(), error)),
            };
            refused.extend(of_batch);
            let Some((batch, why)) = again else {
                break None;
            };
            rest = batch;
            if let Err(error) = waits.next(why).await {
                break Some((rest.points(), error));
            }
        };
        Delivered { refused, failed }
    }

    /// Writes a batch under one id.
    async fn write_batch(&self, batch: &Batch, session: &Session, until: Instant) -> Result<proto::WriteResult, Error> {
        let level = match self.calls.settings.write_level {
            WriteLevel::Majority => proto::WriteLevel::Unspecified,
            WriteLevel::All => proto::WriteLevel::All,
        };
        let id = timeout_at(until, session.take()).await.map_err(|_| {
            Error::new(
                ErrorKind::Deadline,
                "other writes of the client are in the way for too long",
            )
        })?;
        let request = proto::WriteRequest {
            batch: Some(batch.to_message(id.to_message(), level)),
        };
        let answer = self.calls.unary(WRITE, &request, until).await?;
        match answer.result {
            Some(result) if result.level() == level => Ok(result),
            _ => Err(Error::new(
                ErrorKind::Version,
                "the server does not know the level of the write; a majority has written it",
            )),
        }
    }
}
