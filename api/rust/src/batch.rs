use std::collections::HashMap;

use crate::error::{Error, RefusedSeries};
use crate::model::{Sample, Series};
use crate::proto;

/// Bounds of a batch, which fits a message.
pub(crate) const BATCH_POINTS_MAX: usize = 50_000;
pub(crate) const BATCH_BYTES_MAX: usize = 3 << 20;

/// Bytes of a sample: its value, handle and time, at most.
const SAMPLE_BYTES: usize = 8 + 4 + 10;

/// What became of a batch.
#[derive(Debug)]
pub(crate) struct Delivered {
    /// What a server refused.
    pub(crate) refused: Vec<RefusedSeries>,
    /// The points of which nobody knows whether they were written, and why.
    pub(crate) failed: Option<(usize, Error)>,
}

/// What a server has refused of a batch.
#[derive(Debug)]
pub(crate) struct Refusals {
    /// For now, to be sent again as a batch of its own, with why.
    pub(crate) again: Option<(Batch, Error)>,
    /// For ever.
    pub(crate) refused: Vec<RefusedSeries>,
}

/// Samples that are sent together, under one id.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    handles: HashMap<Series, u32>,
    series: Vec<Series>, // by handle
    of_sample: Vec<u32>, // handles
    deltas_ms: Vec<i64>,
    values: Vec<f64>,
    last_ms: i64,
    bytes: usize,
}

impl Batch {
    pub(crate) fn points(&self) -> usize {
        self.values.len()
    }

    /// Returns about how many bytes the message would have with another sample, at most.
    pub(crate) fn bytes_with(&self, series: &Series) -> usize {
        let definition = if self.handles.contains_key(series) {
            0
        } else {
            series.message_bytes()
        };
        self.bytes + SAMPLE_BYTES + definition
    }

    pub(crate) fn add(&mut self, Sample { series, time_ms, value }: Sample) {
        self.bytes = self.bytes_with(&series);
        let handle = match self.handles.get(&series) {
            Some(handle) => *handle,
            None => {
                let handle = self.series.len() as u32;
                self.series.push(series.clone());
                self.handles.insert(series, handle);
                handle
            }
        };
        self.of_sample.push(handle);
        self.deltas_ms.push(time_ms - self.last_ms);
        self.last_ms = time_ms;
        self.values.push(value);
    }

    pub(crate) fn to_message(&self, id: proto::BatchId, level: proto::WriteLevel) -> proto::Batch {
        let definitions = (0..).zip(&self.series).map(|(handle, series)| proto::SeriesHandle {
            handle,
            series: Some(series.to_message()),
        });
        proto::Batch {
            batch_id: Some(id),
            definitions: definitions.collect(),
            handles: self.of_sample.clone(),
            time_deltas_ms: self.deltas_ms.clone(),
            values: self.values.clone(),
            level: level.into(),
            hours: false,
        }
    }

    /// Returns what a server has refused of this batch.
    pub(crate) fn refusals(&self, result: proto::WriteResult) -> Refusals {
        let errors: HashMap<u32, Error> = result
            .refused
            .into_iter()
            .map(|r| (r.handle, Error::of_message(r.error)))
            .collect();
        let mut again = Batch::default();
        let mut why = None;
        let mut lost = HashMap::new(); // points by handle
        let mut time_ms = 0;
        for (i, handle) in self.of_sample.iter().enumerate() {
            time_ms += self.deltas_ms[i];
            match errors.get(handle) {
                Some(error) if !error.retry_after().is_zero() => {
                    again.add(Sample::new(&self.series[*handle as usize], time_ms, self.values[i]));
                    why = Some(error.clone());
                }
                Some(_) => *lost.entry(*handle).or_default() += 1,
                None => {}
            }
        }
        let mut lost: Vec<(u32, usize)> = lost.into_iter().collect();
        lost.sort_unstable();
        Refusals {
            again: why.map(|why| (again, why)),
            refused: lost
                .into_iter()
                .map(|(handle, points)| RefusedSeries {
                    series: self.series[handle as usize].clone(),
                    points,
                    error: errors[&handle].clone(),
                })
                .collect(),
        }
    }
}

