use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::backoff::random_bits;
use crate::proto;

/// Counters of batches without an answer are less far apart than this: a server remembers 128 of a session.
const COUNTER_WINDOW: u64 = 128;

/// Numbers the batches of one session, which is drawn once, so that their repetitions are known as such.
#[derive(Debug)]
pub(crate) struct Session {
    number: u64, // never 0
    counters: Mutex<Counters>,
    answered: Notify,
}

#[derive(Debug, Default)]
struct Counters {
    last: u64,
    open: BTreeSet<u64>, // without an answer
}

impl Counters {
    /// Reports whether the next counter is near enough to the oldest one without an answer.
    fn may_take(&self) -> bool {
        let next = self.last + 1;
        next - self.open.first().unwrap_or(&next) < COUNTER_WINDOW
    }
}

impl Session {
    pub(crate) fn new() -> Self {
        Self {
            number: random_bits().max(1),
            counters: Mutex::default(),
            answered: Notify::new(),
        }
    }

    fn counters(&self) -> MutexGuard<'_, Counters> {
        self.counters.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn try_take(&self) -> Option<OpenId<'_>> {
        let mut counters = self.counters();
        if !counters.may_take() {
            return None;
        }
        counters.last += 1;
        let counter = counters.last;
        counters.open.insert(counter);
        Some(OpenId { session: self, counter })
    }

    /// Returns the next id, once it is near enough to the oldest one without an answer.
    pub(crate) async fn take(&self) -> OpenId<'_> {
        loop {
            let answered = self.answered.notified(); // of what is answered from here on
            if let Some(id) = self.try_take() {
                return id;
            }
            answered.await;
        }
    }
}

/// The id of a batch, until the batch has its answer or is given up, which is when this is dropped.
#[derive(Debug)]
pub(crate) struct OpenId<'a> {
    session: &'a Session,
    counter: u64,
}

impl OpenId<'_> {
    pub(crate) fn to_message(&self) -> proto::BatchId {
        proto::BatchId {
            session: self.session.number,
            counter: self.counter,
        }
    }
}

impl Drop for OpenId<'_> {
    fn drop(&mut self) {
        self.session.counters().open.remove(&self.counter);
        self.session.answered.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vectors;

    #[test]
    fn counters_stay_as_near_as_the_vectors_say() {
        for v in vectors::rows("window") {
            let (oldest, last) = (v["oldest"].as_u64().unwrap(), v["last"].as_u64().unwrap());
            let session = Session::new();
            let mut held = None;
            for counter in 1..=last {
                let id = session.try_take().unwrap();
                assert_eq!(id.to_message().counter, counter);
                if counter == oldest {
                    held = Some(id);
                }
            }
            assert_eq!(session.try_take().is_some(), v["may_take"].as_bool().unwrap(), "{v}");
            drop(held);
            assert!(session.try_take().is_some());
        }
    }

    #[tokio::test]
    async fn the_next_id_waits_for_the_oldest() {
        let session = Session::new();
        let oldest = session.take().await;
        for _ in 1..COUNTER_WINDOW {
            session.take().await;
        }
        let (id, ()) = tokio::join!(biased; session.take(), async { drop(oldest) });
        assert_eq!(id.to_message().counter, COUNTER_WINDOW + 1);
    }
}
