use std::ops::RangeInclusive;
use std::time::Duration;

use crate::name::Name;
use crate::proto;

/// Restricts series by one tag.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Matcher {
    name: Name,
    kind: proto::MatchKind,
    values: Vec<Name>,
}

impl Matcher {
    fn new(name: impl Into<Name>, kind: proto::MatchKind, values: impl IntoIterator<Item = impl Into<Name>>) -> Self {
        Self {
            name: name.into(),
            kind,
            values: values.into_iter().map(Into::into).collect(),
        }
    }

    /// The tag has this value; an empty value: or is not there.
    pub fn equal(name: impl Into<Name>, value: impl Into<Name>) -> Self {
        Self::new(name, proto::MatchKind::Equal, [value])
    }

    /// The tag has another value, or is not there.
    pub fn not_equal(name: impl Into<Name>, value: impl Into<Name>) -> Self {
        Self::new(name, proto::MatchKind::NotEqual, [value])
    }

    /// The tag has one of these values.
    pub fn is_in(name: impl Into<Name>, values: impl IntoIterator<Item = impl Into<Name>>) -> Self {
        Self::new(name, proto::MatchKind::In, values)
    }

    /// The tag has none of these values.
    pub fn not_in(name: impl Into<Name>, values: impl IntoIterator<Item = impl Into<Name>>) -> Self {
        Self::new(name, proto::MatchKind::NotIn, values)
    }

    /// The whole value matches an RE2 expression.
    pub fn matches(name: impl Into<Name>, expression: impl Into<Name>) -> Self {
        Self::new(name, proto::MatchKind::Regexp, [expression])
    }

    /// The whole value does not match an RE2 expression.
    pub fn not_matches(name: impl Into<Name>, expression: impl Into<Name>) -> Self {
        Self::new(name, proto::MatchKind::NotRegexp, [expression])
    }

    /// The series has the tag.
    pub fn present(name: impl Into<Name>) -> Self {
        Self::new(name, proto::MatchKind::Present, Vec::<Name>::new())
    }

    /// The series does not have the tag.
    pub fn absent(name: impl Into<Name>) -> Self {
        Self::new(name, proto::MatchKind::Absent, Vec::<Name>::new())
    }
}

/// Picks series.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[must_use]
pub struct Selector {
    database: Name,
    metric: Option<Name>,
    matchers: Vec<Matcher>,
    exact: bool,
}

impl Selector {
    /// Returns the series of a metric, in the default database.
    pub fn metric(metric: impl Into<Name>) -> Self {
        Self {
            metric: Some(metric.into()),
            ..Self::default()
        }
    }

    /// Returns all series of the default database.
    pub fn all() -> Self {
        Self::default()
    }

    /// Picks in another database.
    pub fn database(mut self, database: impl Into<Name>) -> Self {
        self.database = database.into();
        self
    }

    /// Leaves only series that match, too.
    pub fn matching(mut self, matcher: Matcher) -> Self {
        self.matchers.push(matcher);
        self
    }

    /// Leaves only series that have no other tags than those that matchers name.
    pub fn exact(mut self) -> Self {
        self.exact = true;
        self
    }

    pub(crate) fn to_message(&self) -> proto::Selector {
        let matchers = self.matchers.iter().map(|m| proto::Matcher {
            name: m.name.to_vec(),
            kind: m.kind.into(),
            values: m.values.iter().map(|value| value.to_vec()).collect(),
        });
        proto::Selector {
            database: self.database.to_vec(),
            metric: self.metric.as_deref().unwrap_or_default().to_vec(),
            metric_any: self.metric.is_none(),
            matchers: matchers.collect(),
            exact: self.exact,
        }
    }
}

/// A function over the samples of a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Aggregate {
    /// Their sum.
    Sum,
    /// Their number.
    Count,
    /// The smallest value.
    Min,
    /// The largest value.
    Max,
    /// The value of the first one.
    First,
    /// The value of the last one.
    Last,
}

impl Aggregate {
    fn to_message(self) -> proto::Aggregate {
        match self {
            Self::Sum => proto::Aggregate::Sum,
            Self::Count => proto::Aggregate::Count,
            Self::Min => proto::Aggregate::Min,
            Self::Max => proto::Aggregate::Max,
            Self::First => proto::Aggregate::First,
            Self::Last => proto::Aggregate::Last,
        }
    }
}

/// Asks for aggregates by window instead of samples. Window n starts at origin + n * width. NaN is left out, and a
/// window without any other sample, too.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub struct Windows {
    width_ms: i64,
    origin_ms: i64,
    aggregates: Vec<Aggregate>,
}

impl Windows {
    /// Returns windows of a width in milliseconds, with their origin at 1970 UTC.
    pub fn new(width_ms: i64, aggregates: impl IntoIterator<Item = Aggregate>) -> Self {
        Self {
            width_ms,
            origin_ms: 0,
            aggregates: aggregates.into_iter().collect(),
        }
    }

