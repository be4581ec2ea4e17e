//! A `tickmesh standalone` with a folder of its own, which may be killed and started again.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::Value;

/// Returns a command of the program.
pub(crate) fn command() -> Command {
    let built = concat!(env!("CARGO_MANIFEST_DIR"), "/../../bin/tickmesh").into();
    Command::new(std::env::var_os("TICKMESH_BINARY").unwrap_or(built))
}

/// A folder that is removed at the end.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub(crate) fn join(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0); // what is left is only in the way
    }
}

pub(crate) struct Standalone {
    folder: Folder,
    flags: Vec<String>,
    process: Option<Child>,
    /// Of its gRPC port: chosen at the first start, kept after.
    pub(crate) address: String,
    pub(crate) http: String,
}

impl Standalone {
    /// Starts it and waits until it listens.
    pub(crate) fn start(flags: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let mut server = Self {
            folder: Folder::new(),
            flags: flags.into_iter().map(Into::into).collect(),
            process: None,
            address: "127.0.0.1:0".to_owned(),
            http: "127.0.0.1:0".to_owned(),
        };
        server.start_again();
        server
    }

    pub(crate) fn start_again(&mut self) {
        let mut process = command()
            .arg("standalone")
            .arg("--data-dir")
            .arg(self.folder.join("data"))
            .args(["--log-format", "json", "--put-addr", "", "--line-addr", ""])
            .args(["--http-addr", &self.http, "--grpc-addr", &self.address])
            .args(&self.flags)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("bin/tickmesh is built by `go build -o bin/tickmesh .`");
        let mut lines = BufReader::new(process.stderr.take().unwrap()).lines();
        self.process = Some(process);
        let mut log = Vec::new();
        let (mut http, mut grpc) = (None, None);
        while http.is_none() || grpc.is_none() {
            let Some(Ok(line)) = lines.next() else {
                panic!("the server ended:\n{}", log.join("\n"));
            };
            let entry: Value = serde_json::from_str(&line).unwrap_or_default();
            if entry["msg"] == "listening" {
                let address = entry["address"].as_str().map(str::to_owned);
                match entry["port"].as_str() {
                    Some("http") => http = address,
                    Some("grpc") => grpc = address,
                    _ => {}
                }
            }
            log.push(line);
        }
        (self.http, self.address) = (http.unwrap(), grpc.unwrap());
        std::thread::spawn(move || lines.for_each(drop)); // read on, so that the server may write
    }

    /// Kills it with all that it holds in memory, and waits for its end.
    pub(crate) fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill().unwrap();
            process.wait().unwrap();
        }
    }

    /// Returns the answer to a GET over HTTP, without its head.
    pub(crate) fn get(&self, path: &str) -> Value {
        let mut stream = TcpStream::connect(&self.http).unwrap();
        write!(stream, "GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (_, body) = answer.split_once("\r\n\r\n").unwrap();
        serde_json::from_str(body).unwrap_or_else(|e| panic!("{e}: {answer}"))
    }
}

impl Drop for Standalone {
    fn drop(&mut self) {
        self.kill();
    }
}
