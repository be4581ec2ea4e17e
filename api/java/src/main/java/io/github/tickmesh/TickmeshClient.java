package io.github.tickmesh;

import io.github.tickmesh.TickmeshException.Kind;
import io.grpc.ClientInterceptor;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.List;
import java.util.Objects;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Supplier;
import tickmesh.v1.Query.DeleteRequest;
import tickmesh.v1.Query.LastRequest;
import tickmesh.v1.Query.ListNamesRequest;
import tickmesh.v1.Query.ListSeriesRequest;
import tickmesh.v1.Query.NameKind;
import tickmesh.v1.Query.ScanResponse;
import tickmesh.v1.Query.SeriesChunk;
import tickmesh.v1.Write.WriteLevel;
import tickmesh.v1.Write.WriteRequest;
import tickmesh.v1.Write.WriteResult;

/**
 * A client of a TickMesh cluster, for use by any number of threads. It connects when the first call
 * is made. Calls block; an interrupt of the calling thread ends a call with CANCELLED and stays
 * set.
 */
public final class TickmeshClient implements AutoCloseable {
  /** Builds a client. */
  public static final class Builder {
    private final List<String> endpoints;
    private Tls tls;
    private Supplier<String> token;
    private String basic;
    private boolean insecureCredentials;
    private String name = "tickmesh-java";
    private Duration attemptTimeout = Duration.ofSeconds(10);
    private Duration writeTimeout = Duration.ofSeconds(60);
    private Duration callTimeout = Duration.ofSeconds(30);
    private Backoff backoff = new Backoff(Duration.ofMillis(20), Duration.ofSeconds(2));
    private boolean writeLevelAll;
    private Clock clock = new Clock();
    private List<ClientInterceptor> interceptors = List.of();

    private Builder(List<String> endpoints) {
      this.endpoints = endpoints;
    }

    /** Connects by TLS and verifies the servers' certificates. */
    public Builder tls(Tls tls) {
      this.tls = tls;
      return this;
    }

    /** Authenticates calls by a token. Throws OPTIONS for a token that no header can carry. */
    public Builder token(String token) {
      String checked = checked(token);
      return token(() -> checked);
    }

    private static String trimmed(String token) {
      return checked(token == null ? null : token.trim());
    }

    private static String checked(String token) {
      if (token == null || token.isEmpty() || token.chars().anyMatch(c -> c <= ' ' || c > '~')) {
        throw TickmeshException.options(
            "the token is null or empty, or has spaces or other characters that no header has");
      }
      return token;
    }

    /**
     * Authenticates calls by the token that a source returns, which is asked at each attempt, so
     * that the token may be rotated; blanks around it are removed. An exception of the source ends
     * the call with INTERNAL, a token that no header can carry with OPTIONS. The source must be
     * safe for use by many threads.
     */
    public Builder token(Supplier<String> token) {
      this.token = token;
      return this;
    }

    /**
     * Authenticates calls by a user name and a password. Throws OPTIONS for a name with a colon.
     */
    public Builder user(String user, String password) {
      if (user.contains(":")) {
        throw TickmeshException.options("the user's name has a colon");
      }
      Objects.requireNonNull(password, "password");
      byte[] pair = (user + ":" + password).getBytes(StandardCharsets.UTF_8);
      basic = "Basic " + Base64.getEncoder().encodeToString(pair);
      return this;
    }

    /**
     * Allows a token or password to be sent without TLS, though everybody on the way can read it.
     */
    public Builder insecureCredentials() {
      insecureCredentials = true;
      return this;
    }

    /** Sets the name of this client in the server's logs; default "tickmesh-java". */
    public Builder name(String name) {
      this.name = name;
      return this;
    }

    /** Bounds one attempt; default 10 s. */
    public Builder attemptTimeout(Duration timeout) {
      attemptTimeout = timeout;
      return this;
    }

    /** Bounds all attempts to write one batch; default 60 s. */
    public Builder writeTimeout(Duration timeout) {
      writeTimeout = timeout;
      return this;
    }

