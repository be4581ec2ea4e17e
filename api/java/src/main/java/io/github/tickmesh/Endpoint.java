package io.github.tickmesh;

import io.grpc.CallOptions;
import io.grpc.Channel;
import io.grpc.ClientInterceptors;
import io.grpc.ConnectivityState;
import io.grpc.ManagedChannel;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor;
import io.grpc.netty.shaded.io.grpc.netty.NettyChannelBuilder;
import io.grpc.netty.shaded.io.netty.channel.ChannelOption;
import io.grpc.netty.shaded.io.netty.channel.epoll.Epoll;
import io.grpc.netty.shaded.io.netty.channel.epoll.EpollChannelOption;
import io.grpc.stub.ClientCalls;
import io.grpc.stub.MetadataUtils;
import java.net.URI;
import java.net.URISyntaxException;
import java.util.Iterator;
import java.util.concurrent.TimeUnit;
import tickmesh.v1.Cluster.GetServerInfoRequest;

/** One router. */
final class Endpoint {
  /** The level of the API that this package is built for; see proto/README.md. */
  private static final int API_LEVEL = 1;

  private static final int MESSAGE_BYTES_MAX = 32 << 20;

  /** Bounds of how long an endpoint that fails is left alone. */
  private static final long REST_MIN_MS = 100;

  private static final long REST_MAX_MS = 5_000;

  /**
   * After how long a machine is given up that does not acknowledge: longer than two probes, a
   * second apart, so that one packet that is lost ends nothing.
   */
  private static final int SILENCE_MS = 2_200;

  private static final Metadata.Key<String> AUTHORIZATION =
      Metadata.Key.of("authorization", Metadata.ASCII_STRING_MARSHALLER);

  private final String address;
  private final Settings settings;
  private final ManagedChannel channel;
  private int failures; // without a success between
  private long restsToNanos; // it is left alone until then, on the clock of settings
  private volatile boolean known; // whether the server has said that it serves this client

  Endpoint(String address, Settings settings) {
    this.address = address;
    this.settings = settings;
    NettyChannelBuilder builder =
        builderFor(targetOf(address), settings)
            .maxInboundMessageSize(MESSAGE_BYTES_MAX)
            .disableRetry()
            .intercept(settings.interceptors())
            .proxyDetector(target -> null)
            .keepAliveTime(10, TimeUnit.SECONDS)
            .keepAliveTimeout(3, TimeUnit.SECONDS)
            .withOption(ChannelOption.CONNECT_TIMEOUT_MILLIS, SILENCE_MS);
    if (Epoll.isAvailable()) {
      // Elsewhere than on Linux the pings of HTTP/2 have to do.
      builder
          .withOption(EpollChannelOption.TCP_USER_TIMEOUT, SILENCE_MS)
          .withOption(EpollChannelOption.TCP_KEEPIDLE, 1)
          .withOption(EpollChannelOption.TCP_KEEPINTVL, 1)
          .withOption(EpollChannelOption.TCP_KEEPCNT, 2);
    }
    try {
      channel = builder.build();
    } catch (IllegalArgumentException e) {
      throw optionsOf(address, e);
    }
    restsToNanos = settings.clock().nanoTime();
  }

  /** Returns the address as the caller wrote it. */
  String address() {
    return address;
  }

  private static NettyChannelBuilder builderFor(String target, Settings settings) {
    try {
      return NettyChannelBuilder.forTarget(target, settings.credentials());
    } catch (IllegalArgumentException e) {
      throw new TickmeshException(
          TickmeshException.Kind.OPTIONS,
          "tls: the files of the CA, certificate or key are not usable PEM: " + e.getMessage(),
          e);
    }
  }

  /** Returns what gRPC resolves: a name of its own, or the address in a URI, encoded. */
  private static String targetOf(String address) {
    if (address.contains("://")) {
      return address;
    }
    try {
      return new URI("dns", "", "/" + address, null).toString();
    } catch (URISyntaxException e) {
      throw optionsOf(address, e);
    }
  }

  private static TickmeshException optionsOf(String address, Exception cause) {
    return new TickmeshException(
        TickmeshException.Kind.OPTIONS,
        "the endpoint \"" + address + "\" is not host:port: " + cause.getMessage(),
        cause);
  }

  /** Returns the channel, with what says who calls. Throws what the source of tokens throws. */
  private Channel authorized() {
    if (settings.authorization() == null) {
      return channel;
    }
    Metadata metadata = new Metadata();
    metadata.put(AUTHORIZATION, settings.authorization().get());
    return ClientInterceptors.intercept(
        channel, MetadataUtils.newAttachHeadersInterceptor(metadata));
  }

  /** Makes a call that is answered once, at endNanos at the latest. */
  <Q, R> R unary(MethodDescriptor<Q, R> method, Q request, long endNanos) {
    long nanos = Math.max(0, endNanos - settings.clock().nanoTime());
    CallOptions options = CallOptions.DEFAULT.withDeadlineAfter(nanos, TimeUnit.NANOSECONDS);
    return ClientCalls.blockingUnaryCall(authorized(), method, options, request);
  }

  /** Makes a call whose answer has many messages. It ends with the current Context. */
  <Q, R> Iterator<R> stream(MethodDescriptor<Q, R> method, Q request) {
    return ClientCalls.blockingServerStreamingCall(
        authorized(), method, CallOptions.DEFAULT, request);
  }

  /** Prepares for a call that ends at endNanos: asks a new server whether it serves this client. */
  void prepare(long endNanos) {
    // Left alone, gRPC waits up to two minutes before it connects again; the waits between our
    // attempts bound ours.
    if (channel.getState(false) == ConnectivityState.TRANSIENT_FAILURE) {
      channel.resetConnectBackoff();
    }
    if (!known) {
      var request =
          GetServerInfoRequest.newBuilder()
              .setClient(settings.name())
              .setApiLevel(API_LEVEL)
              .build();
      unary(Methods.GET_SERVER_INFO, request, endNanos);
      known = true;
    }
  }

  /**
   * Notes how a call ended, null: well. A server that answers, even with an error, is well, unless
   * it cannot reach its nodes.
   */
  synchronized void noteOutcome(TickmeshException error) {
    restsToNanos = settings.clock().nanoTime();
    if (error == null
        || error.kind() != TickmeshException.Kind.UNAVAILABLE
            && error.kind() != TickmeshException.Kind.DEADLINE) {
      failures = 0;
      return;
    }
    restsToNanos +=
        TimeUnit.MILLISECONDS.toNanos(Math.min(REST_MIN_MS << Math.min(failures, 10), REST_MAX_MS));
    failures++;
  }

  /** Returns for how long it is to be left alone; not more than 0: it is not. */
  synchronized long restNanos() {
    return restsToNanos - settings.clock().nanoTime();
  }

  void close() {
    channel.shutdownNow();
  }
}
