package io.github.tickmesh;

import tickmesh.v1.Scan;

/** Selects series by database, metric and tags. It is immutable. */
public final class Selector {
  private final Scan.Selector message;

  private Selector(Scan.Selector message) {
    this.message = message;
  }

  /** Returns a selector of the series of a metric in the default database. */
  public static Selector metric(String metric) {
    return new Selector(Scan.Selector.newBuilder().setMetric(Names.encode(metric)).build());
  }

  /** Returns a selector of all series of the default database. */
  public static Selector all() {
    return new Selector(Scan.Selector.newBuilder().setMetricAny(true).build());
  }

  /** Returns the same selector restricted to series that all matchers match. */
  public Selector where(Matcher... matchers) {
    Scan.Selector.Builder m = message.toBuilder();
    for (Matcher matcher : matchers) {
      m.addMatchers(matcher.toMessage());
    }
    return new Selector(m.build());
  }

  /** Returns the same selector for another database. */
  public Selector in(String database) {
    return new Selector(message.toBuilder().setDatabase(Names.encode(database)).build());
  }

  /** Returns the same selector restricted to series without tags that no matcher names. */
  public Selector exact() {
    return new Selector(message.toBuilder().setExact(true).build());
  }

  Scan.Selector toMessage() {
    return message;
  }
}
