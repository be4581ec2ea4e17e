use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, Semaphore, TryAcquireError, watch};
use tokio::task::AbortHandle;
use tokio::time::{Instant, timeout_at};

use crate::batch::{BATCH_BYTES_MAX, BATCH_POINTS_MAX, Batch, Delivered};
use crate::client::{Client, Shared};
use crate::error::{Error, ErrorKind, WriteCause, WriteError};
use crate::model::{Sample, Series};
use crate::options::DURATION_MAX;
use crate::session::Session;

/// Options of a [`Writer`], which [`WriterBuilder::build`] makes.
#[derive(Clone)]
#[must_use]
pub struct WriterBuilder {
    client: Arc<Shared>,
    batch_points: usize,
    batch_bytes: usize,
    batch_delay: Duration,
    buffer_points: Option<usize>,
}

impl Client {
    /// Begins the options of a [`Writer`], which gathers samples into batches and sends them in the
    /// background.
    pub fn writer(&self) -> WriterBuilder {
        WriterBuilder::new(self.0.clone())
    }
}

impl fmt::Debug for WriterBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WriterBuilder").finish_non_exhaustive()
    }
}

impl WriterBuilder {
    pub(crate) fn new(client: Arc<Shared>) -> Self {
        Self {
            client,
            batch_points: 10_000,
            batch_bytes: 1 << 20,
            batch_delay: Duration::from_secs(1),
            buffer_points: None,
        }
    }

    /// A batch is sent when it has so many samples; default 10,000.
    pub fn batch_points(mut self, points: usize) -> Self {
        self.batch_points = points;
        self
    }

    /// Or about so many bytes; default 1 MiB.
    pub fn batch_bytes(mut self, bytes: usize) -> Self {
        self.batch_bytes = bytes;
        self
    }

    /// Or is so old; default 1 s.
    pub fn batch_delay(mut self, delay: Duration) -> Self {
        self.batch_delay = delay;
        self
    }

    /// Bounds the samples that the writer holds, those on their way too; default ten batches.
    pub fn buffer_points(mut self, points: usize) -> Self {
        self.buffer_points = Some(points);
        self
    }

    /// Returns the writer. Errors: `Options`, also outside of a Tokio runtime.
    pub fn build(self) -> Result<Writer, Error> {
        let wrong = |message| Err(Error::new(ErrorKind::Options, message));
        let buffer_points = self.buffer_points.unwrap_or(self.batch_points.saturating_mul(10));
        for (name, value, max) in [
            ("batch_points", self.batch_points, BATCH_POINTS_MAX),
            ("batch_bytes", self.batch_bytes, BATCH_BYTES_MAX),
            ("buffer_points", buffer_points, u32::MAX as usize),
        ] {
            if !(1..=max).contains(&value) {
                return wrong(format!("{name} is {value}, want 1 to {max}"));
            }
        }
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return wrong("a writer works within a Tokio runtime".to_owned());
        };
        let (ended, ends) = watch::channel(0);
        let buffer = Arc::new(Buffer {
            batch_points: self.batch_points,
            batch_bytes: self.batch_bytes,
            batch_delay: self.batch_delay.min(DURATION_MAX),
            points: buffer_points,
            room: Semaphore::new(buffer_points),
            state: Mutex::default(),
            changed: Notify::new(),
        });
        let sending = runtime.spawn(send(buffer.clone(), self.client, ended)).abort_handle();
        Ok(Writer { buffer, ends, sending })
    }
}

/// Gathers samples into batches and sends them one after the other, so that of two samples with one series and time the
/// later one counts. [`Client::writer`] makes it.
///
/// Its memory is bounded: it holds at most `buffer_points` samples. Dropping it gives up those that it holds: close it
/// before.
#[must_use]
pub struct Writer {
    buffer: Arc<Buffer>,
    ends: watch::Receiver<u64>, // of batches, written or given up
    sending: AbortHandle,
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.sending.abort();
    }
}

impl fmt::Debug for Writer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Writer")
            .field("buffered", &self.buffered())
            .finish_non_exhaustive()
    }
}

fn closed() -> Error {
    Error::new(ErrorKind::Closed, "the writer is closed")
}

impl Writer {
    /// Returns the number of samples that the writer holds.
    pub fn buffered(&self) -> usize {
        self.buffer.state().points
    }

    /// Takes a sample; waits while the buffer is full. What becomes of the sample is told by `flush` and `close`. Errors:
    /// `Invalid`, `Closed`.
    ///
    /// When the future is dropped, the sample has not been taken.
    pub async fn append(&self, series: &Series, time_ms: i64, value: f64) -> Result<(), Error> {
        let sample = Sample::new(series, time_ms, value);
        sample.check()?;
        self.buffer.room.acquire().await.map_err(|_| closed())?.forget();
        self.buffer.add(sample)
    }

    /// Takes a sample if there is room. Errors: `Invalid`, `Closed`, `BufferFull`.
    pub fn try_append(&self, series: &Series, time_ms: i64, value: f64) -> Result<(), Error> {
        let sample = Sample::new(series, time_ms, value);
        sample.check()?;
        match self.buffer.room.try_acquire() {
            Ok(room) => room.forget(),
            Err(TryAcquireError::Closed) => return Err(closed()),
            Err(TryAcquireError::NoPermits) => {
                let message = format!("{} samples wait to be written", self.buffered());
                return Err(Error::new(ErrorKind::BufferFull, message));
            }
        }
        self.buffer.add(sample)
    }

