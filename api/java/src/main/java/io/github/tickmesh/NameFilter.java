package io.github.tickmesh;

/**
 * Selects names of databases, metrics or tags.
 *
 * @param database the database that has the names; "": the default one
 * @param prefix what the names start with
 * @param limit the largest number of names, which are the first in order of their bytes; 0: all
 */
public record NameFilter(String database, String prefix, int limit) {
  /** Throws INVALID for a limit below zero. */
  public NameFilter {
    TickmeshException.notNegative("limit", limit);
  }

  /** Admits all names of the default database. */
  public static final NameFilter ALL = new NameFilter("", "", 0);

  /** Returns the same filter for another database. */
  public NameFilter in(String database) {
    return new NameFilter(database, prefix, limit);
  }

  /** Returns the same filter for names that start with a prefix. */
  public NameFilter prefix(String prefix) {
    return new NameFilter(database, prefix, limit);
  }

  /** Returns the same filter for at most so many names; 0: all. */
  public NameFilter limit(int limit) {
    return new NameFilter(database, prefix, limit);
  }
}
