package io.github.tickmesh;

import com.google.protobuf.Any;
import com.google.protobuf.InvalidProtocolBufferException;
import io.github.tickmesh.TickmeshException.Kind;
import io.github.tickmesh.TickmeshException.Limit;
import io.grpc.Metadata;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import java.io.IOException;
import java.time.Duration;
import tickmesh.v1.ErrorOuterClass;

/** Turns what calls end with into this package's errors. */
final class Errors {
  private static final Metadata.Key<byte[]> DETAILS =
      Metadata.Key.of("grpc-status-details-bin", Metadata.BINARY_BYTE_MARSHALLER);

  /** Bounds the causes that a message tells. */
  private static final int CAUSES_MAX = 8;

  private Errors() {}

  /** Returns the error of a message; unknown kinds are INTERNAL. */
  static TickmeshException ofMessage(ErrorOuterClass.Error m) {
    Kind kind =
        switch (m.getKind()) {
          case ERROR_KIND_UNAVAILABLE -> Kind.UNAVAILABLE;
          case ERROR_KIND_OVERLOADED -> Kind.OVERLOADED;
          case ERROR_KIND_READ_ONLY -> Kind.READ_ONLY;
          case ERROR_KIND_SERIES_LIMIT -> Kind.SERIES_LIMIT;
          case ERROR_KIND_SERIES_RATE -> Kind.SERIES_RATE;
          case ERROR_KIND_BATCH_OLD -> Kind.BATCH_OLD;
          case ERROR_KIND_INVALID, ERROR_KIND_BATCH, ERROR_KIND_KEY -> Kind.INVALID;
          case ERROR_KIND_QUERY_LIMIT -> Kind.QUERY_LIMIT;
          case ERROR_KIND_CANCELLED -> Kind.CANCELLED;
          case ERROR_KIND_DEADLINE -> Kind.DEADLINE;
          case ERROR_KIND_NOT_FOUND -> Kind.NOT_FOUND;
          case ERROR_KIND_REFUSED -> Kind.REFUSED;
          case ERROR_KIND_VERSION -> Kind.VERSION;
          case ERROR_KIND_UNAUTHENTICATED -> Kind.UNAUTHENTICATED;
          case ERROR_KIND_DENIED -> Kind.DENIED;
          default -> Kind.INTERNAL;
        };
    Duration retryAfter = Duration.ofMillis(Integer.toUnsignedLong(m.getRetryAfterMs()));
    Limit limit = m.hasLimit() ? new Limit(m.getLimit().getWhat(), m.getLimit().getLimit()) : null;
    return new TickmeshException(kind, m.getMessage(), retryAfter, limit, null);
  }

  /**
   * Returns what a call ended with. where is the server, for errors that did not come from its
   * handlers.
   */
  static TickmeshException ofCall(RuntimeException e, String where) {
    if (e instanceof TickmeshException t) {
      return t;
    }
    if (!(e instanceof StatusRuntimeException s)) {
      return new TickmeshException(Kind.INTERNAL, where + ": " + e, e);
    }
    byte[] details = s.getTrailers() == null ? null : s.getTrailers().get(DETAILS);
    if (details != null) {
      try {
        for (Any any : com.google.rpc.Status.parseFrom(details).getDetailsList()) {
          if (any.is(ErrorOuterClass.Error.class)) {
            return ofMessage(any.unpack(ErrorOuterClass.Error.class));
          }
        }
      } catch (InvalidProtocolBufferException notOurs) {
        // Details that are no google.rpc.Status: the code is all there is.
      }
    }
    return new TickmeshException(kindOf(s.getStatus()), where + ": " + describe(s), e);
  }

  /**
   * Returns the message of a status, with those of its causes, which say what was refused by whom.
   */
  private static String describe(StatusRuntimeException e) {
    StringBuilder text = new StringBuilder(e.getMessage());
    Throwable cause = e.getCause();
    for (int i = 0; i < CAUSES_MAX && cause != null; i++) {
      String message = String.valueOf(cause.getMessage());
      if (cause.getMessage() != null && text.indexOf(message) < 0) {
        text.append(": ").append(message);
      }
      cause = cause.getCause();
    }
    return text.toString();
  }

  /** Returns the kind of a call that failed in gRPC itself, or before a handler of TickMesh. */
  private static Kind kindOf(Status status) {
    return switch (status.getCode()) {
      case UNAVAILABLE -> Kind.UNAVAILABLE;
      // A connection that breaks in the middle of a call ends it so, in some versions and proxies,
      // without our details.
      // Calls that this side cancels never come here. A message that cannot be read stays as it is.
      case INTERNAL, CANCELLED ->
          status.getCause() instanceof InvalidProtocolBufferException
              ? Kind.INTERNAL
              : Kind.UNAVAILABLE;
      // Netty's transport says so of a connection that breaks while a call begins. What a server
      // says has no cause.
      case UNKNOWN -> status.getCause() instanceof IOException ? Kind.UNAVAILABLE : Kind.INTERNAL;
      case RESOURCE_EXHAUSTED -> Kind.OVERLOADED;
      case DEADLINE_EXCEEDED -> Kind.DEADLINE;
      case INVALID_ARGUMENT -> Kind.INVALID;
      case NOT_FOUND -> Kind.NOT_FOUND;
      case UNIMPLEMENTED -> Kind.VERSION;
      case FAILED_PRECONDITION -> Kind.REFUSED;
      case UNAUTHENTICATED -> Kind.UNAUTHENTICATED;
      case PERMISSION_DENIED -> Kind.DENIED;
      default -> Kind.INTERNAL;
    };
  }
}
