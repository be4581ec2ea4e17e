//! Tests against running servers.

mod standalone;

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tickmesh::*;

use crate::standalone::{Folder, Standalone, command};

type Contents = BTreeMap<Series, BTreeMap<i64, u64>>;

const WHOLE: std::ops::RangeInclusive<i64> = -TIME_MS_MAX..=TIME_MS_MAX;

/// Returns what a selector finds: bits of values by time, by series. No time may come twice.
async fn contents(client: &Client, selector: Selector) -> Contents {
    let mut found = Contents::new();
    let mut chunks = client.query(&Query::new(selector, WHOLE)).await.unwrap();
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.unwrap();
        assert_eq!(chunk.times_ms.len(), chunk.values.len());
        let samples = found.entry(chunk.series.clone()).or_default();
        for (time, value) in chunk.samples() {
            let twice = samples.insert(time, value.to_bits());
            assert_eq!(twice, None, "{} has {time} twice", chunk.series);
        }
    }
    found
}

/// Runs a test in a runtime of its own.
fn block_on<F: Future>(test: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build();
    runtime
        .unwrap()
        .block_on(async { tokio::time::timeout(Duration::from_secs(300), test).await.unwrap() })
}

/// A database of a server that the tests of this process share.
struct Database {
    client: Client,
    name: String,
}

/// Returns the server that the tests share. The last test to hold it ends it.
fn server() -> std::sync::Arc<Standalone> {
    static SHARED: std::sync::Mutex<std::sync::Weak<Standalone>> = std::sync::Mutex::new(std::sync::Weak::new());
    let mut shared = SHARED.lock().unwrap();
    shared.upgrade().unwrap_or_else(|| {
        let server = std::sync::Arc::new(Standalone::start(["--wal-sync", "interval"]));
        *shared = std::sync::Arc::downgrade(&server);
        server
    })
}

impl Database {
    fn new(server: &Standalone) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        Self {
            client: Client::builder([&server.address]).build().unwrap(),
            name: format!("db{}", COUNT.fetch_add(1, Ordering::Relaxed)),
        }
    }

    fn series(&self, metric: &str, tags: &[(&str, &str)]) -> Series {
        Series::new(metric, tags.iter().copied())
            .unwrap()
            .in_database(&self.name)
    }

    fn selector(&self, metric: &str) -> Selector {
        Selector::metric(metric).database(&self.name)
    }

    async fn contents(&self) -> Contents {
        contents(&self.client, Selector::all().database(&self.name)).await
    }
}

#[test]
fn what_was_written_comes_back_of_any_name_and_value() {
    let server = server();
    block_on(async {
        let db = Database::new(&server);
        let long = [b'x'; 100];
        let names: [&[u8]; 13] = [
            b"a",
            "ä".as_bytes(),
            b"\\",
            b",",
            b" ",
            b"=",
            b"\"",
            b"\n",
            b"\xff",
            "\u{feff}".as_bytes(),
            "😀".as_bytes(),
            b"7",
            &long,
        ];
        let payload = f64::from_bits(f64::NAN.to_bits() | 7);
        let values = [
            0.0,
            -0.0,
            0.1,
            5e-324,
            f64::MAX,
            f64::INFINITY,
            f64::NEG_INFINITY,
            f64::NAN,
            payload,
        ];
        let times = [0, 1, -1, 1_700_000_000_000, TIME_MS_MAX, -TIME_MS_MAX];
        let mut samples = Vec::new();
        let mut want = Contents::new();
        for (n, name) in names.iter().enumerate() {
            let other = names[(n * 5 + 3) % names.len()];
            let two = [(other.to_vec(), *name), ([name, &b"2"[..]].concat(), other)];
            let tags = if n % 3 == 0 { Vec::new() } else { two.to_vec() };
            let series = Series::new(name, tags).unwrap().in_database(&db.name);
            for (t, time) in times.iter().enumerate() {
                let value = values[(n + t) % values.len()];
                samples.push(Sample::new(&series, *time, value));
                want.entry(series.clone()).or_default().insert(*time, value.to_bits());
            }
        }
        db.client.write(samples).await.unwrap();
        assert_eq!(db.contents().await, want);
    });
}

