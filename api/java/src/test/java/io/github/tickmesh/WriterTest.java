package io.github.tickmesh;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.github.tickmesh.TickmeshException.Kind;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.Function;
import org.junit.jupiter.api.Test;

/** Writes to what stands for a client. */
class WriterTest {
  private static final Series SERIES = Series.of("m");
  private static final Duration LONG = Duration.ofDays(1_000_000);

  private static Writer.Builder options() {
    return new Writer.Builder(null).batchDelay(LONG);
  }

  private static Writer start(Writer.Builder options, Function<Batch, Lost> deliver) {
    Writer writer = new Writer(options, deliver);
    writer.start();
    return writer;
  }

  /** A delivery that does not end until it is interrupted. */
  private static final class Stuck {
    final CountDownLatch begun = new CountDownLatch(1);
    final AtomicInteger batches = new AtomicInteger();

    Lost deliver(Batch batch) {
      batches.incrementAndGet();
      begun.countDown();
      Lost lost = new Lost();
      try {
        new CountDownLatch(1).await();
      } catch (InterruptedException e) {
        lost.fail(batch.points(), TickmeshException.interrupted());
      }
      return lost;
    }
  }

  private static void appendThree(Writer writer) {
    for (int t = 0; t < 3; t++) {
      writer.append(SERIES, t, 1);
    }
  }

  private static void assertGivenUp(int points, WriteException lost) {
    assertEquals(points, lost.points());
    assertEquals(points, lost.total()); // a batch has one
    lost.failures().forEach(e -> assertEquals(Kind.DEADLINE, e.kind()));
    assertEquals(Kind.DEADLINE, lost.kind());
  }

  @Test
  void givesUpWhatIsOnItsWayAndWhatWaits() throws InterruptedException {
    Stuck stuck = new Stuck();
    Writer writer = start(options().batchPoints(1), stuck::deliver);
    appendThree(writer);
    stuck.begun.await();
    assertGivenUp(3, assertThrows(WriteException.class, () -> writer.close(Duration.ofMillis(20))));
    assertEquals(1, stuck.batches.get());
    assertEquals(0, writer.buffered());
    writer.close(); // told once
  }

  @Test
  void takesNoMoreThanItsBufferHolds() throws InterruptedException {
    Stuck stuck = new Stuck();
    Writer writer = start(options().batchPoints(1).bufferPoints(2), stuck::deliver);
    assertTrue(writer.tryAppend(SERIES, 1, 1));
    stuck.begun.await(); // what is on its way counts, too
    assertTrue(writer.tryAppend(SERIES, 2, 1));
    assertFalse(writer.tryAppend(SERIES, 3, 1));
    assertEquals(2, writer.buffered());
    assertGivenUp(2, assertThrows(WriteException.class, () -> writer.close(Duration.ZERO)));
  }

  @Test
  void anErrorOfJavaLosesItsBatchAndNoOther() {
    AtomicInteger batches = new AtomicInteger();
    Writer writer =
        start(
            options().batchPoints(1),
            batch -> {
              if (batches.incrementAndGet() == 1) {
                throw new ExceptionInInitializerError("a source of tokens");
              }
              return new Lost();
            });
    appendThree(writer);
    WriteException lost = assertThrows(WriteException.class, writer::close);
    assertEquals(Kind.INTERNAL, lost.kind());
    assertEquals(1, lost.points());
    assertEquals(3, batches.get());
    assertTrue(lost.getMessage().contains("a source of tokens"), lost.getMessage());
  }

  @Test
  void anInterruptedCloseTellsWhatItGaveUp() throws InterruptedException {
    Stuck stuck = new Stuck();
    Writer writer = start(options().batchPoints(1), stuck::deliver);
    appendThree(writer);
    stuck.begun.await();
    Thread.currentThread().interrupt();
    WriteException lost = assertThrows(WriteException.class, () -> writer.close(LONG));
    assertTrue(Thread.interrupted());
    assertGivenUp(3, lost);
  }

  @Test
  void aFlushAfterOneThatWasInterruptedTellsWhatWasLost() throws InterruptedException {
    CountDownLatch mayEnd = new CountDownLatch(1);
    Writer writer =
        start(
            options(),
            batch -> {
              Lost lost = new Lost();
              try {
                mayEnd.await();
                lost.fail(batch.points(), new TickmeshException(Kind.UNAVAILABLE, "down"));
              } catch (InterruptedException e) {
                lost.fail(batch.points(), TickmeshException.interrupted());
              }
              return lost;
            });
    writer.append(SERIES, 1, 1);
    Thread.currentThread().interrupt();
    assertEquals(Kind.CANCELLED, assertThrows(TickmeshException.class, writer::flush).kind());
    assertTrue(Thread.interrupted());
    mayEnd.countDown();
    assertEquals(Kind.UNAVAILABLE, assertThrows(WriteException.class, writer::flush).kind());
    writer.close();
  }

  @Test
  void anInterruptOfTheSenderEndsNoOtherBatch() {
    List<Boolean> interrupted = Collections.synchronizedList(new ArrayList<>());
    Writer writer =
        start(
            options().batchPoints(1),
            batch -> {
              interrupted.add(Thread.currentThread().isInterrupted());
              Thread.currentThread().interrupt(); // as a source of tokens may
              return new Lost();
            });
    appendThree(writer);
    writer.close();
    assertEquals(List.of(false, false, false), interrupted);
  }

  @Test
  void anInterruptOfTheSenderEndsNotItsWaitForMore() throws InterruptedException {
    BlockingQueue<Thread> senders = new LinkedBlockingQueue<>();
    Writer writer =
        start(
            options(),
            batch -> {
              senders.add(Thread.currentThread());
              return new Lost();
            });
    writer.append(SERIES, 0, 1);
    writer.flush();
    Thread sender = senders.take();
    writer.append(SERIES, 1, 1);
    while (sender.getState() != Thread.State.TIMED_WAITING) {
      assertTrue(sender.isAlive());
      Thread.yield();
    }
    sender.interrupt();
    while (sender.isInterrupted()) { // until it has seen it
      assertTrue(sender.isAlive());
      Thread.yield();
    }
    writer.close();
    assertEquals(1, senders.size());
  }

  @Test
  void whateverItDoesWhenItIsClosedEverythingIsWrittenOrTold() throws InterruptedException {
    for (int round = 0; round < 2_000; round++) {
      AtomicLong written = new AtomicLong();
      BlockingQueue<Thread> senders = new LinkedBlockingQueue<>();
      Writer writer =
          start(
              options().batchPoints(2).batchDelay(Duration.ofNanos(round * 100L)),
              batch -> {
                senders.add(Thread.currentThread());
                Lost lost = new Lost();
                if (Thread.currentThread().isInterrupted()) {
                  lost.fail(batch.points(), TickmeshException.interrupted());
                } else {
                  written.addAndGet(batch.points());
                }
                return lost;
              });
      appendThree(writer);
      long lost = 0;
      try {
        writer.close(Duration.ZERO);
      } catch (WriteException e) {
        assertEquals(Kind.DEADLINE, e.kind());
        lost = e.points();
      }
      assertEquals(3, written.get() + lost);
      for (Thread sender : senders) {
        sender.join();
      }
      assertTrue(senders.isEmpty() || writer.isEnded());
      assertFalse(Thread.interrupted());
    }
  }
}
