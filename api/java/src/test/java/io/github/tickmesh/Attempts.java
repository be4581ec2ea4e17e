package io.github.tickmesh;

import io.grpc.CallOptions;
import io.grpc.Channel;
import io.grpc.ClientCall;
import io.grpc.ClientInterceptor;
import io.grpc.ForwardingClientCall.SimpleForwardingClientCall;
import io.grpc.ForwardingClientCallListener.SimpleForwardingClientCallListener;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor;
import io.grpc.Status;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;

/** The attempts of a client that run. Their time is over when the test says so. */
final class Attempts implements ClientInterceptor {
  private final Set<Attempt<?, ?>> running = ConcurrentHashMap.newKeySet();

  /** Ends what runs as gRPC does when its time is over. Returns how many attempts that were. */
  int end() {
    List<Attempt<?, ?>> all = List.copyOf(running);
    all.forEach(Attempt::end);
    return all.size();
  }

  @Override
  public <Q, R> ClientCall<Q, R> interceptCall(
      MethodDescriptor<Q, R> method, CallOptions options, Channel next) {
    return new Attempt<>(next.newCall(method, options), running);
  }

  private static final class Attempt<Q, R> extends SimpleForwardingClientCall<Q, R> {
    private final Set<Attempt<?, ?>> running;
    private volatile boolean over;

    Attempt(ClientCall<Q, R> call, Set<Attempt<?, ?>> running) {
      super(call);
      this.running = running;
    }

    void end() {
      over = true;
      cancel("the time is over", null);
    }

    @Override
    public void start(Listener<R> listener, Metadata headers) {
      running.add(this);
      super.start(
          new SimpleForwardingClientCallListener<>(listener) {
            @Override
            public void onClose(Status status, Metadata trailers) {
              running.remove(Attempt.this);
              super.onClose(over ? Status.DEADLINE_EXCEEDED : status, trailers);
            }
          },
          headers);
    }
  }
}