#[test]
fn questions_are_answered_as_those_of_others() {
    let server = server();
    block_on(async {
        let db = Database::new(&server);
        let client = &db.client;
        let a = db.series("cpu", &[("host", "a"), ("zone", "x")]);
        let b = db.series("cpu", &[("host", "b")]);
        client
            .write((0..10).map(|t| Sample::new(&a, t * 1000, t as f64)))
            .await
            .unwrap();
        client
            .write((0..10).map(|t| Sample::new(&b, t * 1000, t as f64 + 100.0)))
            .await
            .unwrap();
        for (matcher, want) in [
            (Matcher::equal("host", "a"), vec![&a]),
            (Matcher::not_equal("host", "a"), vec![&b]),
            (Matcher::is_in("host", ["a", "b", "c"]), vec![&a, &b]),
            (Matcher::not_in("host", ["b"]), vec![&a]),
            (Matcher::matches("host", "[bc]"), vec![&b]),
            (Matcher::not_matches("host", "[bc]"), vec![&a]),
            (Matcher::present("zone"), vec![&a]),
            (Matcher::absent("zone"), vec![&b]),
        ] {
            let selector = db.selector("cpu").matching(matcher.clone());
            let mut found = client
                .series(&selector, 0, Read::new())
                .await
                .unwrap()
                .collect()
                .await
                .unwrap();
            found.sort();
            assert_eq!(found.iter().collect::<Vec<_>>(), want, "{matcher:?}");
        }
        let exact = db.selector("cpu").matching(Matcher::present("host")).exact();
        let found = client
            .series(&exact, 0, Read::new().allow_partial())
            .await
            .unwrap()
            .collect()
            .await
            .unwrap();
        assert_eq!(found, std::slice::from_ref(&b));
        let one = client
            .series(&db.selector("cpu"), 1, Read::new())
            .await
            .unwrap()
            .collect()
            .await
            .unwrap();
        assert_eq!(one.len(), 1);

        let aggregates = [
            Aggregate::Sum,
            Aggregate::Count,
            Aggregate::Min,
            Aggregate::Max,
            Aggregate::First,
            Aggregate::Last,
        ];
        let selector = db.selector("cpu").matching(Matcher::equal("host", "a"));
        let query = Query::new(selector, 1000..=9000).windows(Windows::new(5000, aggregates));
        let windows = client.query(&query).await.unwrap().collect().await.unwrap();
        let [w] = &windows[..] else { panic!("{windows:?}") };
        assert_eq!(
            (&w.times_ms[..], &w.counts[..], w.values.len()),
            (&[0, 5000][..], &[4, 5][..], 0)
        );
        let columns = [&w.sums, &w.mins, &w.maxs, &w.firsts, &w.lasts].map(|c| (c[0], c[1]));
        assert_eq!(columns, [(10.0, 35.0), (1.0, 5.0), (4.0, 9.0), (1.0, 5.0), (4.0, 9.0)]);

        let stale = Read::new().staleness_max(Duration::from_secs(60));
        let mut newest = client
            .last(&db.selector("cpu"), 0, stale)
            .await
            .unwrap()
            .collect()
            .await
            .unwrap();
        newest.sort_by_key(|s| s.series.clone());
        assert_eq!(newest, [Sample::new(&a, 9000, 9.0), Sample::new(&b, 9000, 109.0)]);
        let names = Names::new().database(&db.name);
        assert_eq!(client.metrics(&names).await.unwrap(), ["cpu"]);
        assert_eq!(client.tag_names("cpu", &names).await.unwrap(), ["host", "zone"]);
        assert_eq!(client.tag_names("", &names.clone().limit(1)).await.unwrap(), ["host"]);
        assert_eq!(
            client.tag_values("cpu", "host", &names.prefix("b")).await.unwrap(),
            ["b"]
        );
        assert_eq!(
            client.databases(&Names::new().prefix(&db.name).limit(1)).await.unwrap(),
            [&db.name[..]]
        );

        // Over HTTP, by another encoder.
        let path = format!("/api/query?db={}&start=8&end=9&m=sum:cpu{{host=b}}", db.name);
        assert_eq!(server.get(&path)[0]["dps"], serde_json::json!({"8": 108, "9": 109}));

        let selector = db.selector("cpu").matching(Matcher::equal("host", "b"));
        assert_eq!(client.delete(&selector, 0..=9000).await.unwrap(), 1);
        assert_eq!(db.contents().await.into_keys().collect::<Vec<_>>(), [a]);
    });
}

