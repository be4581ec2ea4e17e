package io.github.tickmesh;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.NoSuchElementException;
import java.util.Queue;
import java.util.function.Function;

/**
 * The answer to a query, read once, as it arrives. An answer whose end is reached without an
 * exception is complete. Closing it early cancels the query; an answer that is read to its end need
 * not be closed. It is for one thread at a time.
 *
 * @param <T> the type of its elements
 */
public final class Answer<T> implements Iterable<T>, Iterator<T>, AutoCloseable {
  /** The elements of one message, and the shards that it reports as missing. */
  record Part<T>(List<T> items, List<Integer> shardsMissing) {}

  private final Runnable end;
  private final java.util.function.Supplier<Part<T>> parts; // null: there is no more
  private final Queue<T> items = new ArrayDeque<>();
  private TickmeshException failure; // thrown when items are read
  private boolean ended;

  private Answer(Runnable end, java.util.function.Supplier<Part<T>> parts) {
    this.end = end;
    this.parts = parts;
  }

  static <M, T> Answer<T> of(Messages<M> messages, Function<M, Part<T>> partOf) {
    return new Answer<>(
        messages::close,
        () -> {
          M message = messages.next();
          return message == null ? null : partOf.apply(message);
        });
  }

  /**
   * Reports whether there is another element, and waits for it. Throws the error that ended the
   * answer early.
   */
  @Override
  public boolean hasNext() {
    while (items.isEmpty() && !ended) {
      if (failure != null) {
        throw failure;
      }
      try {
        Part<T> part = parts.get();
        if (part == null) {
          close();
        } else {
          items.addAll(part.items());
          if (!part.shardsMissing().isEmpty()) {
            end.run();
            failure = new PartialException(part.shardsMissing());
          }
        }
      } catch (TickmeshException e) {
        end.run();
        failure = e;
      }
    }
    return !items.isEmpty();
  }

  @Override
  public T next() {
    if (!hasNext()) {
      throw new NoSuchElementException();
    }
    return items.remove();
  }

  /** Returns the answer itself: it can be read once. */
  @Override
  public Iterator<T> iterator() {
    return this;
  }

  /** Returns the rest of the answer. */
  public List<T> toList() {
    List<T> all = new ArrayList<>();
    forEachRemaining(all::add);
    return all;
  }

  /** Cancels the query if it still runs. The answer has no more elements. */
  @Override
  public void close() {
    ended = true;
    items.clear();
    end.run();
  }
}
