package io.github.tickmesh;

import java.security.SecureRandom;
import java.util.TreeSet;
import tickmesh.v1.Write.BatchId;

/**
 * Numbers the batches of one session, which is drawn once, so that their repetitions are known as
 * such.
 */
final class Session {
  /**
   * Counters of batches without an answer are less far apart: a server remembers 128 of a session.
   */
  private static final int COUNTER_WINDOW = 128;

  private final long number = draw();
  private long last;
  private final TreeSet<Long> open = new TreeSet<>(); // counters without an answer

  private static long draw() {
    long number = new SecureRandom().nextLong();
    return number == 0 ? 1 : number;
  }

  /** Reports whether the next counter is near enough to the oldest one without an answer. */
  synchronized boolean mayAcquire() {
    return open.isEmpty() || last + 1 - open.first() < COUNTER_WINDOW;
  }

  /** Returns the next id, once it is near enough to the oldest one without an answer. */
  synchronized BatchId acquire() {
    try {
      while (!mayAcquire()) {
        wait();
      }
    } catch (InterruptedException e) {
      throw TickmeshException.interrupted();
    }
    last++;
    open.add(last);
    return BatchId.newBuilder().setSession(number).setCounter(last).build();
  }

  /** Notes that a batch has its answer, or is given up. */
  synchronized void release(BatchId id) {
    open.remove(id.getCounter());
    notifyAll();
  }
}
