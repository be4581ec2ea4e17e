package io.github.tickmesh;

import java.util.List;

/** Ends an answer that lacks shards; only where that was allowed. */
public final class PartialException extends TickmeshException {
  private static final long serialVersionUID = 1L;
  private final transient List<Integer> shards;

  PartialException(List<Integer> shards) {
    super(Kind.PARTIAL, "the answer is not complete: " + shards.size() + " shards do not answer");
    this.shards = List.copyOf(shards);
  }

  /** Returns the shards that nobody answers for. */
  public List<Integer> shards() {
    return shards;
  }
}
