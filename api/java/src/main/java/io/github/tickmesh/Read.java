package io.github.tickmesh;

import java.time.Duration;
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

  Scan.Freshness freshness() {
    return Scan.Freshness.newBuilder().setStalenessMaxMs(stalenessMax.toMillis()).build();
  }
}
