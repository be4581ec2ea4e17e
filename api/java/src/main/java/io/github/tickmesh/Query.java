package io.github.tickmesh;

import tickmesh.v1.Query.ScanRequest;
import tickmesh.v1.Scan;

/** A query for the samples, or windows of them, in a range of time. It is immutable. */
public final class Query {
  private final ScanRequest message;

  private Query(ScanRequest message) {
    this.message = message;
  }

  /**
   * Returns a query for the samples from fromMs to toMs, both inclusive, in milliseconds since 1970
   * UTC.
   */
  public static Query of(Selector selector, long fromMs, long toMs) {
    return new Query(
        ScanRequest.newBuilder()
            .setSelector(selector.toMessage())
            .setFromMs(fromMs)
            .setToMs(toMs)
            .build());
  }

  /** Returns the same query for windows instead of samples. */
  public Query windows(Windows windows) {
    return new Query(message.toBuilder().setWindows(windows.toMessage()).build());
  }

  /** Returns the same query with another consistency. */
  public Query read(Read read) {
    return new Query(
        message.toBuilder()
            .setFreshness(read.freshness())
            .setAllowPartial(read.allowPartial())
            .build());
  }

  /**
   * Returns the same query with bounds of its cost, which ends with QUERY_LIMIT when it meets one;
   * 0: only the server's own bound counts. Throws INVALID for a bound below zero.
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