    /**
     * Bounds all attempts of other calls, and those of a query until its answer begins; default 30
     * s.
     */
    public Builder callTimeout(Duration timeout) {
      callTimeout = timeout;
      return this;
    }

    /**
     * Sets the shortest and the longest wait between attempts; default 20 ms and 2 s. Each wait is
     * about twice the one before.
     */
    public Builder retryDelay(Duration min, Duration max) {
      backoff = new Backoff(min, max);
      return this;
    }

    /**
     * Makes writes wait for every full voter of a shard, not only for a majority. A batch that one
     * of them does not have within writeTimeout fails with UNAVAILABLE, though a majority has it
     * and it is not undone.
     */
    public Builder writeLevelAll() {
      writeLevelAll = true;
      return this;
    }

    Builder intercept(ClientInterceptor interceptor) {
      interceptors = List.of(interceptor);
      return this;
    }

    Builder clock(Clock clock) {
      this.clock = clock;
      return this;
    }

    /**
     * Returns the client. Throws OPTIONS for options that cannot work, and for credentials that
     * would cross the network without TLS.
     */
    public TickmeshClient build() {
      if (endpoints.isEmpty() || endpoints.contains("")) {
        throw TickmeshException.options("no endpoints, or one without an address");
      }
      if (token != null && basic != null) {
        throw TickmeshException.options("token and user: there can be one");
      }
      boolean secret = token != null || basic != null;
      if (secret && tls == null && !insecureCredentials) {
        for (String address : endpoints) {
          if (!Settings.onLoopback(address)) {
            throw TickmeshException.options(
                "a token or password would cross the network to "
                    + address
                    + " for everybody to read: use tls, or allow it with insecureCredentials");
          }
        }
      }
      Supplier<String> source = token;
      Supplier<String> bearer = source == null ? null : () -> "Bearer " + trimmed(source.get());
      String fixed = basic;
      return new TickmeshClient(
          endpoints,
          new Settings(
              name,
              attemptTimeout,
              writeTimeout,
              callTimeout,
              backoff,
              writeLevelAll,
              tls == null ? io.grpc.InsecureChannelCredentials.create() : tls.credentials(),
              fixed == null ? bearer : () -> fixed,
              clock,
              interceptors));
    }
  }

  private final Settings settings;
  private final Calls calls;
  private final Session session = new Session(); // of write
  private final Set<Writer> writers = ConcurrentHashMap.newKeySet(); // that are open

  private TickmeshClient(List<String> endpoints, Settings settings) {
    this.settings = settings;
    this.calls = new Calls(endpoints, settings);
  }

  /**
   * Returns a builder for a client of routers, or of one standalone server, each given as host:port
   * of its gRPC port.
   */
  public static Builder builder(String... endpoints) {
    return new Builder(List.of(endpoints));
  }

  /**
   * Closes the connections; calls that run fail with CLOSED. Close writers first, so that they send
   * what they hold.
   */
  @Override
  public void close() {
    calls.close();
    writers.forEach(Writer::abandon);
    writers.clear();
  }

  /** Writes samples as {@link #write(Iterable)} does. */
  public void write(Sample... samples) {
    write(Arrays.asList(samples));
  }

  /**
   * Writes samples and waits for the answer; of samples with equal series and time the last one
   * counts. They are sent in batches that fit a message, one after the other, each repeated with
   * its id for up to writeTimeout. Throws the error of the first batch that failed: the batches
   * before it are written, those after it are not sent. Throws a {@link WriteException} if the
   * server refused series.
   */
  public void write(Iterable<Sample> samples) {
    calls.check();
    Lost lost = new Lost();
    Batch batch = new Batch();
    for (Sample sample : samples) {
      boolean full =
          batch.points() >= Batch.POINTS_MAX || batch.bytesWith(sample.series()) > Batch.BYTES_MAX;
      if (full && batch.points() > 0) {
        writeBatch(batch, lost);
        batch = new Batch();
      }
      batch.add(sample);
    }
    if (batch.points() > 0) {
      writeBatch(batch, lost);
    }
    if (!lost.isEmpty()) {
      throw new WriteException(lost);
    }
  }

