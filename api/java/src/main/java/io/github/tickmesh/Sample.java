package io.github.tickmesh;

import java.util.Objects;

/**
 * One value of a series.
 *
 * @param series whose value it is
 * @param timeMs milliseconds since 1970 UTC, as of {@link System#currentTimeMillis}
 * @param value any double
 */
public record Sample(Series series, long timeMs, double value) {
  /** Times are from -TIME_MS_MAX to TIME_MS_MAX, about 142,000 years. */
  public static final long TIME_MS_MAX = (1L << 52) - 1;

  /** Throws INVALID for a time out of bounds. */
  public Sample {
    Objects.requireNonNull(series, "series");
    if (timeMs < -TIME_MS_MAX || timeMs > TIME_MS_MAX) {
      throw new TickmeshException(
          TickmeshException.Kind.INVALID,
          "the time of a sample of " + series + " is " + timeMs + ": it is at most " + TIME_MS_MAX);
    }
  }
}