#[test]
fn errors_have_kinds_that_say_why() {
    let server = server();
    block_on(async {
        let db = Database::new(&server);
        let series = db.series("m", &[]);
        db.client
            .write((1..4).map(|t| Sample::new(&series, t, 2.0)))
            .await
            .unwrap();
        let query = Query::new(db.selector("m"), WHOLE).samples_max(2);
        let refused = match db.client.query(&query).await {
            Ok(answer) => answer.collect().await.unwrap_err(),
            Err(error) => error,
        };
        let Error::QueryLimit { what, limit: 2, .. } = &refused else {
            panic!("{refused:?}")
        };
        assert_eq!((what.as_str(), refused.kind()), ("samples", ErrorKind::QueryLimit));

        let wrong = Query::new(db.selector("m").matching(Matcher::matches("a", "(")), WHOLE);
        assert_eq!(db.client.query(&wrong).await.unwrap_err().kind(), ErrorKind::Invalid);
        for time in [TIME_MS_MAX + 1, i64::MIN, i64::MAX] {
            let error = db.client.write([Sample::new(&series, time, 1.0)]).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid);
        }
        assert_eq!(Series::without_tags("").unwrap_err().kind(), ErrorKind::Invalid);
        assert_eq!(Series::new("a", [("b", "")]).unwrap_err().kind(), ErrorKind::Invalid);
        assert_eq!(
            Series::new("a", [("b", "c"), ("b", "d")]).unwrap_err().kind(),
            ErrorKind::Invalid
        );

        let long = db.series("m", &[("t", &"x".repeat(10_000))]);
        let samples = [
            Sample::new(&series, 1, 1.0),
            Sample::new(&long, 1, 1.0),
            Sample::new(&long, 2, 1.0),
        ];
        let error = db.client.write(samples).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        let Error::Write(error) = error else {
            panic!("{error:?}")
        };
        let [WriteCause::Refused(refused)] = &error.causes[..] else {
            panic!("{error:?}")
        };
        assert_eq!(
            (error.points, error.total, refused.points, &refused.series),
            (2, 1, 2, &long)
        );
    });
}

#[test]
fn a_writer_keeps_the_order_and_its_bounds() {
    let server = server();
    block_on(async {
        let db = Database::new(&server);
        let writer = db
            .client
            .writer()
            .batch_points(7)
            .batch_bytes(500)
            .buffer_points(20)
            .build()
            .unwrap();
        let mut want = Contents::new();
        for i in 0..2000_i32 {
            let series = db.series("m", &[("n", &(i % 5).to_string())]);
            let time = i64::from(i * 7 % 20);
            writer.append(&series, time, i.into()).await.unwrap();
            assert!(writer.buffered() <= 20);
            want.entry(series).or_default().insert(time, f64::from(i).to_bits());
            if i % 500 == 0 {
                writer.flush().await.unwrap();
                assert_eq!(writer.buffered(), 0);
            }
        }
        writer.close().await.unwrap();
        assert_eq!(db.contents().await, want);
        let series = db.series("m", &[]);
        assert_eq!(
            writer.append(&series, 1, 1.0).await.unwrap_err().kind(),
            ErrorKind::Closed
        );
        assert_eq!(
            writer.try_append(&series, 1, 1.0).unwrap_err().kind(),
            ErrorKind::Closed
        );
        writer.close().await.unwrap();
    });
}

