package io.github.tickmesh;

import java.time.Duration;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicLong;

/** A clock on which only waits take time, and they take none of the test. */
final class SkippingClock extends Clock {
  private final AtomicLong nanos = new AtomicLong();

  @Override
  long nanoTime() {
    return nanos.get();
  }

  @Override
  void await(CountDownLatch event, long nanos) throws InterruptedException {
    if (Thread.interrupted()) {
      throw new InterruptedException();
    }
    if (event.getCount() > 0) {
      this.nanos.addAndGet(nanos);
    }
  }

  /** Returns how long callers have waited. */
  Duration waited() {
    return Duration.ofNanos(nanos.get());
  }
}