    /// Sets the origin, milliseconds since 1970 UTC.
    pub fn origin_ms(mut self, origin_ms: i64) -> Self {
        self.origin_ms = origin_ms;
        self
    }

    fn to_message(&self) -> proto::Windows {
        proto::Windows {
            origin_ms: self.origin_ms,
            width_ms: self.width_ms,
            aggregates: self.aggregates.iter().map(|a| a.to_message().into()).collect(),
            recorded_digests: false,
        }
    }
}

/// How an answer may be made. By default it has every write that was answered before, or is an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[must_use]
pub struct Read {
    staleness_max: Duration,
    allow_partial: bool,
}

impl Read {
    /// Returns the default.
    pub fn new() -> Self {
        Self::default()
    }

    /// Lets any full copy answer that is at most so far behind.
    pub fn staleness_max(mut self, staleness: Duration) -> Self {
        self.staleness_max = staleness;
        self
    }

    /// Lets shards be missing that nobody answers for. The last thing of such an answer is
    /// [`Error::Partial`](crate::Error::Partial).
    pub fn allow_partial(mut self) -> Self {
        self.allow_partial = true;
        self
    }

    fn freshness(&self) -> proto::Freshness {
        proto::Freshness {
            staleness_max_ms: self.staleness_max.as_millis().try_into().unwrap_or(u64::MAX),
        }
    }
}

/// Asks for samples, or windows, of the series that a selector picks.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub struct Query {
    selector: Selector,
    times_ms: RangeInclusive<i64>,
    windows: Option<Windows>,
    read: Read,
    series_max: i64,
    samples_max: i64,
    bytes_max: i64,
}

impl Query {
    /// Asks for samples of these times, milliseconds since 1970 UTC.
    pub fn new(selector: Selector, times_ms: RangeInclusive<i64>) -> Self {
        Self {
            selector,
            times_ms,
            windows: None,
            read: Read::default(),
            series_max: 0,
            samples_max: 0,
            bytes_max: 0,
        }
    }

    /// Asks for windows instead of samples.
    pub fn windows(mut self, windows: Windows) -> Self {
        self.windows = Some(windows);
        self
    }

    /// Says how the answer may be made.
    pub fn read(mut self, read: Read) -> Self {
        self.read = read;
        self
    }

    /// Bounds the series that are read; 0: as the server does.
    pub fn series_max(mut self, series: u32) -> Self {
        self.series_max = series.into();
        self
    }

    /// Bounds the samples that are read; 0: as the server does.
    pub fn samples_max(mut self, samples: i64) -> Self {
        self.samples_max = samples;
        self
    }

    /// Bounds the bytes that the query uses on each node; 0: as the server does.
    pub fn bytes_max(mut self, bytes: i64) -> Self {
        self.bytes_max = bytes;
        self
    }

    pub(crate) fn to_message(&self) -> proto::ScanRequest {
        proto::ScanRequest {
            selector: Some(self.selector.to_message()),
            from_ms: *self.times_ms.start(),
            to_ms: *self.times_ms.end(),
            windows: self.windows.as_ref().map(Windows::to_message),
            limits: Some(proto::ScanLimits {
                series_max: self.series_max,
                samples_max: self.samples_max,
                bytes_max: self.bytes_max,
            }),
            freshness: Some(self.read.freshness()),
            allow_partial: self.read.allow_partial,
            snapshot: String::new(),
        }
    }
}

pub(crate) fn last_message(selector: &Selector, from_ms: i64, read: Read) -> proto::LastRequest {
    proto::LastRequest {
        selector: Some(selector.to_message()),
        from_ms,
        limits: None,
        freshness: Some(read.freshness()),
        allow_partial: read.allow_partial,
    }
}

pub(crate) fn series_message(selector: &Selector, limit: u32, read: Read) -> proto::ListSeriesRequest {
    proto::ListSeriesRequest {
        selector: Some(selector.to_message()),
        limit,
        freshness: Some(read.freshness()),
        allow_partial: read.allow_partial,
    }
}

/// Restricts a list of names.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[must_use]
pub struct Names {
    database: Name,
    prefix: Name,
    limit: u32,
}

impl Names {
    /// Returns all names, of the default database.
    pub fn new() -> Self {
        Self::default()
    }

    /// Lists those of another database.
    pub fn database(mut self, database: impl Into<Name>) -> Self {
        self.database = database.into();
        self
    }

    /// Lists only names that start so.
    pub fn prefix(mut self, prefix: impl Into<Name>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// Lists at most so many, the first in order of their bytes; 0: all.
    pub fn limit(mut self, limit: u32) -> Self {
        self.limit = limit;
        self
    }

    pub(crate) fn to_message(&self, kind: proto::NameKind, metric: Name, tag: Name) -> proto::ListNamesRequest {
        proto::ListNamesRequest {
            kind: kind.into(),
            database: self.database.to_vec(),
            metric: metric.into(),
            tag_name: tag.into(),
            prefix: self.prefix.to_vec(),
            limit: self.limit,
            freshness: Some(Read::default().freshness()),
            snapshot: String::new(),
        }
    }
}
