package io.github.tickmesh;

import tickmesh.v1.Query.ScanRequest;
import tickmesh.v1.Scan;

/** Asks for samples or windows from one time to another. It never changes. */
public final class Query {
  private final ScanRequest message;

  private Query(ScanRequest message) {
    this.message = message;
  }

  /** Asks for the samples from fromMs to toMs, both inclusive, milliseconds since 1970 UTC. */
  public static Query of(Selector selector, long fromMs, long toMs) {
    return new Query(
        ScanRequest.newBuilder()
            .setSelector(selector.toMessage())
            .setFromMs(fromMs)
            .setToMs(toMs)
            .build());
  }

  /** Asks for windows instead of samples. */
  public Query windows(Windows windows) {
    return new Query(message.toBuilder().setWindows(windows.toMessage()).build());
  }

  /** Says how the answer may be made. */
  public Query read(Read read) {
    return new Query(
        message.toBuilder()
            .setFreshness(read.freshness())
            .setAllowPartial(read.allowPartial())
            .build());
  }

  /**
   * Bounds what the query may cost; 0: the server's own bounds count. Throws INVALID for a bound
   * below zero.
   */
  public Query limits(long series, long samples, long bytes) {
    var limits =
        Scan.ScanLimits.newBuilder()
            .setSeriesMax(TickmeshException.notNegative("series", series))
            .setSamplesMax(TickmeshException.notNegative("samples", samples))
            .setBytesMax(TickmeshException.notNegative("bytes", bytes));
    return new Query(message.toBuilder().setLimits(limits).build());
  }

  ScanRequest toMessage() {
    return message;
  }
}
