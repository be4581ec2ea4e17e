package io.github.tickmesh;

import java.time.Duration;
import java.util.Optional;

/** Any error of this package. */
public class TickmeshException extends RuntimeException {
  private static final long serialVersionUID = 1L;

  /**
   * The meaning of an error; those of the server are described in proto/tickmesh/v1/error.proto.
   */
  public enum Kind {
    /** Too few replicas, or no connection. Nobody knows whether something was written. */
    UNAVAILABLE,
    /** A queue of the server is full. Nobody knows whether something was written. */
    OVERLOADED,
    /** A disk is full, read-only or failing. */
    READ_ONLY,
    /** The limit of series is reached. */
    SERIES_LIMIT,
    /** There are too many new series a second. */
    SERIES_RATE,
    /**
     * The batch is so far behind others of its session that nobody knows whether it was written.
     */
    BATCH_OLD,
    /** The request is wrong and stays wrong. */
    INVALID,
    /** A query met one of its limits. */
    QUERY_LIMIT,
    /**
     * The calling thread was interrupted, and its interrupt status is set; or the server ended it.
     */
    CANCELLED,
    /** The time was over. Nobody knows whether something was written. */
    DEADLINE,
    /** What is named does not exist. */
    NOT_FOUND,
    /** The cluster is not in a state in which this may be done. */
    REFUSED,
    /** The server does not speak the version of this client. */
    VERSION,
    /** A fault of the server or of this client. */
    INTERNAL,
    /** The credentials are missing or unknown. */
    UNAUTHENTICATED,
    /** The caller lacks the right. */
    DENIED,
    /** The options of a client or a writer cannot work. */
    OPTIONS,
    /** The client or the writer is closed. */
    CLOSED,
    /** The answer lacks shards, which the query allowed. */
    PARTIAL,
  }

  /**
   * A limit of a query that was met.
   *
   * @param what "series", "samples" or "bytes"
   * @param limit how much of it may be used
   */
  public record Limit(String what, long limit) {}

  private final Kind kind;
  private final Duration retryAfter;
  private final transient Limit limit;

  TickmeshException(Kind kind, String message) {
    this(kind, message, Duration.ZERO, null, null);
  }

  TickmeshException(Kind kind, String message, Throwable cause) {
    this(kind, message, Duration.ZERO, null, cause);
  }

  TickmeshException(Kind kind, String message, Duration retryAfter, Limit limit, Throwable cause) {
    super(message, cause);
    this.kind = kind;
    this.retryAfter = retryAfter;
    this.limit = limit;
  }

  /** Returns the meaning of the error. */
  public final Kind kind() {
    return kind;
  }

  /** Returns how long the server asks to wait before the next attempt; zero if it does not say. */
  public final Duration retryAfter() {
    return retryAfter;
  }

  /** Returns the limit that a QUERY_LIMIT met. */
  public final Optional<Limit> limit() {
    return Optional.ofNullable(limit);
  }

  /** Reports whether the same request may succeed later. */
  public final boolean mayPass() {
    return switch (kind) {
      case UNAVAILABLE, OVERLOADED, SERIES_RATE, DEADLINE -> true;
      default -> false;
    };
  }

  static TickmeshException options(String message) {
    return new TickmeshException(Kind.OPTIONS, message);
  }

  /**
   * Returns amount. Throws INVALID for one below zero, which the server would take for a huge one.
   */
  static long notNegative(String name, long amount) {
    if (amount < 0) {
      throw new TickmeshException(Kind.INVALID, name + " is " + amount + ", want 0 or more");
    }
    return amount;
  }

  /** Returns the error of a thread that was interrupted, and sets its status again. */
  static TickmeshException interrupted() {
    Thread.currentThread().interrupt();
    return new TickmeshException(Kind.CANCELLED, "the calling thread was interrupted");
  }
}
