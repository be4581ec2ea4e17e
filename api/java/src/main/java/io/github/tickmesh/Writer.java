package io.github.tickmesh;

import io.github.tickmesh.TickmeshException.Kind;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.Queue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.Function;

/**
 * Gathers samples into batches and sends them one after the other, so that of two samples with one
 * series and time the later one counts. It is for any number of threads. {@link
 * TickmeshClient#writer()} makes it; close it.
 */
public final class Writer implements AutoCloseable {
  /** Builds a writer with other bounds than the defaults. */
  public static final class Builder {
    private final TickmeshClient client;
    private int batchPoints = 10_000;
    private int batchBytes = 1 << 20;
    private Duration batchDelay = Duration.ofSeconds(1);
    private int bufferPoints; // 0: ten batches

    Builder(TickmeshClient client) {
      this.client = client;
    }

    /** Sets how many samples a batch has at most; default 10,000, at most 50,000. */
    public Builder batchPoints(int batchPoints) {
      this.batchPoints = check("batchPoints", batchPoints, Batch.POINTS_MAX);
      return this;
    }

    /** Sets about how many bytes a batch has at most; default 1 MiB, at most 3 MiB. */
    public Builder batchBytes(int batchBytes) {
      this.batchBytes = check("batchBytes", batchBytes, Batch.BYTES_MAX);
      return this;
    }

    /** Sets how long a batch that is not full waits before it is sent; default 1 s. */
    public Builder batchDelay(Duration batchDelay) {
      if (batchDelay.isNegative()) {
        throw TickmeshException.options("batchDelay is " + batchDelay);
      }
      this.batchDelay = batchDelay;
      return this;
    }

    /**
     * Bounds the samples that the writer holds, including those that are being sent; default ten
     * batches.
     */
    public Builder bufferPoints(int bufferPoints) {
      this.bufferPoints = check("bufferPoints", bufferPoints, Integer.MAX_VALUE);
      return this;
    }

    /** Returns the writer. Throws CLOSED if the client is closed. */
    public Writer build() {
      return client.open(this);
    }

    private static int check(String name, int value, int max) {
      if (value < 1 || value > max) {
        throw TickmeshException.options(name + " is " + value + ", want 1 to " + max);
      }
      return value;
    }
  }

  private final int batchPoints;
  private final int batchBytes;
  private final long batchDelayNanos;
  private final int bufferPoints;
  private final Function<Batch, Lost> deliver;
  private final Thread sender = new Thread(this::send, "tickmesh-writer");

  private final ReentrantLock lock = new ReentrantLock(); // of all below
  private final Condition work = lock.newCondition(); // for the sender
  private final Condition done = lock.newCondition(); // a batch is written or given up
  private final Queue<Batch> queue = new ArrayDeque<>();
  private Batch gathered = new Batch();
  private long gatheredSinceNanos;
  private int points; // held: gathered, in the queue, on their way
  private long submitted; // batches, ever
  private long ended; // of them, written or given up
  private boolean closed;
  private boolean givenUp;
  private Lost lost = new Lost();

  /** deliver writes a batch within its time, and returns what was lost of it. */
  Writer(Builder options, Function<Batch, Lost> deliver) {
    batchPoints = options.batchPoints;
    batchBytes = options.batchBytes;
    batchDelayNanos = TimeUnit.NANOSECONDS.convert(options.batchDelay);
    bufferPoints = options.bufferPoints == 0 ? 10 * batchPoints : options.bufferPoints;
    this.deliver = deliver;
    sender.setDaemon(true);
  }

  void start() {
    sender.start();
  }

  /** Returns the number of samples that the writer holds. */
  public int buffered() {
    lock.lock();
    try {
      return points;
    } finally {
      lock.unlock();
    }
  }

  /**
   * Takes a sample, and waits while the buffer is full. Throws INVALID, CLOSED, or CANCELLED if the
   * thread is interrupted while it waits: the sample is not taken then. A sample that could not be
   * written later is reported by flush and close.
   */
  public void append(Series series, long timeMs, double value) {
    Sample sample = new Sample(series, timeMs, value);
    lock.lock();
    try {
      while (!add(sample)) {
        done.await();
      }
    } catch (InterruptedException e) {
      throw TickmeshException.interrupted();
    } finally {
      lock.unlock();
    }
  }

  /** Takes a sample, or reports at once that the buffer is full. Throws as append does. */
  public boolean tryAppend(Series series, long timeMs, double value) {
    Sample sample = new Sample(series, timeMs, value);
    lock.lock();
    try {
      return add(sample);
    } finally {
      lock.unlock();
    }
  }

  private boolean add(Sample sample) {
    if (closed) {
      throw new TickmeshException(Kind.CLOSED, "the writer is closed");
    }
    if (points >= bufferPoints) {
      submit();
      return false;
    }
    if (gathered.points() > 0 && gathered.bytesWith(sample.series()) > batchBytes) {
      submit();
    }
    gathered.add(sample);
    points++;
    if (gathered.points() >= batchPoints) {
      submit();
    } else if (gathered.points() == 1) {
      gatheredSinceNanos = System.nanoTime();
      work.signal();
    }
    return true;
  }