/// Divides samples into batches that a message can hold. Errors: `Invalid`, for what no batch can hold.
pub(crate) struct Batches<I: Iterator<Item = Sample>> {
    samples: std::iter::Peekable<I>,
}

impl<I: Iterator<Item = Sample>> Batches<I> {
    pub(crate) fn new(samples: I) -> Self {
        Self {
            samples: samples.peekable(),
        }
    }
}

impl<I: Iterator<Item = Sample>> Iterator for Batches<I> {
    type Item = Result<Batch, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut batch = Batch::default();
        while let Some(sample) = self.samples.next_if(|sample| {
            batch.points() == 0
                || (batch.points() < BATCH_POINTS_MAX && batch.bytes_with(&sample.series) <= BATCH_BYTES_MAX)
        }) {
            if let Err(error) = sample.check() {
                return Some(Err(error));
            }
            batch.add(sample);
        }
        (batch.points() > 0).then_some(Ok(batch))
    }
}

#[cfg(test)]
mod tests {
    use prost::Message;

    use super::*;

    /// Checks that batches have all of the samples in order, none is larger than allowed, and none could take the first
    /// sample of the next by much.
    fn check(samples: &[Sample], full: impl Fn(usize, usize) -> bool) {
        let batches: Vec<_> = Batches::new(samples.iter().cloned()).map(Result::unwrap).collect();
        let mut found = Vec::new();
        for (n, batch) in batches.iter().enumerate() {
            let id = proto::BatchId {
                session: u64::MAX,
                counter: u64::MAX,
            };
            let message = batch.to_message(id, proto::WriteLevel::All);
            let bytes = message.encoded_len();
            assert!(
                bytes <= BATCH_BYTES_MAX && batch.points() <= BATCH_POINTS_MAX,
                "{bytes} bytes"
            );
            assert!(
                n + 1 == batches.len() || full(batch.points(), bytes),
                "{} points, {bytes} bytes",
                batch.points()
            );
            let mut time_ms = 0;
            for (i, handle) in message.handles.iter().enumerate() {
                time_ms += message.time_deltas_ms[i];
                let series = message.definitions[*handle as usize].series.clone().unwrap();
                found.push(Sample::new(
                    &Series::of_message(series).unwrap(),
                    time_ms,
                    message.values[i],
                ));
            }
        }
        assert!(batches.len() > 1);
        assert_eq!(found, samples);
    }

    #[test]
    fn a_write_is_divided_by_bytes() {
        let value = "x".repeat(1000);
        let samples: Vec<_> = (0..10_000)
            .map(|n| {
                let series = Series::new("m", [("n", &format!("{n}")), ("long", &value)]).unwrap();
                Sample::new(&series, if n % 2 == 0 { i64::MAX / 4 } else { -i64::MAX / 4 }, n.into())
            })
            .collect();
        check(&samples, |_, bytes| bytes > BATCH_BYTES_MAX / 10 * 9);
        let many_tags: Vec<_> = (0..2_000)
            .map(|n| {
                let tags = (0..300).map(|tag| (format!("{tag}"), format!("{n}")));
                Sample::new(&Series::new("m", tags).unwrap(), n, 0.0)
            })
            .collect();
        check(&many_tags, |_, bytes| bytes > BATCH_BYTES_MAX / 2);
    }

    #[test]
    fn a_write_is_divided_by_points() {
        let series = Series::without_tags("m").unwrap();
        let samples: Vec<_> = (0..120_000).map(|t| Sample::new(&series, t, 0.0)).collect();
        check(&samples, |points, _| points == BATCH_POINTS_MAX);
    }
}
