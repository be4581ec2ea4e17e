package io.github.tickmesh;

import java.util.Collection;
import java.util.List;
import tickmesh.v1.Scan;

/** Restricts series by one tag. */
public final class Matcher {
  private final Scan.Matcher message;

  private Matcher(String name, Scan.MatchKind kind, Collection<String> values) {
    Scan.Matcher.Builder m = Scan.Matcher.newBuilder().setName(Names.encode(name)).setKind(kind);
    values.forEach(value -> m.addValues(Names.encode(value)));
    message = m.build();
  }

  /** The tag has this value; an empty value: or is not there. */
  public static Matcher equal(String name, String value) {
    return new Matcher(name, Scan.MatchKind.MATCH_KIND_EQUAL, List.of(value));
  }

  /** The tag has another value, or is not there. */
  public static Matcher notEqual(String name, String value) {
    return new Matcher(name, Scan.MatchKind.MATCH_KIND_NOT_EQUAL, List.of(value));
  }

  /** The tag has one of these values. */
  public static Matcher in(String name, Collection<String> values) {
    return new Matcher(name, Scan.MatchKind.MATCH_KIND_IN, values);
  }

  /** The tag has none of these values. */
  public static Matcher notIn(String name, Collection<String> values) {
    return new Matcher(name, Scan.MatchKind.MATCH_KIND_NOT_IN, values);
  }

  /** The whole value matches an RE2 expression. */
  public static Matcher matches(String name, String expression) {
    return new Matcher(name, Scan.MatchKind.MATCH_KIND_REGEXP, List.of(expression));
  }

  /** The whole value does not match an RE2 expression. */
  public static Matcher notMatches(String name, String expression) {
    return new Matcher(name, Scan.MatchKind.MATCH_KIND_NOT_REGEXP, List.of(expression));
  }

  /** The series has the tag. */
  public static Matcher present(String name) {
    return new Matcher(name, Scan.MatchKind.MATCH_KIND_PRESENT, List.of());
  }

  /** The series does not have the tag. */
  public static Matcher absent(String name) {
    return new Matcher(name, Scan.MatchKind.MATCH_KIND_ABSENT, List.of());
  }

  Scan.Matcher toMessage() {
    return message;
  }
}
