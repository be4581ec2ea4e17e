//! Plays what all clients of TickMesh do alike; proto/README.md describes it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use h2::server::SendResponse;
use http::{HeaderMap, Response};
use prost::Message;
use serde_json::{Map, Value, json};
use tokio::net::TcpListener;

use crate::backoff::Backoff;
use crate::error::{RpcDetail, RpcStatus};
use crate::{
    Client, Error, ErrorKind, Query, Read, RefusedSeries, Sample, Selector, Series, WriteCause, WriteError, WriteLevel,
    Writer, proto,
};

/// Returns the vectors.
pub(crate) fn read() -> Value {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../proto/vectors/client.json");
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

/// Returns the vectors of one kind.
pub(crate) fn rows(kind: &str) -> Vec<Value> {
    read()[kind].as_array().unwrap().clone()
}

fn ms(v: &Value) -> Duration {
    Duration::from_millis(v.as_u64().unwrap_or(0))
}

#[test]
fn delays_follow_the_vectors() {
    for v in rows("delays") {
        let backoff = Backoff {
            min: ms(&v["min_ms"]),
            max: ms(&v["max_ms"]),
        };
        let failures = v["failures"].as_u64().unwrap() as u32;
        let delay = |random| backoff.delay(failures, ms(&v["retry_after_ms"]), random);
        assert_eq!(delay(0.0), ms(&v["most_ms"]), "{v}");
        assert_eq!(delay(1.0), ms(&v["least_ms"]), "{v}");
        let drawn = delay(crate::backoff::random_fraction());
        assert!(
            ms(&v["least_ms"]) <= drawn && drawn <= ms(&v["most_ms"]),
            "{v}: {drawn:?}"
        );
    }
}

/// What a server has received.
#[derive(Default)]
struct Received {
    batches: Vec<Value>,
    sessions: Vec<u64>,
}

fn kind_of(name: &Value) -> i32 {
    let name = format!("ERROR_KIND_{}", name.as_str().unwrap());
    proto::ErrorKind::from_str_name(&name).unwrap().into()
}

fn error_of(failure: &Value) -> proto::Error {
    proto::Error {
        kind: kind_of(&failure["error"]),
        message: failure["error"].to_string(),
        retry_after_ms: failure["retry_after_ms"].as_u64().unwrap_or(0) as u32,
        ..Default::default()
    }
}

/// Returns a message as gRPC frames it.
fn framed(message: &impl Message) -> Bytes {
    let body = message.encode_to_vec();
    [&[0][..], &(body.len() as u32).to_be_bytes(), &body].concat().into()
}

fn trailers(code: u32, details: Option<proto::Error>) -> HeaderMap {
    use base64::Engine;
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", code.into());
    if let Some(error) = details {
        let status = RpcStatus {
            details: vec![RpcDetail {
                type_url: "type.googleapis.com/tickmesh.v1.Error".to_owned(),
                value: error.encode_to_vec(),
            }],
        };
        let text = base64::engine::general_purpose::STANDARD_NO_PAD.encode(status.encode_to_vec());
        trailers.insert("grpc-status-details-bin", text.parse().unwrap());
    }
    trailers
}

fn answer(mut respond: SendResponse<Bytes>, body: Option<Bytes>, trailers: HeaderMap) {
    let head = Response::builder()
        .header("content-type", "application/grpc")
        .body(())
        .unwrap();
    let mut stream = respond.send_response(head, false).unwrap();
    if let Some(body) = body {
        stream.send_data(body, false).unwrap();
    }
    stream.send_trailers(trailers).unwrap();
}

/// Returns the samples of a batch: metric, time and value, and the handles by metric.
fn samples_of(batch: &proto::Batch) -> (Value, BTreeMap<String, u32>) {
    let metric = |d: &proto::SeriesHandle| String::from_utf8(d.series.clone().unwrap().metric).unwrap();
    let handles: BTreeMap<_, _> = batch.definitions.iter().map(|d| (metric(d), d.handle)).collect();
    let mut time = 0;
    let samples = batch.handles.iter().enumerate().map(|(i, handle)| {
        let definition = batch.definitions.iter().find(|d| d.handle == *handle).unwrap();
        time += batch.time_deltas_ms[i];
        json!([metric(definition), time, batch.values[i]])
    });
    (samples.collect(), handles)
}

/// Answers a write as a vector says.
fn write(vector: &Value, received: &Mutex<Received>, message: &[u8], mut respond: SendResponse<Bytes>) {
    let batch = proto::WriteRequest::decode(message).unwrap().batch.unwrap();
    let id = batch.batch_id.unwrap();
    let (samples, handles) = samples_of(&batch);
    let mut received = received.lock().unwrap();
    let next = &vector["answers"][received.batches.len()];
    received
        .batches
        .push(json!({"counter": id.counter, "samples": samples}));
    received.sessions.push(id.session);
    if next.is_null() {
        answer(respond, None, trailers(15, None)); // DATA_LOSS: an attempt too many
    } else if let Some(code) = next["code"].as_str() {
        let code = match code {
            "UNAVAILABLE" => 14,
            "INTERNAL" => 13,
            _ => panic!("no number of {code}"),
        };
        answer(respond, None, trailers(code, None));
    } else if next["error"].is_string() {
        // UNKNOWN: clients go by the Error.
        answer(respond, None, trailers(2, Some(error_of(next))));
    } else if next["silent"] == true {
        tokio::spawn(async move { std::future::poll_fn(|context| respond.poll_reset(context)).await });
    } else {
        let none = Map::new();
        let refused = next["refused"].as_object().unwrap_or(&none).iter();
        let result = proto::WriteResult {
            copies: 1,
            refused: refused
                .map(|(metric, failure)| proto::RefusedSeries {
                    handle: handles[metric],
                    error: Some(error_of(failure)),
                })
                .collect(),
            level: 0,
        };
        let response = proto::WriteResponse { result: Some(result) };
        answer(respond, Some(framed(&response)), trailers(0, None));
    }
}

/// Returns an answer of two messages that lacks two shards.
fn partial_scan() -> Bytes {
    let chunk = |series, value| proto::SeriesChunk {
        series,
        columns: Some(proto::Columns {
            time_deltas_ms: vec![1],
            values: vec![value],
            ..Default::default()
        }),
    };
    let first = proto::ScanResponse {
        chunks: vec![chunk(Some(Series::without_tags("m").unwrap().to_message()), 1.0)],
        ..Default::default()
    };
    let last = proto::ScanResponse {
        chunks: vec![chunk(None, 2.0)],
        shards_missing: vec![3, 5],
        ..Default::default()
    };
    [framed(&first), framed(&last)].concat().into()
}

/// Serves the calls of one connection.
async fn serve(stream: tokio::net::TcpStream, vector: Arc<Value>, received: Arc<Mutex<Received>>) {
    let mut connection = h2::server::handshake(stream).await.unwrap();
    while let Some(Ok((request, respond))) = connection.accept().await {
        let (vector, received) = (vector.clone(), received.clone());
        tokio::spawn(async move {
            let (head, mut body) = request.into_parts();
            let mut bytes = Vec::new();
            while let Some(Ok(data)) = body.data().await {
                body.flow_control().release_capacity(data.len()).unwrap();
                bytes.extend_from_slice(&data);
            }
            match head.uri.path() {
                "/tickmesh.v1.WriteService/Write" => write(&vector, &received, &bytes[5..], respond),
                "/tickmesh.v1.QueryService/Scan" => answer(respond, Some(partial_scan()), trailers(0, None)),
                _ => answer(
                    respond,
                    Some(framed(&proto::GetServerInfoResponse::default())),
                    trailers(0, None),
                ),
            }
        });
    }
}

/// Plays a vector's server and returns where it listens, and what it receives.
async fn play(vector: Value) -> (String, Arc<Mutex<Received>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let received = Arc::new(Mutex::default());
    let (vector, all) = (Arc::new(vector), Arc::clone(&received));
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream, vector.clone(), all.clone()));
        }
    });
    (address, received)
}

