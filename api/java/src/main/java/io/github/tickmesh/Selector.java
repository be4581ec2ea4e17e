package io.github.tickmesh;

import tickmesh.v1.Scan;

/** Picks series. It never changes. */
public final class Selector {
  private final Scan.Selector message;

  private Selector(Scan.Selector message) {
    this.message = message;
  }

  /** Picks the series of a metric, in the default database. */
  public static Selector metric(String metric) {
    return new Selector(Scan.Selector.newBuilder().setMetric(Names.encode(metric)).build());
  }

  /** Picks all series of the default database. */
  public static Selector all() {
    return new Selector(Scan.Selector.newBuilder().setMetricAny(true).build());
  }

  /** Picks those of them that all matchers match, too. */
  public Selector where(Matcher... matchers) {
    Scan.Selector.Builder m = message.toBuilder();
    for (Matcher matcher : matchers) {
      m.addMatchers(matcher.toMessage());
    }
    return new Selector(m.build());
  }

  /** Picks in another database. */
  public Selector in(String database) {
    return new Selector(message.toBuilder().setDatabase(Names.encode(database)).build());
  }

  /** Picks only series that have no other tags than those that matchers name. */
  public Selector exact() {
    return new Selector(message.toBuilder().setExact(true).build());
  }

  Scan.Selector toMessage() {
    return message;
  }
}