    /// Sends what is gathered and waits until every sample that was taken before is written or given up. Errors:
    /// [`Error::Write`] when some were given up since that was told last.
    ///
    /// When the future is dropped, they are sent all the same.
    pub async fn flush(&self) -> Result<(), Error> {
        let target = {
            let mut state = self.buffer.state();
            self.buffer.submit(&mut state);
            state.submitted
        };
        self.wait(target).await
    }

    /// Takes no more samples, sends what it holds and waits for that, each batch for at most the client's write timeout.
    /// Errors: [`Error::Write`], as `flush`. A second call waits, too.
    ///
    /// When the future is dropped, for its time is over, say, they are sent all the same until the writer is dropped.
    pub async fn close(&self) -> Result<(), Error> {
        let target = {
            let mut state = self.buffer.state();
            self.buffer.submit(&mut state);
            state.closed = true;
            self.buffer.room.close();
            self.buffer.changed.notify_one();
            state.submitted
        };
        self.wait(target).await
    }

    /// Waits until so many batches have ended, and tells what was lost.
    async fn wait(&self, target: u64) -> Result<(), Error> {
        let mut ends = self.ends.clone();
        if ends.wait_for(|ended| *ended >= target).await.is_err() {
            return Err(Error::new(
                ErrorKind::Internal,
                "the writer's task has ended: its runtime did, or it panicked",
            ));
        }
        std::mem::take(&mut self.buffer.state().lost).into_result()
    }
}

/// The samples that a writer holds.
struct Buffer {
    batch_points: usize,
    batch_bytes: usize,
    batch_delay: Duration,
    points: usize,
    room: Semaphore, // a permit for each sample that it could take
    state: Mutex<State>,
    changed: Notify, // tells the task that sends
}

#[derive(Default)]
struct State {
    gathered: Batch,
    gathered_since: Option<Instant>,
    queue: VecDeque<Batch>,
    points: usize,  // held: gathered, in the queue, on their way
    submitted: u64, // batches, ever
    closed: bool,
    lost: WriteError, // which nobody was told yet
}

impl Buffer {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a sample that has room.
    fn add(&self, sample: Sample) -> Result<(), Error> {
        let mut state = self.state();
        if state.closed {
            return Err(closed());
        }
        if state.gathered.points() > 0 && state.gathered.bytes_with(&sample.series) > self.batch_bytes {
            self.submit(&mut state);
        }
        state.gathered.add(sample);
        state.points += 1;
        if state.gathered.points() >= self.batch_points || state.points >= self.points {
            self.submit(&mut state); // nothing is waited for when the buffer is full
        } else if state.gathered.points() == 1 {
            state.gathered_since = Some(Instant::now());
            self.changed.notify_one();
        }
        Ok(())
    }

    /// Hands what is gathered to the task that sends.
    fn submit(&self, state: &mut State) {
        if state.gathered.points() > 0 {
            let batch = std::mem::take(&mut state.gathered);
            state.queue.push_back(batch);
            state.submitted += 1;
            self.changed.notify_one();
        }
        state.gathered_since = None;
    }

    /// Returns what is to be sent next; else when what is gathered is old, or that there will be nothing more.
    fn next(&self) -> Next {
        let mut state = self.state();
        let old = state.gathered_since.map(|since| since + self.batch_delay);
        if old.is_some_and(|old| old <= Instant::now()) {
            self.submit(&mut state);
        }
        match state.queue.pop_front() {
            Some(batch) => Next::Batch(batch),
            None if state.closed => Next::Nothing,
            None => Next::Wait(state.gathered_since.map(|since| since + self.batch_delay)),
        }
    }

    /// Notes what became of a batch.
    fn end(&self, points: usize, delivered: Delivered) {
        let mut state = self.state();
        state.lost.add_refused(delivered.refused);
        if let Some((points, error)) = delivered.failed {
            state.lost.add(points, WriteCause::Failed(error));
        }
        state.points -= points;
        self.room.add_permits(points);
    }
}

/// Closes the buffer when its task ends, be it by a panic of a source of tokens or the end of the runtime: nobody would
/// make room in it for those who wait.
struct End(Arc<Buffer>);

impl Drop for End {
    fn drop(&mut self) {
        self.0.state().closed = true;
        self.0.room.close();
    }
}

enum Next {
    Batch(Batch),
    Wait(Option<Instant>),
    Nothing,
}

/// Sends batches until the writer is closed and has none.
async fn send(buffer: Arc<Buffer>, client: Arc<Shared>, ended: watch::Sender<u64>) {
    let _end = End(buffer.clone());
    let session = Session::new();
    loop {
        match buffer.next() {
            Next::Batch(batch) => {
                let points = batch.points();
                let delivered = client.deliver(batch, &session).await;
                buffer.end(points, delivered);
                ended.send_modify(|ended| *ended += 1);
            }
            Next::Wait(None) => buffer.changed.notified().await,
            Next::Wait(Some(old)) => {
                let _ = timeout_at(old, buffer.changed.notified()).await; // both are reasons to look
            }
            Next::Nothing => return,
        }
    }
}
