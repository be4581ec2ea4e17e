package io.github.tickmesh;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;

/** Gathers what was not written, and the first reasons. */
final class Lost {
  /** Bounds the reasons of each kind that wait to be told. */
  private static final int REASONS_MAX = 16;

  private long points;
  private long total;
  private final List<WriteException.Refused> refused = new ArrayList<>();
  private final List<TickmeshException> failures = new ArrayList<>();

  void refuse(WriteException.Refused r) {
    points += r.points();
    total++;
    if (refused.size() < REASONS_MAX) {
      refused.add(r);
    }
  }

  void fail(long points, TickmeshException error) {
    this.points += points;
    total++;
    if (failures.size() < REASONS_MAX) {
      failures.add(error);
    }
  }

  void add(Lost other) {
    points += other.points;
    total += other.total;
    other.refused.stream().limit(REASONS_MAX - refused.size()).forEach(refused::add);
    other.failures.stream().limit(REASONS_MAX - failures.size()).forEach(failures::add);
  }

  /** Replaces the reasons of what was cancelled by why it was. */
  void cancelledFor(TickmeshException why) {
    failures.replaceAll(e -> e.kind() == TickmeshException.Kind.CANCELLED ? why : e);
  }

  boolean isEmpty() {
    return total == 0;
  }

  long points() {
    return points;
  }

  long total() {
    return total;
  }

  List<WriteException.Refused> refused() {
    return Collections.unmodifiableList(refused);
  }

  List<TickmeshException> failures() {
    return Collections.unmodifiableList(failures);
  }

  TickmeshException first() {
    return failures.isEmpty() ? refused.get(0).error() : failures.get(0);
  }

  String describe() {
    String what = failures.isEmpty() ? refused.get(0).series() + " is refused: " : "";
    return points
        + " points may not have been written, "
        + total
        + " errors, the first: "
        + what
        + first().getMessage();
  }
}
