package io.github.tickmesh;

import java.time.Duration;
import java.util.concurrent.TimeUnit;
import tickmesh.v1.Scan;

/**
 * The consistency of an answer.
 *
 * @param stalenessMax how far behind the replica that answers may be; zero: the answer has every
 *     write that was acknowledged
 * @param allowPartial whether shards that no node answers for may be missing; such an answer ends
 *     with a {@link PartialException}
 */
public record Read(Duration stalenessMax, boolean allowPartial) {
  /** Requires every write that was acknowledged, of all shards. */
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