  /** Hands what is gathered to the sender. */
  private void submit() {
    if (gathered.points() > 0) {
      queue.add(gathered);
      gathered = new Batch();
      submitted++;
      work.signal();
    }
  }

  /** Sends batches until the writer is closed and there is none. */
  private void send() {
    for (Batch batch = take(); batch != null; batch = take()) {
      Lost lostNow = lostOf(batch);
      lock.lock();
      try {
        if (givenUp) {
          lostNow.cancelledFor(notWritten());
        }
        lost.add(lostNow);
        end(batch);
      } finally {
        lock.unlock();
      }
    }
  }

  /** Delivers a batch. Whatever is thrown, the thread goes on: nobody may wait for it in vain. */
  private Lost lostOf(Batch batch) {
    try {
      return deliver.apply(batch);
    } catch (RuntimeException | Error e) {
      Lost all = new Lost();
      all.fail(
          batch.points(), new TickmeshException(Kind.INTERNAL, "a batch was not sent: " + e, e));
      return all;
    }
  }

  private void end(Batch batch) {
    points -= batch.points();
    ended++;
    done.signalAll();
  }

  private static TickmeshException notWritten() {
    return new TickmeshException(Kind.DEADLINE, "the writer was closed before it was written");
  }

  /** Returns the next batch when it is to be sent; null: there will be none. */
  private Batch take() {
    lock.lock();
    try {
      for (; ; ) {
        if (!queue.isEmpty()) {
          // An interrupt that is not giveUp's, of a source of tokens for one, ends no other batch.
          Thread.interrupted();
          return queue.remove();
        }
        if (closed) {
          return null;
        }
        if (gathered.points() == 0) {
          work.awaitUninterruptibly();
          continue;
        }
        long waits = gatheredSinceNanos + batchDelayNanos - System.nanoTime();
        if (waits <= 0) {
          submit();
          continue;
        }
        try {
          work.awaitNanos(waits);
        } catch (InterruptedException e) {
          // What there is to do is found above; after giveUp that is nothing.
        }
      }
    } finally {
      lock.unlock();
    }
  }

  /**
   * Sends what is gathered and waits until every sample that was taken before is written or given
   * up. Throws a {@link WriteException} when some were given up since the last flush, and CANCELLED
   * for a thread that is interrupted: the next flush, or close, tells what was given up.
   */
  public void flush() {
    lock.lock();
    try {
      submit();
      awaitEnded(submitted, Long.MAX_VALUE);
      tell();
    } catch (InterruptedException e) {
      throw TickmeshException.interrupted();
    } finally {
      lock.unlock();
    }
  }

  /** Waits for the end of so many batches. Reports whether the time sufficed. */
  private boolean awaitEnded(long target, long nanos) throws InterruptedException {
    long left = nanos;
    while (ended < target) {
      if (left <= 0) {
        return false;
      }
      left = done.awaitNanos(left);
    }
    return true;
  }

  /** Throws what was lost since it was told last. */
  private void tell() {
    if (!lost.isEmpty()) {
      Lost told = lost;
      lost = new Lost();
      throw new WriteException(told);
    }
  }

  /**
   * Takes no more samples, sends what it holds and waits for that, each batch for at most the
   * client's writeTimeout. Throws a {@link WriteException} as flush does. When the thread is
   * interrupted it gives up the rest, and the interrupt stays set.
   */
  @Override
  public void close() {
    close(Duration.ofNanos(Long.MAX_VALUE));
  }

  /**
   * Closes as close does, but gives up what is not written after a time: its reason is DEADLINE.
   */
  public void close(Duration timeout) {
    long nanos = TimeUnit.NANOSECONDS.convert(timeout);
    lock.lock();
    try {
      submit();
      closed = true;
      work.signal();
      done.signalAll();
      try {
        if (!awaitEnded(submitted, nanos)) {
          giveUp();
        }
      } catch (InterruptedException e) {
        giveUp();
        Thread.currentThread().interrupt();
      }
      tell();
    } finally {
      lock.unlock();
    }
  }

  /** Gives up what waits, and ends the call of the batch that is on its way. */
  private void giveUp() {
    givenUp = true;
    for (Batch batch = queue.poll(); batch != null; batch = queue.poll()) {
      lost.fail(batch.points(), notWritten());
      end(batch);
    }
    sender.interrupt();
    while (ended < submitted) {
      done.awaitUninterruptibly();
    }
  }

  /** Reports whether the writer has nothing to do any more. */
  boolean isEnded() {
    return !sender.isAlive();
  }

  /** Ends with its client. */
  void abandon() {
    lock.lock();
    try {
      submit();
      closed = true;
      work.signal();
      done.signalAll();
    } finally {
      lock.unlock();
    }
  }
}