fn kind_text(error: &Error) -> String {
    let mut text = String::new();
    for c in format!("{:?}", error.kind()).chars() {
        if c.is_uppercase() && !text.is_empty() {
            text.push('_');
        }
        text.push(c.to_ascii_uppercase());
    }
    text
}

fn outcome_of(result: Result<(), Error>) -> Value {
    let causes = match result {
        Ok(()) => return json!({}),
        Err(Error::Write(e)) => e.causes,
        Err(error) => return json!({"error": kind_text(&error)}),
    };
    let mut refused = Map::new();
    for cause in causes {
        match cause {
            WriteCause::Failed(error) => return json!({"error": kind_text(&error)}),
            WriteCause::Refused(r) => {
                let why = json!({"points": r.points, "error": kind_text(&r.error)});
                refused.insert(r.series.metric().to_string(), why);
            }
        }
    }
    json!({"refused": refused})
}

fn samples_to_write(rows: &Value) -> Vec<Sample> {
    let rows = rows.as_array().unwrap().iter();
    rows.map(|row| {
        let series = Series::without_tags(row[0].as_str().unwrap()).unwrap();
        Sample::new(&series, row[1].as_i64().unwrap(), row[2].as_f64().unwrap())
    })
    .collect()
}

async fn append_all(writer: &Writer, samples: Vec<Sample>) -> Result<(), Error> {
    for s in samples {
        writer.append(&s.series, s.time_ms, s.value).await?;
    }
    writer.flush().await
}