#[test]
fn tasks_share_a_writer_and_appends_may_be_dropped() {
    let server = server();
    block_on(async {
        let db = Database::new(&server);
        let writer = db.client.writer().batch_points(3).buffer_points(10).build().unwrap();
        let writer = std::sync::Arc::new(writer);
        let tasks: Vec<_> = (0..20)
            .map(|task| {
                let (writer, series) = (writer.clone(), db.series("m", &[]));
                tokio::spawn(async move {
                    let mut taken = Vec::new();
                    for i in 0..50 {
                        let time = task * 50 + i;
                        // One in five is not waited for at all where there is no room at once.
                        let patience = Duration::from_secs(if i % 5 == 0 { 0 } else { 300 });
                        if let Ok(result) = tokio::time::timeout(patience, writer.append(&series, time, 1.0)).await {
                            result.unwrap();
                            taken.push(time);
                        }
                        assert!(writer.buffered() <= 10);
                    }
                    taken
                })
            })
            .collect();
        let mut want = Vec::new();
        for task in tasks {
            want.extend(task.await.unwrap());
        }
        writer.close().await.unwrap();
        let found = db.contents().await;
        assert_eq!(found.values().flat_map(|s| s.keys().copied()).collect::<Vec<_>>(), want);
    });
}

#[test]
fn a_batch_that_is_old_is_sent() {
    let server = server();
    block_on(async {
        let db = Database::new(&server);
        let writer = db
            .client
            .writer()
            .batch_delay(Duration::from_millis(1))
            .build()
            .unwrap();
        writer.append(&db.series("m", &[]), 1, 1.0).await.unwrap();
        while writer.buffered() > 0 {
            tokio::task::yield_now().await;
        }
        assert_eq!(db.contents().await.len(), 1);
    });
}

#[test]
fn queries_and_writes_are_left_when_they_are_dropped() {
    let server = server();
    block_on(async {
        let db = Database::new(&server);
        let series = db.series("m", &[]);
        let samples = (0..300_000).map(|t| Sample::new(&series, t, t as f64 / 3.0));
        db.client.write(samples).await.unwrap();
        let query = Query::new(db.selector("m"), WHOLE);
        for _ in 0..100 {
            let mut answer = db.client.query(&query).await.unwrap();
            assert!(!answer.next().await.unwrap().unwrap().values.is_empty());
        }
        // More than a session may have open, had those that are dropped kept their ids.
        for t in 0..300 {
            let write = db.client.write([Sample::new(&series, t, 0.0)]);
            let _ = tokio::time::timeout(Duration::ZERO, write).await; // begun, and given up
        }
        db.client.write([Sample::new(&series, -1, 1.0)]).await.unwrap();
        assert_eq!(db.contents().await[&series].len(), 300_001);
    });
}

#[test]
fn a_server_is_found_beside_addresses_that_do_not_answer() {
    let server = server();
    block_on(async {
        let db = Database::new(&server);
        let client = Client::builder(["127.0.0.1:1", &server.address, "127.0.0.1:2"])
            .build()
            .unwrap();
        for t in 0..10 {
            client.write([Sample::new(&db.series("m", &[]), t, 1.0)]).await.unwrap();
        }
        assert_eq!(db.contents().await[&db.series("m", &[])].len(), 10);
    });
}

#[test]
fn the_example_runs_which_the_readme_shows() {
    let server = Standalone::start(["--wal-sync", "interval"]);
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    // Beside the tests, which are in deps.
    let example = std::env::current_exe()
        .unwrap()
        .parent()
        .unwrap()
        .join("../examples/quickstart");
    let out = std::process::Command::new(example)
        .env("TICKMESH_ENDPOINTS", &server.address)
        .output()
        .unwrap();
    assert_eq!(
        String::from_utf8_lossy(&out.stdout),
        "100000 points of cpu{host=a}\n",
        "{out:?}"
    );
    let source = std::fs::read_to_string(root.join("examples/quickstart.rs")).unwrap();
    let readme = std::fs::read_to_string(root.join("README.md")).unwrap();
    assert!(readme.contains(&format!("```rust,no_run\n{source}```")));
}

