package io.github.tickmesh;

import io.github.tickmesh.TickmeshException.Kind;
import java.time.Duration;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import tickmesh.v1.Scan;

/**
 * Windows of time whose aggregates are asked for instead of samples. Window n starts at originMs
 * plus n times the width. NaN is ignored, and windows without any other sample are left out.
 *
 * @param width the length of a window
 * @param originMs the start of one window, in milliseconds since 1970 UTC
 * @param aggregates the columns of the answer
 */
public record Windows(Duration width, long originMs, Set<Aggregate> aggregates) {
  /** An aggregate of the samples of a window. */
  public enum Aggregate {
    /** Their sum. */
    SUM,
    /** Their number. */
    COUNT,
    /** The least. */
    MIN,
    /** The greatest. */
    MAX,
    /** The first in time. */
    FIRST,
    /** The last in time. */
    LAST,
  }

  /** Throws INVALID for a width that is not a whole number of milliseconds, or not above zero. */
  public Windows {
    long ms = TimeUnit.MILLISECONDS.convert(width);
    if (ms < 1 || !width.equals(Duration.ofMillis(ms))) {
      throw new TickmeshException(
          Kind.INVALID,
          "the width of windows is " + width + ", want a whole number of milliseconds, 1 or more");
    }
    aggregates = Set.copyOf(aggregates);
  }

  /** Returns windows that start at multiples of their width. */
  public static Windows of(Duration width, Aggregate... aggregates) {
    return new Windows(width, 0, Set.of(aggregates));
  }

  Scan.Windows toMessage() {
    Scan.Windows.Builder m =
        Scan.Windows.newBuilder().setOriginMs(originMs).setWidthMs(width.toMillis());
    aggregates.stream()
        .sorted()
        .forEach(a -> m.addAggregates(Scan.Aggregate.valueOf("AGGREGATE_" + a.name())));
    return m.build();
  }
}
