package io.github.tickmesh;

import io.github.tickmesh.TickmeshException.Kind;
import java.util.Collections;
import java.util.Map;
import java.util.Objects;
import java.util.SortedMap;
import java.util.TreeMap;
import tickmesh.v1.Scan;

/**
 * The identity of a series. It is immutable; create it once and use it for all its samples. Names
 * are strings, in which the surrogates U+DC80 to U+DCFF stand for bytes that are not UTF-8.
 */
public final class Series {
  private final String database;
  private final String metric;
  private final SortedMap<String, String> tags;
  private final Scan.Series message;
  private final int hash;

  private Series(String database, String metric, Map<String, String> tags) {
    if (metric.isEmpty()) {
      throw new TickmeshException(Kind.INVALID, "the series has no metric");
    }
    this.database = database;
    this.metric = metric;
    this.tags = Collections.unmodifiableSortedMap(new TreeMap<>(tags));
    Scan.Series.Builder m =
        Scan.Series.newBuilder()
            .setDatabase(Names.encode(database))
            .setMetric(Names.encode(metric));
    this.tags.forEach(
        (name, value) -> {
          if (name.isEmpty() || value.isEmpty()) {
            throw new TickmeshException(
                Kind.INVALID, "tag \"" + name + "\"=\"" + value + "\" lacks a name or a value");
          }
          m.addTags(
              Scan.Tag.newBuilder().setName(Names.encode(name)).setValue(Names.encode(value)));
        });
    this.message = m.build();
    this.hash = Objects.hash(database, metric, this.tags);
  }

  /**
   * Returns a series of the default database. Throws INVALID for an empty metric, tag name or
   * value.
   */
  public static Series of(String metric, Map<String, String> tags) {
    return new Series("", metric, tags);
  }

  /** Returns a series without tags of the default database. Throws INVALID for an empty metric. */
  public static Series of(String metric) {
    return new Series("", metric, Map.of());
  }

  /** Returns the series of the same metric and tags in another database. */
  public Series in(String database) {
    return new Series(database, metric, tags);
  }

  /** Returns the name of the database; the default one is "". */
  public String database() {
    return database;
  }

  /** Returns the name of the metric. */
  public String metric() {
    return metric;
  }

  /** Returns the tags, which cannot be changed, in order of their names. */
  public SortedMap<String, String> tags() {
    return tags;
  }

  @Override
  public boolean equals(Object o) {
    return this == o
        || o instanceof Series s
            && hash == s.hash
            && database.equals(s.database)
            && metric.equals(s.metric)
            && tags.equals(s.tags);
  }

  @Override
  public int hashCode() {
    return hash;
  }

  /** Returns the series as database/metric{name=value,…}, for messages. */
  @Override
  public String toString() {
    StringBuilder text =
        new StringBuilder(database.isEmpty() ? "" : database + "/").append(metric).append('{');
    tags.forEach((name, value) -> text.append(name).append('=').append(value).append(','));
    if (!tags.isEmpty()) {
      text.setLength(text.length() - 1);
    }
    return text.append('}').toString();
  }

  Scan.Series toMessage() {
    return message;
  }

  /** Returns about how many bytes the definition of the series takes in a message, at most. */
  int messageBytes() {
    return message.getSerializedSize() + 32;
  }

  static Series ofMessage(Scan.Series m) {
    Map<String, String> tags = new TreeMap<>();
    m.getTagsList().forEach(t -> tags.put(Names.decode(t.getName()), Names.decode(t.getValue())));
    return new Series(Names.decode(m.getDatabase()), Names.decode(m.getMetric()), tags);
  }
}