/// Returns a value with all numbers as floating point, as 1 and 1.0 are the same value of a sample.
fn as_floats(v: &Value) -> Value {
    match v {
        Value::Number(n) => json!(n.as_f64()),
        Value::Array(all) => all.iter().map(as_floats).collect(),
        Value::Object(all) => all.iter().map(|(k, v)| (k.clone(), as_floats(v))).collect(),
        v => v.clone(),
    }
}

async fn retry(vector: Value, through_writer: bool) {
    let (address, received) = play(vector.clone()).await;
    let long = Duration::from_secs(600);
    let client = Client::builder([address])
        .attempt_timeout(
            vector["attempt_timeout_ms"]
                .as_u64()
                .map_or(long, Duration::from_millis),
        )
        .write_timeout(long)
        .retry_delay(Duration::from_millis(1), Duration::from_millis(5))
        .build()
        .unwrap();
    let writer = client.writer().build().unwrap();
    let mut outcomes = Vec::new();
    for rows in vector["writes"].as_array().unwrap() {
        let samples = samples_to_write(rows);
        let result = if through_writer {
            append_all(&writer, samples).await
        } else {
            client.write(samples).await
        };
        outcomes.push(outcome_of(result));
    }
    let received = received.lock().unwrap();
    let name = &vector["name"];
    assert_eq!(
        as_floats(&json!(received.batches)),
        as_floats(&vector["received"]),
        "{name}"
    );
    assert_eq!(as_floats(&json!(outcomes)), as_floats(&vector["outcomes"]), "{name}");
    assert_ne!(received.sessions[0], 0, "{name}");
    assert!(received.sessions.iter().all(|s| *s == received.sessions[0]), "{name}");
}

#[tokio::test]
async fn writes_are_repeated_as_the_vectors_say() {
    for vector in rows("retries") {
        retry(vector, false).await;
    }
}

#[tokio::test]
async fn batches_of_a_writer_are_repeated_as_the_vectors_say() {
    for vector in rows("retries") {
        retry(vector, true).await;
    }
}

#[tokio::test]
async fn what_an_answer_lacks_comes_after_what_it_has() {
    let (address, _) = play(json!({})).await;
    let client = Client::builder([address]).build().unwrap();
    let query = Query::new(Selector::metric("m"), 0..=9).read(Read::new().allow_partial());
    let mut answer = client.query(&query).await.unwrap();
    for want in [1.0, 2.0] {
        let chunk = answer.next().await.unwrap().unwrap();
        assert_eq!((chunk.series.metric() == "m", &chunk.values[..]), (true, &[want][..]));
    }
    let error = answer.next().await.unwrap().unwrap_err();
    let Error::Partial { shards } = &error else {
        panic!("{error:?}")
    };
    assert_eq!((&shards[..], error.kind()), (&[3, 5][..], ErrorKind::Partial));
    assert!(answer.next().await.is_none());
    let collected = client.query(&query).await.unwrap().collect().await;
    assert_eq!(collected.unwrap_err().kind(), ErrorKind::Partial);
}