#[test]
fn a_server_that_is_killed_again_and_again_has_what_was_acknowledged_once() {
    let mut server = Standalone::start(["--wal-sync", "always"]);
    block_on(async {
        let client = Client::builder([&server.address])
            .write_timeout(Duration::from_secs(600))
            .retry_delay(Duration::from_millis(20), Duration::from_millis(100))
            .build()
            .unwrap();
        let series: Vec<_> = (0..3)
            .map(|n| Series::new("m", [("n", format!("{n}"))]).unwrap())
            .collect();
        let writer = client
            .writer()
            .batch_points(50)
            .buffer_points(500)
            .batch_delay(Duration::from_millis(5));
        let writer = writer.build().unwrap();
        let single = Series::without_tags("single").unwrap();
        let mut want = Contents::new();
        for kill in 0..3_i32 {
            let append = async {
                for i in kill * 2000..(kill + 1) * 2000 {
                    let s = &series[i as usize % 3];
                    writer.append(s, i.into(), f64::from(i) / 7.0).await.unwrap();
                }
            };
            let value = f64::from(kill) + 0.5;
            let down_ms = i64::from(100 + kill);
            let break_it = async {
                client.write([Sample::new(&single, kill.into(), value)]).await.unwrap();
                server.kill();
                let down = tokio::spawn({
                    let (client, sample) = (client.clone(), Sample::new(&single, down_ms, value));
                    async move { client.write([sample]).await }
                });
                server.start_again();
                down.await.unwrap().unwrap();
            };
            tokio::join!(append, break_it);
            for i in kill * 2000..(kill + 1) * 2000 {
                let of = want.entry(series[i as usize % 3].clone()).or_default();
                of.insert(i.into(), (f64::from(i) / 7.0).to_bits());
            }
            let singles = want.entry(single.clone()).or_default();
            singles.extend([(kill.into(), value.to_bits()), (down_ms, value.to_bits())]);
        }
        writer.close().await.unwrap();
        assert_eq!(contents(&client, Selector::all()).await, want);

        let points: usize = want.values().map(BTreeMap::len).sum();
        let windows = Query::new(Selector::all(), WHOLE).windows(Windows::new(1_000_000, [Aggregate::Count]));
        let counts = client.query(&windows).await.unwrap().collect().await.unwrap();
        assert_eq!(counts.iter().flat_map(|c| &c.counts).sum::<i64>(), points as i64);
    });
}

#[test]
fn a_repetition_is_not_written_over_what_came_after_it() {
    let mut server = Standalone::start(["--wal-sync", "always"]);
    block_on(async {
        let client = Client::builder([&server.address])
            .write_timeout(Duration::from_secs(600))
            .retry_delay(Duration::from_millis(20), Duration::from_millis(50))
            .build()
            .unwrap();
        let series = Series::without_tags("m").unwrap();
        for kill in 0..3 {
            let writer = client.writer().batch_points(1).buffer_points(100).build().unwrap();
            for i in 0..100 {
                writer.append(&series, kill, i.into()).await.unwrap();
            }
            server.kill();
            server.start_again();
            writer.close().await.unwrap();
        }
        let want: BTreeMap<_, _> = (0..3).map(|kill| (kill, 99_f64.to_bits())).collect();
        assert_eq!(
            contents(&client, Selector::all()).await,
            Contents::from([(series, want)])
        );
    });
}

