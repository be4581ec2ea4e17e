package io.github.tickmesh;

import java.time.Duration;

/**
 * How long to wait before the next attempt at what has failed: min after the first failure, twice
 * as long after each further one, up to max.
 */
record Backoff(Duration min, Duration max) {
  /**
   * Returns the wait in milliseconds after so many failures in a row, from 1: at least what the
   * server asks for, up to max. It is drawn from the upper half, by random in [0, 1], so that those
   * who failed together do not come back together.
   */
  double delayMs(int failures, long retryAfterMs, double random) {
    double maxMs = msOf(max);
    double longest = Math.min(msOf(min) * Math.pow(2, failures - 1), maxMs);
    return Math.max(longest * (1 - random / 2), Math.min(retryAfterMs, maxMs));
  }

  private static double msOf(Duration time) {
    return time.getSeconds() * 1e3 + time.getNano() / 1e6;
  }
}
