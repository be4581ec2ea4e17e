package io.github.tickmesh;

import java.util.Collection;
import java.util.List;
import tickmesh.v1.Scan;

/** A condition on one tag of a series. It is immutable. */
public final class Matcher {
  private final Scan.Matcher message;

  private Matcher(String name, Scan.MatchKind kind, Collection<String> values) {
    Scan.Matcher.Builder m = Scan.Matcher.newBuilder().setName(Names.encode(name)).setKind(kind);
    values.forEach(value -> m.addValues(Names.encode(value)));
    message = m.build();
  }

  /**
   * Returns a matcher of series whose tag has this value; an empty value also matches series
   * without the tag.
   */
  public static Matcher equal(String name, String value) {
    return new Matcher(name, Scan.MatchKind.MATCH_KIND_EQUAL, List.of(value));
  }

  /** Returns a matcher of series whose tag has another value or is absent. */
  public static Matcher notEqual(String name, String value) {
    return new Matcher(name, Scan.MatchKind.MATCH_KIND_NOT_EQUAL, List.of(value));
  }

  /** Returns a matcher of series whose tag has one of these values. */
  public static Matcher in(String name, Collection<String> values) {
    return new Matcher(name, Scan.MatchKind.MATCH_KIND_IN, values);
  }

  /** Returns a matcher of series whose tag has none of these values. */
  public static Matcher notIn(String name, Collection<String> values) {
    return new Matcher(name, Scan.MatchKind.MATCH_KIND_NOT_IN, values);
  }

  /** Returns a matcher of series whose tag's whole value matches an RE2 expression. */
  public static Matcher matches(String name, String expression) {
    return new Matcher(name, Scan.MatchKind.MATCH_KIND_REGEXP, List.of(expression));
  }

  /** Returns a matcher of series whose tag's whole value does not match an RE2 expression. */
  public static Matcher notMatches(String name, String expression) {
    return new Matcher(name, Scan.MatchKind.MATCH_KIND_NOT_REGEXP, List.of(expression));
  }

  /** Returns a matcher of series with the tag. */
  public static Matcher present(String name) {
    return new Matcher(name, Scan.MatchKind.MATCH_KIND_PRESENT, List.of());
  }

  /** Returns a matcher of series without the tag. */
  public static Matcher absent(String name) {
    return new Matcher(name, Scan.MatchKind.MATCH_KIND_ABSENT, List.of());
  }

  Scan.Matcher toMessage() {
    return message;
  }
}
