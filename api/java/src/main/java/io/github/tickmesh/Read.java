package io.github.tickmesh;

import java.time.Duration;
import java.util.concurrent.TimeUnit;
import tickmesh.v1.Scan;

/**
 * How an answer may be made.
 *
 * @param stalenessMax lets any full copy answer that is at most so far behind; zero: the answer has
 *     every write that was answered
 * @param allowPartial lets shards be missing that nobody answers for; such an answer ends with a
 *     {@link PartialException}
 */
public record Read(Duration stalenessMax, boolean allowPartial) {
  /** Has every write that was answered, of all shards. */
  public static final Read WHOLE = new Read(Duration.ZERO, false);

  /** Throws INVALID for a staleness below zero. */
  public Read {
    TickmeshException.notNegative("stalenessMax in seconds", stalenessMax.getSeconds());
  }

  Scan.Freshness freshness() {
    return Scan.Freshness.newBuilder()
        .setStalenessMaxMs(TimeUnit.MILLISECONDS.convert(stalenessMax))
        .build();
  }
}
