package io.github.tickmesh;

import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;

/** Tells the time by which calls wait and end. Tests have clocks of their own. */
class Clock {
  /** Returns nanoseconds since some moment, as {@link System#nanoTime} does. */
  long nanoTime() {
    return System.nanoTime();
  }

  /** Waits until an event has happened, or so long. */
  void await(CountDownLatch event, long nanos) throws InterruptedException {
    event.await(nanos, TimeUnit.NANOSECONDS);
  }
}