#[test]
fn no_server_is_told_when_the_time_is_over() {
    block_on(async {
        let short = Duration::from_millis(200);
        let client = Client::builder(["127.0.0.1:1"])
            .write_timeout(short)
            .call_timeout(short)
            .build()
            .unwrap();
        let series = Series::without_tags("m").unwrap();
        let error = client.write([Sample::new(&series, 1, 1.0)]).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        let error = client.metrics(&Names::new()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");

        let writer = client.writer().batch_points(1).buffer_points(1).build().unwrap();
        writer.append(&series, 1, 1.0).await.unwrap();
        assert_eq!(
            writer.try_append(&series, 2, 1.0).unwrap_err().kind(),
            ErrorKind::BufferFull
        );
        let Error::Write(error) = writer.close().await.unwrap_err() else {
            panic!()
        };
        assert_eq!((error.points, error.total), (1, 1));
        writer.close().await.unwrap(); // told once

        // One that waits for room when the writer is closed has not been taken.
        let patient = Client::builder(["127.0.0.1:1"]).build().unwrap();
        let writer = patient.writer().batch_points(1).buffer_points(1).build().unwrap();
        writer.append(&series, 1, 1.0).await.unwrap();
        let (waits, closes) = tokio::join!(
            writer.append(&series, 2, 1.0),
            tokio::time::timeout(short, writer.close())
        );
        assert_eq!(waits.unwrap_err().kind(), ErrorKind::Closed);
        assert!(closes.is_err(), "it goes on");
        assert_eq!(writer.buffered(), 1);
    });
}

#[test]
fn answers_that_nobody_reads_are_in_nobodys_way() {
    let server = server();
    block_on(async {
        let db = Database::new(&server);
        let series = db.series("m", &[]);
        let samples = (0..300_000).map(|t| Sample::new(&series, t, t as f64 / 3.0));
        db.client.write(samples).await.unwrap();
        let query = Query::new(db.selector("m"), WHOLE);
        let mut answers = Vec::new();
        for _ in 0..12 {
            answers.push(db.client.query(&query).await.unwrap());
        }
        db.client.write([Sample::new(&series, -1, 1.0)]).await.unwrap();
        for answer in answers {
            let chunks = answer.collect().await.unwrap();
            assert_eq!(chunks.iter().map(|c| c.values.len()).sum::<usize>(), 300_000);
        }
    });
}

#[test]
fn a_write_may_wait_for_all_replicas() {
    let server = server();
    block_on(async {
        let db = Database::new(&server);
        let client = Client::builder([&server.address])
            .write_level(WriteLevel::All)
            .build()
            .unwrap();
        let series = db.series("m", &[]);
        client.write([Sample::new(&series, 1, 1.0)]).await.unwrap();
        let writer = client.writer().build().unwrap();
        writer.append(&series, 2, 2.0).await.unwrap();
        writer.close().await.unwrap();
        assert_eq!(db.contents().await[&series].len(), 2);
    });
}

/// A server with TLS, users and a token that may read.
struct Secure {
    server: Standalone,
    ca: Vec<u8>,
    token: String,
    files: Folder,
}

impl Secure {
    /// Starts it, to ask for certificates of clients or not.
    fn start(client_certificates: bool) -> Self {
        let files = Folder::new();
        let run = |args: &[&str]| {
            let out = command().args(args).output().unwrap();
            assert!(out.status.success(), "{args:?}: {out:?}");
            String::from_utf8(out.stdout).unwrap()
        };
        let made = run(&["auth", "token"]);
        let word = |name: &str| {
            let (_, rest) = made.split_once(name).unwrap();
            rest.split_whitespace().next().unwrap().to_owned()
        };
        let dir = files.join("certs");
        let roles = ["router/r1=127.0.0.1,localhost", "client/c1"];
        run(&[&["certs", "--dir", dir.to_str().unwrap()], &roles[..]].concat());
        let users = format!(
            "users:\n  - name: it\n    tokens: [{}]\n    rights: {{default: read}}\n",
            word("file:")
        );
        std::fs::write(dir.join("auth.yaml"), users).unwrap();
        let mut flags = Vec::new();
        let of_clients = client_certificates.then_some(("--tls-client-ca", "ca.crt"));
        let of_server = [
            ("--auth-file", "auth.yaml"),
            ("--tls-cert", "router-r1.crt"),
            ("--tls-key", "router-r1.key"),
        ];
        for (flag, file) in of_server.into_iter().chain(of_clients) {
            flags.extend([flag.to_owned(), dir.join(file).to_str().unwrap().to_owned()]);
        }
        Self {
            server: Standalone::start(flags),
            ca: std::fs::read(dir.join("ca.crt")).unwrap(),
            token: word("client:"),
            files,
        }
    }
}

#[test]
fn who_calls_is_shown_over_tls() {
    let secure = Secure::start(false);
    block_on(async {
        let builder = || Client::builder([&secure.server.address]).tls(Tls::new().ca(&secure.ca));
        let rotated = format!("{}\n", secure.token);
        for builder in [
            builder().token(&secure.token),
            builder().token_source(move || Ok(rotated.clone())),
        ] {
            let client = builder.build().unwrap();
            assert!(client.metrics(&Names::new()).await.unwrap().is_empty());
            let sample = Sample::new(&Series::without_tags("m").unwrap(), 1, 1.0);
            assert_eq!(client.write([sample]).await.unwrap_err().kind(), ErrorKind::Denied);
        }
        for builder in [builder(), builder().token("x"), builder().user("ann", "x")] {
            let error = builder.build().unwrap().metrics(&Names::new()).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unauthenticated, "{error}");
        }
        let no_token = builder()
            .token_source(|| Err(std::io::Error::other("no such file")))
            .build()
            .unwrap();
        let error = no_token.metrics(&Names::new()).await.unwrap_err();
        assert_eq!(
            (error.kind(), error.to_string().contains("no such file")),
            (ErrorKind::Internal, true)
        );

        // Another authority vouches for this server.
        let other = Client::builder([&secure.server.address])
            .tls(Tls::new())
            .token(&secure.token);
        let other = other.call_timeout(Duration::from_millis(200)).build().unwrap();
        let error = other.metrics(&Names::new()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    });
}

#[test]
fn servers_that_ask_are_shown_a_certificate() {
    let secure = Secure::start(true);
    let file = |name: &str| std::fs::read(secure.files.join("certs").join(name)).unwrap();
    block_on(async {
        let metrics = async |tls: Tls| {
            let builder = Client::builder([&secure.server.address]).tls(tls).token(&secure.token);
            let client = builder.call_timeout(Duration::from_secs(2)).build().unwrap();
            client.metrics(&Names::new()).await
        };
        let tls = Tls::new().ca(&secure.ca);
        let found = metrics(tls.clone().identity(file("client-c1.crt"), file("client-c1.key"))).await;
        assert!(found.unwrap().is_empty());
        let error = metrics(tls).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    });
}

#[test]
fn options_that_cannot_work_are_refused() {
    let here = ["127.0.0.1:1", "[::1]:1", "localhost:1"];
    let far = ["127.0.0.1:1", "router:1"];
    let of = |endpoints: &[&str]| Client::builder(endpoints.iter().copied());
    let credentials: [fn(ClientBuilder) -> ClientBuilder; 3] = [
        |b| b.token("x"),
        |b| b.token_source(|| Ok("x".to_owned())),
        |b| b.user("a", "b"),
    ];
    for with in credentials {
        with(of(&here)).build().unwrap();
        let error = with(of(&far)).build().unwrap_err();
        assert_eq!(
            (error.kind(), error.to_string().contains("insecure_credentials")),
            (ErrorKind::Options, true)
        );
        with(of(&far)).insecure_credentials().build().unwrap();
        with(of(&far)).tls(Tls::new()).build().unwrap();
    }
    let (second, none) = (Duration::from_secs(1), Duration::ZERO);
    for wrong in [
        of(&[]),
        of(&[""]),
        of(&["router"]),
        of(&[":1"]),
        of(&["router:1/path"]),
        of(&["router:1?query"]),
        of(&["router:99999"]),
        of(&["[::1]@router:1"]),
        of(&here).token("a b"),
        of(&here).token(""),
        of(&here).token("a\0"),
        of(&here).user("a:b", ""),
        of(&here).call_timeout(none),
        of(&here).retry_delay(second, none),
        of(&here).tls(Tls::new().ca("no certificate")),
        of(&here).tls(Tls::new().identity("no certificate", "no key")),
    ] {
        let text = format!("{wrong:?}");
        assert_eq!(wrong.build().expect_err(&text).kind(), ErrorKind::Options, "{text}");
    }
    let client = of(&here).build().unwrap();
    assert_eq!(
        client.writer().build().unwrap_err().kind(),
        ErrorKind::Options,
        "outside of a runtime"
    );
    block_on(async {
        for wrong in [
            client.writer().batch_points(0),
            client.writer().batch_points(50_001),
            client.writer().batch_bytes(0),
            client.writer().buffer_points(0),
        ] {
            assert_eq!(wrong.build().unwrap_err().kind(), ErrorKind::Options);
        }
    });
}
