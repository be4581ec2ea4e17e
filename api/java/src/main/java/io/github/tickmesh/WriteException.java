package io.github.tickmesh;

import java.time.Duration;
import java.util.List;

/**
 * What could not be written: points that were refused, or of which nobody knows whether they were
 * written. Its kind is that of the first failure, else of the first refusal.
 */
public final class WriteException extends TickmeshException {
  private static final long serialVersionUID = 1L;

  /**
   * The samples of one series that a server has left out of a batch.
   *
   * @param series which series
   * @param points how many samples
   * @param error why
   */
  public record Refused(Series series, long points, TickmeshException error) {}

  private final transient Lost lost;

  WriteException(Lost lost) {
    super(lost.first().kind(), lost.describe(), Duration.ZERO, null, lost.first());
    this.lost = lost;
  }

  /** Returns how many points may not have been written. */
  public long points() {
    return lost.points();
  }

  /** Returns how many errors there were; refused and failures have the first ones. */
  public long total() {
    return lost.total();
  }

  /** Returns what servers refused, the first ones. */
  public List<Refused> refused() {
    return lost.refused();
  }

  /** Returns why whole batches failed, the first reasons. */
  public List<TickmeshException> failures() {
    return lost.failures();
  }
}
