package io.github.tickmesh;

import io.grpc.ChannelCredentials;
import io.grpc.ClientInterceptor;
import java.time.Duration;
import java.util.List;
import java.util.function.Supplier;
import java.util.regex.Pattern;

/**
 * The options of a client. Times as long as those that Java has are as good as endless.
 *
 * @param interceptors see each call; for tests
 * @param authorization returns the metadata that says who calls; null: nothing does
 */
record Settings(
    String name,
    Duration attemptTimeout,
    Duration writeTimeout,
    Duration callTimeout,
    Backoff backoff,
    boolean writeLevelAll,
    ChannelCredentials credentials,
    Supplier<String> authorization,
    Clock clock,
    List<ClientInterceptor> interceptors) {

  private static final Pattern LOOPBACK =
      Pattern.compile(
          "(localhost|127(\\.(25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)){3}|\\[::1])(:\\d+)?",
          Pattern.CASE_INSENSITIVE);

  Settings {
    for (Duration time :
        new Duration[] {attemptTimeout, writeTimeout, callTimeout, backoff.min(), backoff.max()}) {
      if (time.compareTo(Duration.ofMillis(1)) < 0) {
        throw TickmeshException.options("a time of " + time + ", less than a millisecond");
      }
    }
    if (backoff.min().compareTo(backoff.max()) > 0) {
      throw TickmeshException.options("the shortest delay is longer than the longest");
    }
  }

  /** Reports whether an address, host:port, is of this machine alone. No name but localhost is. */
  static boolean onLoopback(String address) {
    return LOOPBACK.matcher(address).matches();
  }
}
