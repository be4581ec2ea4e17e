#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod answer;
mod backoff;
mod batch;
mod builder;
mod calls;
mod client;
mod connect;
mod endpoint;
mod error;
mod model;
mod name;
mod options;
#[allow(dead_code, missing_docs, unreachable_pub, clippy::all)] // generated, and only a part is used
#[rustfmt::skip]
mod proto;
mod query;
mod session;
#[cfg(test)]
mod vectors;
mod writer;

pub use answer::Answer;
pub use builder::ClientBuilder;
pub use client::Client;
pub use error::{Error, ErrorKind, RefusedSeries, WriteCause, WriteError};
pub use model::{Chunk, Sample, Series, TIME_MS_MAX};
pub use name::Name;
pub use options::{Tls, WriteLevel};
pub use query::{Aggregate, Matcher, Names, Query, Read, Selector, Windows};
pub use writer::{Writer, WriterBuilder};