  private void writeBatch(Batch batch, Lost lost) {
    lost.add(deliver(batch, session));
    if (!lost.failures().isEmpty()) {
      throw lost.refused().isEmpty() ? lost.first() : new WriteException(lost);
    }
  }

  /** Returns a writer, which gathers samples into batches and sends them in the background. */
  public Writer writer() {
    return writerBuilder().build();
  }

  /** Returns a builder for a writer with other bounds. */
  public Writer.Builder writerBuilder() {
    return new Writer.Builder(this);
  }

  Writer open(Writer.Builder options) {
    calls.check();
    Session own = new Session();
    Writer writer = new Writer(options, batch -> deliver(batch, own));
    writers.removeIf(Writer::isEnded);
    writer.start();
    writers.add(writer);
    try {
      calls.check(); // again: close ends the writers that it finds
    } catch (TickmeshException e) {
      writer.abandon();
      throw e;
    }
    return writer;
  }

  /**
   * Writes a batch, repeated with its id; what is refused for now follows in batches of its own.
   * Errors are returned, not thrown.
   */
  private Lost deliver(Batch batch, Session session) {
    Lost lost = new Lost();
    Batch rest = batch; // not yet answered for good
    try {
      long until = calls.after(settings.writeTimeout());
      Calls.Waits waits = calls.new Waits(until);
      for (; ; ) {
        Batch.Refusals answer = rest.refusals(writeOnce(rest, session, until));
        answer.refused().forEach(lost::refuse);
        if (answer.again() == null) {
          return lost;
        }
        rest = answer.again();
        waits.next(answer.why());
      }
    } catch (RuntimeException e) {
      lost.fail(rest.points(), calls.errorOf(e, "the batch was not sent"));
      return lost;
    }
  }

  /** Writes a batch under one id. */
  private WriteResult writeOnce(Batch batch, Session session, long until) {
    WriteLevel level =
        settings.writeLevelAll() ? WriteLevel.WRITE_LEVEL_ALL : WriteLevel.WRITE_LEVEL_UNSPECIFIED;
    var id = session.acquire();
    try {
      WriteRequest request = WriteRequest.newBuilder().setBatch(batch.toMessage(id, level)).build();
      WriteResult result =
          calls.retry(until, (e, end) -> e.unary(Methods.WRITE, request, end)).getResult();
      if (result.getLevel() != level) {
        throw new TickmeshException(
            Kind.VERSION,
            "the server does not know the level of the write; a majority has written it");
      }
      return result;
    } finally {
      session.release(id);
    }
  }

  /**
   * Returns the answer to a query as it arrives; the chunks of one series come in order of time,
   * with no other series between them. Until the first chunk arrives, the query is repeated at
   * other endpoints, for up to callTimeout.
   */
  public Answer<Chunk> query(Query query) {
    Series[] current = new Series[1];
    return Answer.of(
        calls.stream(e -> e.stream(Methods.SCAN, query.toMessage())),
        m -> new Answer.Part<>(chunksOf(m, current), m.getShardsMissingList()));
  }

  /** Returns the chunks of a message; current has the series of the chunk before. */
  private static List<Chunk> chunksOf(ScanResponse m, Series[] current) {
    List<Chunk> chunks = new ArrayList<>();
    for (SeriesChunk chunk : m.getChunksList()) {
      if (chunk.hasSeries()) {
        current[0] = Series.ofMessage(chunk.getSeries());
      }
      if (current[0] == null) {
        throw new TickmeshException(Kind.INTERNAL, "a chunk without a series");
      }
      chunks.add(Chunk.ofMessage(current[0], chunk.getColumns()));
    }
    return chunks;
  }

