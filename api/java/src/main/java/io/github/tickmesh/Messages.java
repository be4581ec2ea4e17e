package io.github.tickmesh;

import io.grpc.Context;
import java.util.Iterator;

/** The messages of an answer, as they arrive. */
final class Messages<M> {
  private final Calls calls;
  private final String where; // they come from, for people
  private final Context.CancellableContext context;
  private final Iterator<M> iterator;

  Messages(Calls calls, String where, Context.CancellableContext context, Iterator<M> iterator) {
    this.calls = calls;
    this.where = where;
    this.context = context;
    this.iterator = iterator;
  }

  /** Waits for the first message, or the end. Throws what the call throws. */
  void first() {
    iterator.hasNext();
  }

  /** Returns the next message; null: there is none. */
  M next() {
    try {
      return iterator.hasNext() ? iterator.next() : null;
    } catch (RuntimeException e) {
      throw calls.errorOf(e, where);
    }
  }

  void close() {
    context.cancel(null);
  }
}
