package io.github.tickmesh;

/**
 * Restricts names.
 *
 * @param database whose names; "": the default one
 * @param prefix only names that start so
 * @param limit at most so many, the first in order of their bytes; 0: all
 */
public record NameFilter(String database, String prefix, int limit) {
  /** Throws INVALID for a limit below zero. */
  public NameFilter {
    TickmeshException.notNegative("limit", limit);
  }

  /** Has all names of the default database. */
  public static final NameFilter ALL = new NameFilter("", "", 0);

  /** Has the names of another database. */
  public NameFilter in(String database) {
    return new NameFilter(database, prefix, limit);
  }

  /** Has only names that start so. */
  public NameFilter prefix(String prefix) {
    return new NameFilter(database, prefix, limit);
  }

  /** Has at most so many names; 0: all. */
  public NameFilter limit(int limit) {
    return new NameFilter(database, prefix, limit);
  }
}