  /** Returns the newest sample, from fromMs on, of each series that matches, in no order. */
  public Answer<Sample> last(Selector selector, long fromMs) {
    return last(selector, fromMs, Read.WHOLE);
  }

  /** Returns the newest sample, from fromMs on, of each series that matches, in no order. */
  public Answer<Sample> last(Selector selector, long fromMs, Read read) {
    LastRequest request =
        LastRequest.newBuilder()
            .setSelector(selector.toMessage())
            .setFromMs(fromMs)
            .setFreshness(read.freshness())
            .setAllowPartial(read.allowPartial())
            .build();
    return Answer.of(
        calls.stream(e -> e.stream(Methods.LAST, request)),
        m ->
            new Answer.Part<>(
                m.getPointsList().stream()
                    .map(
                        p ->
                            new Sample(
                                Series.ofMessage(p.getSeries()), p.getTimeMs(), p.getValue()))
                    .toList(),
                m.getShardsMissingList()));
  }

  /** Returns the series that match, in no order. */
  public Answer<Series> series(Selector selector) {
    return series(selector, 0, Read.WHOLE);
  }

  /**
   * Returns the series that match, at most limit of them (0: all), in no order. Throws INVALID for
   * a limit below zero.
   */
  public Answer<Series> series(Selector selector, int limit, Read read) {
    ListSeriesRequest request =
        ListSeriesRequest.newBuilder()
            .setSelector(selector.toMessage())
            .setLimit((int) TickmeshException.notNegative("limit", limit))
            .setFreshness(read.freshness())
            .setAllowPartial(read.allowPartial())
            .build();
    return Answer.of(
        calls.stream(e -> e.stream(Methods.LIST_SERIES, request)),
        m ->
            new Answer.Part<>(
                m.getSeriesList().stream().map(Series::ofMessage).toList(),
                m.getShardsMissingList()));
  }

  /** Returns the databases that have series and that the caller may read. */
  public List<String> databases(NameFilter filter) {
    return names(NameKind.NAME_KIND_DATABASE, "", "", filter);
  }

  /** Returns the metrics of a database. */
  public List<String> metrics(NameFilter filter) {
    return names(NameKind.NAME_KIND_METRIC, "", "", filter);
  }

  /** Returns the names of the tags of a metric; "": of all metrics. */
  public List<String> tagNames(String metric, NameFilter filter) {
    return names(NameKind.NAME_KIND_TAG_NAME, metric, "", filter);
  }

  /** Returns the values of a tag; an empty metric means all metrics, an empty tag all tags. */
  public List<String> tagValues(String metric, String tag, NameFilter filter) {
    return names(NameKind.NAME_KIND_TAG_VALUE, metric, tag, filter);
  }

  private List<String> names(NameKind kind, String metric, String tag, NameFilter filter) {
    ListNamesRequest request =
        ListNamesRequest.newBuilder()
            .setKind(kind)
            .setDatabase(Names.encode(filter.database()))
            .setMetric(Names.encode(metric))
            .setTagName(Names.encode(tag))
            .setPrefix(Names.encode(filter.prefix()))
            .setLimit(filter.limit())
            .build();
    return Answer.of(
            calls.stream(e -> e.stream(Methods.LIST_NAMES, request)),
            m ->
                new Answer.Part<>(m.getNamesList().stream().map(Names::decode).toList(), List.of()))
        .toList();
  }

  /**
   * Deletes the samples from fromMs to toMs, both inclusive, that were written before the call.
   * Returns the number of series that had such samples, or may have had them. Throws UNAVAILABLE or
   * DEADLINE if nobody knows whether they are deleted.
   */
  public long delete(Selector selector, long fromMs, long toMs) {
    DeleteRequest request =
        DeleteRequest.newBuilder()
            .setSelector(selector.toMessage())
            .setFromMs(fromMs)
            .setToMs(toMs)
            .build();
    return calls
        .retry(
            calls.after(settings.callTimeout()), (e, end) -> e.unary(Methods.DELETE, request, end))
        .getSeriesTouched();
  }
}
