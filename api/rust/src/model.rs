use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use crate::error::{Error, ErrorKind};
use crate::name::Name;
use crate::proto;

/// Times are from `-TIME_MS_MAX` to `TIME_MS_MAX`, about 73 million years.
pub const TIME_MS_MAX: i64 = i64::MAX / 4;

/// The identity of a series. Clones share it: make it once and use it for all its samples.
///
/// ```
/// use tickmesh::Series;
///
/// let series = Series::new("cpu", [("host", "a"), ("zone", "x")])?;
/// assert_eq!(series.tag("host").unwrap(), "a");
/// assert_eq!(series.to_string(), "cpu{host=a,zone=x}");
/// # Ok::<(), tickmesh::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Series(Arc<Identity>);

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Identity {
    database: Name,
    metric: Name,
    tags: BTreeMap<Name, Name>,
}

impl Series {
    /// Returns a series of the default database. Errors: `Invalid` for an empty metric, for tags without a name or a
    /// value, and for two tags of one name.
    pub fn new<N, V>(metric: impl Into<Name>, tags: impl IntoIterator<Item = (N, V)>) -> Result<Self, Error>
    where
        N: Into<Name>,
        V: Into<Name>,
    {
        let invalid = |message: String| Error::new(ErrorKind::Invalid, message);
        let metric = metric.into();
        if metric.is_empty() {
            return Err(invalid("the series has no metric".to_owned()));
        }
        let mut all = BTreeMap::new();
        for (name, value) in tags {
            let (name, value) = (name.into(), value.into());
            if name.is_empty() || value.is_empty() {
                return Err(invalid(format!("tag {name:?}={value:?} lacks a name or a value")));
            }
            if let Some(other) = all.insert(name.clone(), value) {
                return Err(invalid(format!("tag {name:?} has two values, one is {other:?}")));
            }
        }
        Ok(Self(Arc::new(Identity {
            database: Name::default(),
            metric,
            tags: all,
        })))
    }

    /// Returns a series of the default database that has no tags. Errors: `Invalid` for an empty metric.
    pub fn without_tags(metric: impl Into<Name>) -> Result<Self, Error> {
        Self::new(metric, Vec::<(Name, Name)>::new())
    }

    /// Returns the same series in another database; the default one is empty.
    pub fn in_database(self, database: impl Into<Name>) -> Self {
        let mut identity = Arc::unwrap_or_clone(self.0);
        identity.database = database.into();
        Self(Arc::new(identity))
    }

    /// Returns its database; empty: the default one.
    pub fn database(&self) -> &Name {
        &self.0.database
    }

    /// Returns its metric.
    pub fn metric(&self) -> &Name {
        &self.0.metric
    }

    /// Returns its tags in order of their names.
    pub fn tags(&self) -> impl ExactSizeIterator<Item = (&Name, &Name)> {
        self.0.tags.iter()
    }

    /// Returns the value of a tag.
    pub fn tag(&self, name: &str) -> Option<&Name> {
        self.0.tags.get(name.as_bytes())
    }

    /// Returns about how many bytes it takes in a message, at most.
    pub(crate) fn message_bytes(&self) -> usize {
        let names = 32 + self.0.database.len() + self.0.metric.len();
        self.tags()
            .fold(names, |sum, (name, value)| sum + 12 + name.len() + value.len())
    }

    pub(crate) fn to_message(&self) -> proto::Series {
        proto::Series {
            database: self.0.database.to_vec(),
            metric: self.0.metric.to_vec(),
            tags: self
                .tags()
                .map(|(name, value)| proto::Tag {
                    name: name.to_vec(),
                    value: value.to_vec(),
                })
                .collect(),
        }
    }

    pub(crate) fn of_message(m: proto::Series) -> Result<Self, Error> {
        let tags = m.tags.into_iter().map(|tag| (tag.name, tag.value));
        Ok(Self::new(m.metric, tags)?.in_database(m.database))
    }
}

/// The series as `database/metric{name=value,…}`, for people.
impl fmt::Display for Series {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.database().is_empty() {
            write!(f, "{}/", self.database())?;
        }
        write!(f, "{}{{", self.metric())?;
        for (i, (name, value)) in self.tags().enumerate() {
            write!(f, "{}{name}={value}", if i == 0 { "" } else { "," })?;
        }
        f.write_str("}")
    }
}

impl fmt::Debug for Series {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// One value of a series at a time.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// The series.
    pub series: Series,
    /// Milliseconds since 1970 UTC.
    pub time_ms: i64,
    /// Any number; every bit of it comes back.
    pub value: f64,
}

impl Sample {
    /// Returns a sample.
    pub fn new(series: &Series, time_ms: i64, value: f64) -> Self {
        Self {
            series: series.clone(),
            time_ms,
            value,
        }
    }

    /// Errors: `Invalid` for what no batch can hold.
    pub(crate) fn check(&self) -> Result<(), Error> {
        if (-TIME_MS_MAX..=TIME_MS_MAX).contains(&self.time_ms) {
            return Ok(());
        }
        let message = format!(
            "the time of a sample of {} is {} ms: it is at most {TIME_MS_MAX} from 1970",
            self.series, self.time_ms
        );
        Err(Error::new(ErrorKind::Invalid, message))
    }
}

/// A part of one series, in order of time. With windows, `times_ms` has their starts, and the columns that were asked
/// for are as long; else `values` is.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Chunk {
    /// The series.
    pub series: Series,
    /// Milliseconds since 1970 UTC.
    pub times_ms: Vec<i64>,
    /// Values of samples.
    pub values: Vec<f64>,
    /// Sums of windows.
    pub sums: Vec<f64>,
    /// Numbers of samples of windows.
    pub counts: Vec<i64>,
    /// Smallest values of windows.
    pub mins: Vec<f64>,
    /// Largest values of windows.
    pub maxs: Vec<f64>,
    /// First values of windows.
    pub firsts: Vec<f64>,
    /// Last values of windows.
    pub lasts: Vec<f64>,
}

impl Chunk {
    /// Returns the samples: times in milliseconds since 1970 UTC, and values. With windows there are none.
    pub fn samples(&self) -> impl Iterator<Item = (i64, f64)> {
        self.times_ms.iter().copied().zip(self.values.iter().copied())
    }

    pub(crate) fn of_message(series: Series, columns: proto::Columns) -> Self {
        let mut time = 0_i64;
        let times_ms = columns.time_deltas_ms.iter().map(|delta| {
            time = time.wrapping_add(*delta);
            time
        });
        Self {
            times_ms: times_ms.collect(),
            series,
            values: columns.values,
            sums: columns.sums,
            counts: columns.counts,
            mins: columns.mins,
            maxs: columns.maxs,
            firsts: columns.firsts,
            lasts: columns.lasts,
        }
    }
}
