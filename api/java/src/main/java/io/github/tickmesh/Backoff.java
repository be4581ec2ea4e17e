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
    double longest = Math.min(min.toMillis() * Math.pow(2, failures - 1), max.toMillis());
    return Math.max(longest * (1 - random / 2), Math.min(retryAfterMs, max.toMillis()));
  }
}
