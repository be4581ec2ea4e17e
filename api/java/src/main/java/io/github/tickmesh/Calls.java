package io.github.tickmesh;

import io.github.tickmesh.TickmeshException.Kind;
import io.grpc.Context;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Function;

/**
 * Makes calls: attempts, each with another endpoint, and what ends them. Times are of the clock of
 * settings.
 */
final class Calls {
  /** Makes one attempt, which ends at endNanos at the latest. */
  interface Attempt<T> {
    T make(Endpoint endpoint, long endNanos);
  }

  private final List<Endpoint> endpoints;
  private final Settings settings;
  private final AtomicInteger next;
  private final CountDownLatch closed = new CountDownLatch(1);

  Calls(List<String> addresses, Settings settings) {
    this.settings = settings;
    this.endpoints = open(addresses, settings);
    this.next = new AtomicInteger(ThreadLocalRandom.current().nextInt(addresses.size()));
  }

  /** Returns endpoints of all addresses, or leaves none open. */
  private static List<Endpoint> open(List<String> addresses, Settings settings) {
    List<Endpoint> opened = new ArrayList<>();
    try {
      for (String address : addresses) {
        opened.add(new Endpoint(address, settings));
      }
      return List.copyOf(opened);
    } catch (RuntimeException e) {
      opened.forEach(Endpoint::close);
      throw e;
    }
  }

  /** Ends calls that run, with CLOSED, and the connections. */
  void close() {
    closed.countDown();
    endpoints.forEach(Endpoint::close);
  }

  /** Throws CLOSED for a client that is, and CANCELLED for a thread that is interrupted. */
  void check() {
    if (closed.getCount() == 0) {
      throw closed();
    }
    if (Thread.currentThread().isInterrupted()) {
      throw TickmeshException.interrupted();
    }
  }

  /** Returns when a time from now on is over. */
  long after(Duration time) {
    return settings.clock().nanoTime() + TimeUnit.NANOSECONDS.convert(time);
  }

  /** Returns what a call ended with, or why it was ended. where is its server, for people. */
  TickmeshException errorOf(RuntimeException e, String where) {
    if (closed.getCount() == 0) {
      return closed();
    }
    // An interrupt ends a call of gRPC with its exception as the cause. Any other error is what
    // happened, though the thread be interrupted.
    for (Throwable cause = e; cause != null; cause = cause.getCause()) {
      if (cause instanceof InterruptedException) {
        return TickmeshException.interrupted();
      }
    }
    return Errors.ofCall(e, where);
  }

  private static TickmeshException closed() {
    return new TickmeshException(Kind.CLOSED, "the client is closed");
  }

  /**
   * Returns the endpoint for the next call; one that rests only when all do, and then the one that
   * rests shortest.
   */
  private Endpoint pick() {
    int first = Math.floorMod(next.getAndIncrement(), endpoints.size());
    Endpoint best = null;
    long bestRest = 0;
    for (int i = 0; i < endpoints.size(); i++) {
      Endpoint e = endpoints.get((first + i) % endpoints.size());
      long rest = e.restNanos();
      if (rest <= 0) {
        return e;
      }
      if (best == null || rest < bestRest) {
        best = e;
        bestRest = rest;
      }
    }
    return best;
  }

  /** Makes attempts until one succeeds, one fails in a way that stays, or the time is over. */
  <T> T retry(long untilNanos, Attempt<T> attempt) {
    Waits waits = new Waits(untilNanos);
    for (; ; ) {
      check();
      Endpoint endpoint = pick();
      Context before = Context.ROOT.attach(); // a caller's own gRPC call ends none of ours
      try {
        long now = settings.clock().nanoTime();
        long attemptNanos = TimeUnit.NANOSECONDS.convert(settings.attemptTimeout());
        long end = now + Math.min(attemptNanos, untilNanos - now);
        endpoint.prepare(end);
        T result = attempt.make(endpoint, end);
        endpoint.noteOutcome(null);
        return result;
      } catch (RuntimeException e) {
        TickmeshException error = errorOf(e, endpoint.address());
        if (error.kind() == Kind.CLOSED || error.kind() == Kind.CANCELLED) {
          throw error;
        }
        endpoint.noteOutcome(error);
        if (!error.mayPass()) {
          throw error;
        }
        waits.next(error);
      } finally {
        Context.ROOT.detach(before);
      }
    }
  }

  /**
   * Returns the messages of an answer. Until the first one it is tried again elsewhere, as long as
   * attempts begin within callTimeout. How long an answer may take is the caller's and the server's
   * to say.
   */
  <M> Messages<M> stream(Function<Endpoint, Iterator<M>> open) {
    return retry(
        after(settings.callTimeout()),
        (endpoint, end) -> {
          Context.CancellableContext context = Context.ROOT.withCancellation();
          try {
            Context before = context.attach();
            try {
              Messages<M> messages =
                  new Messages<>(this, endpoint.address(), context, open.apply(endpoint));
              messages.first();
              return messages;
            } finally {
              context.detach(before);
            }
          } catch (RuntimeException e) {
            context.cancel(null);
            throw e;
          }
        });
  }

  /** The waits between the attempts of one call, and what these failed for. */
  final class Waits {
    private final long untilNanos;
    private int failures;
    private TickmeshException
        reason; // of the last attempt that failed for more than that its time was over

    Waits(long untilNanos) {
      this.untilNanos = untilNanos;
    }

    /**
     * Waits after an attempt that has failed. Throws why attempts failed when the time would be
     * over.
     */
    void next(TickmeshException error) {
      failures++;
      if (error.kind() != Kind.DEADLINE || reason == null) {
        reason = error;
      }
      double random = ThreadLocalRandom.current().nextDouble();
      double ms = settings.backoff().delayMs(failures, error.retryAfter().toMillis(), random);
      long nanos = (long) (ms * 1e6);
      if (untilNanos - settings.clock().nanoTime() < nanos) {
        throw reason;
      }
      try {
        settings.clock().await(closed, nanos);
      } catch (InterruptedException e) {
        throw TickmeshException.interrupted();
      }
      check();
    }
  }
}