#[tokio::test]
async fn a_level_that_a_server_does_not_know_is_told() {
    let (address, received) = play(json!({"answers": [{}]})).await;
    let client = Client::builder([address]).write_level(WriteLevel::All).build().unwrap();
    let sample = Sample::new(&Series::without_tags("m").unwrap(), 1, 1.0);
    assert_eq!(client.write([sample]).await.unwrap_err().kind(), ErrorKind::Version);
    assert_eq!(received.lock().unwrap().batches.len(), 1);
}

#[tokio::test]
async fn refusals_are_told_with_the_failure_that_came_after_them() {
    let (address, received) = play(json!({"answers": [{"refused": {"a": {"error": "SERIES_LIMIT"}}}]})).await;
    let client = Client::builder([address]).build().unwrap();
    let series = Series::without_tags("a").unwrap();
    let times = (0..50_000).chain([i64::MAX]);
    let result = client.write(times.map(|t| Sample::new(&series, t, 1.0))).await;
    let Err(Error::Write(error)) = result else {
        panic!("{result:?}")
    };
    let kinds: Vec<_> = error.causes.iter().map(|c| c.error().kind()).collect();
    assert_eq!((error.points, error.total), (50_000, 2));
    assert_eq!(kinds, [ErrorKind::Invalid, ErrorKind::SeriesLimit]);
    assert_eq!(received.lock().unwrap().batches.len(), 1);
}

#[test]
fn causes_are_bounded_and_failures_come_first() {
    let refused = || RefusedSeries {
        series: Series::without_tags("m").unwrap(),
        points: 2,
        error: Error::new(ErrorKind::SeriesLimit, ""),
    };
    let mut lost = WriteError::default();
    lost.add_refused((0..20).map(|_| refused()).collect());
    for message in ["first", "second"] {
        lost.add(1, WriteCause::Failed(Error::new(ErrorKind::Unavailable, message)));
    }
    lost.add_refused(vec![refused()]);
    assert_eq!((lost.points, lost.total, lost.causes.len()), (44, 23, 16));
    let first: Vec<_> = lost.causes.iter().map(|c| c.error().to_string()).take(3).collect();
    assert_eq!(first, ["first", "second", ""]);
}

#[tokio::test]
async fn a_writer_whose_task_ends_keeps_nobody_waiting() {
    let (address, _) = play(json!({})).await;
    let client = Client::builder([address])
        .token_source(|| panic!("of the source"))
        .build()
        .unwrap();
    let writer = client.writer().batch_points(1).buffer_points(1).build().unwrap();
    let series = Series::without_tags("m").unwrap();
    writer.append(&series, 1, 1.0).await.unwrap();
    assert_eq!(
        writer.append(&series, 2, 1.0).await.unwrap_err().kind(),
        ErrorKind::Closed
    );
    assert_eq!(writer.close().await.unwrap_err().kind(), ErrorKind::Internal);
}

#[tokio::test]
async fn no_duration_is_too_long() {
    let (address, _) = play(json!({"answers": [{"code": "UNAVAILABLE"}, {}, {}]})).await;
    let client = Client::builder([address])
        .attempt_timeout(Duration::MAX)
        .write_timeout(Duration::MAX)
        .call_timeout(Duration::MAX)
        .retry_delay(Duration::from_millis(1), Duration::MAX)
        .build()
        .unwrap();
    let series = Series::without_tags("m").unwrap();
    client.write([Sample::new(&series, 1, 1.0)]).await.unwrap();
    assert!(client.query(&Query::new(Selector::all(), 0..=9)).await.is_ok());
    let writer = client.writer().batch_delay(Duration::MAX).build().unwrap();
    writer.append(&series, 1, 1.0).await.unwrap();
    writer.close().await.unwrap();
    let slow = Client::builder(["127.0.0.1:1"])
        .retry_delay(Duration::MAX, Duration::MAX)
        .build()
        .unwrap();
    let error = slow.write([Sample::new(&series, 1, 1.0)]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
}
