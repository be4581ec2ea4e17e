use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_core::Stream;
use tonic::Streaming;

use crate::calls::Opened;
use crate::error::Error;

/// What one message of an answer has.
pub(crate) struct Page<T> {
    pub(crate) items: Vec<T>,
    pub(crate) shards_missing: Vec<u32>,
}

type Pages<T> = Pin<Box<dyn Stream<Item = Result<Page<T>, Error>> + Send>>;

/// An answer as it arrives; one that ended without an error is complete. Dropping it ends the query.
///
/// It is a [`Stream`]; [`Answer::next`] reads it without another crate.
pub struct Answer<T> {
    items: VecDeque<T>,
    then: Option<Error>, // after these
    pages: Option<Pages<T>>,
}

impl<T> Answer<T> {
    pub(crate) fn new<R: Send + Unpin + 'static>(
        opened: Opened<R>,
        convert: impl FnMut(R) -> Result<Page<T>, Error> + Send + Unpin + 'static,
    ) -> Self {
        let Opened { first, rest } = opened;
        let pages = Converted { first, rest, convert };
        Self {
            items: VecDeque::new(),
            then: None,
            pages: Some(Box::pin(pages)),
        }
    }

    /// Returns what comes next; `None`: the answer is complete. After an error there is nothing more. Nothing is lost
    /// when the future is dropped.
    pub async fn next(&mut self) -> Option<Result<T, Error>>
    where
        T: Unpin,
    {
        std::future::poll_fn(|context| Pin::new(&mut *self).poll_next(context)).await
    }

    /// Returns all of it. Errors: what the answer ended with.
    pub async fn collect(mut self) -> Result<Vec<T>, Error>
    where
        T: Unpin,
    {
        let mut all = Vec::new();
        while let Some(item) = self.next().await {
            all.push(item?);
        }
        Ok(all)
    }
}

impl<T: Unpin> Stream for Answer<T> {
    type Item = Result<T, Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            if let Some(item) = self.items.pop_front() {
                return Poll::Ready(Some(Ok(item)));
            }
            let failed = self.then.take();
            let Some(pages) = self.pages.as_mut().filter(|_| failed.is_none()) else {
                self.pages = None;
                return Poll::Ready(failed.map(Err));
            };
            match ready!(pages.as_mut().poll_next(context)) {
                Some(Ok(page)) => {
                    self.items = page.items.into();
                    let shards = page.shards_missing;
                    self.then = (!shards.is_empty()).then_some(Error::Partial { shards });
                }
                Some(Err(error)) => self.then = Some(error),
                None => self.pages = None,
            }
        }
    }
}

impl<T> fmt::Debug for Answer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Answer").finish_non_exhaustive()
    }
}

/// The messages of a stream, converted.
struct Converted<R, C> {
    first: Option<R>,
    rest: Streaming<R>,
    convert: C,
}

impl<R, T, C> Stream for Converted<R, C>
where
    R: Unpin,
    C: FnMut(R) -> Result<Page<T>, Error> + Unpin,
{
    type Item = Result<Page<T>, Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let message = match self.first.take() {
            Some(first) => Some(Ok(first)),
            None => ready!(Pin::new(&mut self.rest).poll_next(context)),
        };
        Poll::Ready(message.map(|message| match message {
            Ok(message) => (self.convert)(message),
            Err(status) => Err(Error::of_status(&status)),
        }))
    }
}
