package io.github.tickmesh;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.github.tickmesh.TickmeshException.Kind;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.regex.Pattern;
import java.util.stream.LongStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;

/** Talks with the program itself. */
@SuppressWarnings("try") // closes early on purpose
class ServerTest {
  private static final long FROM = -Sample.TIME_MS_MAX;
  private static final long TO = Sample.TIME_MS_MAX;

  /**
   * Returns what a selector finds: the bits of values by time, by series. Fails where a time comes
   * twice.
   */
  private static Map<Series, Map<Long, Long>> contents(TickmeshClient client, Selector selector) {
    Map<Series, Map<Long, Long>> found = new HashMap<>();
    for (Chunk chunk : client.query(Query.of(selector, FROM, TO))) {
      Map<Long, Long> samples = found.computeIfAbsent(chunk.series(), s -> new HashMap<>());
      for (int i = 0; i < chunk.timesMs().length; i++) {
        long bits = Double.doubleToRawLongBits(chunk.values()[i]);
        assertNull(samples.put(chunk.timesMs()[i], bits), chunk.series() + " has a time twice");
      }
    }
    return found;
  }

  /** Begins a client whose time does not end, on however slow a machine. */
  private static TickmeshClient.Builder patient(String... addresses) {
    Duration endless = Duration.ofDays(1);
    return TickmeshClient.builder(addresses)
        .attemptTimeout(endless)
        .writeTimeout(endless)
        .callTimeout(endless);
  }

  /**
   * Runs a task in a thread of its own: the common pool may have one, and tasks wait for servers.
   */
  private static CompletableFuture<Void> begin(Runnable task) {
    return CompletableFuture.runAsync(task, run -> new Thread(run).start());
  }

  private static <T extends TickmeshException> T fails(Kind kind, Class<T> type, Executable call) {
    T error = assertThrows(type, call);
    assertEquals(kind, error.kind(), error.toString());
    return error;
  }

  private static TickmeshException fails(Kind kind, Executable call) {
    return fails(kind, TickmeshException.class, call);
  }

  @Test
  void returnsWhatWasWritten() throws Exception {
    try (Standalone server = new Standalone("--wal-sync", "interval");
        TickmeshClient client = patient("127.0.0.1:1", server.address()).build()) {
      anyNameAndValue(client);
      questions(client);
      refusals(client);
      boundsOfWriter(client);
      example(server);
      client.close();
      fails(Kind.CLOSED, () -> client.metrics(NameFilter.ALL));
      fails(Kind.CLOSED, client::writer);
    }
  }

  @Test
  void amountsBelowZeroAreRefusedAndNotHuge() {
    Query query = Query.of(Selector.all(), 0, 1);
    fails(Kind.INVALID, () -> query.limits(0, -1, 0));
    fails(Kind.INVALID, () -> new Read(Duration.ofNanos(-1), false));
    fails(Kind.INVALID, () -> NameFilter.ALL.limit(-1));
    fails(Kind.INVALID, () -> Windows.of(Duration.ofNanos(1_500_000)));
    fails(Kind.INVALID, () -> Windows.of(Duration.ofMillis(-1)));
  }

  private static void anyNameAndValue(TickmeshClient client) {
    String database = UUID.randomUUID().toString();
    double nan = Double.longBitsToDouble(0x7ff8_0000_0000_1234L);
    double[] values = {
      0, -0.0, 0.1, Double.MIN_VALUE, Double.MAX_VALUE, Double.NEGATIVE_INFINITY, nan
    };
    String[] names = {"a", "ä", "\\", ",", " ", "\n", "\udcff", "\ufeff", "😀", "x".repeat(100)};
    long[] times = {0, 1, -1, 1_700_000_000_000L, TO, FROM};
    List<Sample> samples = new ArrayList<>();
    Map<Series, Map<Long, Long>> want = new HashMap<>();
    for (int n = 0; n < names.length; n++) {
      Series series =
          Series.of(names[n], Map.of(names[(n + 3) % names.length], names[n])).in(database);
      for (int t = 0; t < times.length; t++) {
        double value = values[(n + t) % values.length];
        samples.add(new Sample(series, times[t], value));
        want.computeIfAbsent(series, s -> new HashMap<>())
            .put(times[t], Double.doubleToRawLongBits(value));
      }
    }
    client.write(samples);
    assertEquals(want, contents(client, Selector.all().in(database)));
  }

  private static void questions(TickmeshClient client) {
    String database = UUID.randomUUID().toString();
    Series a = Series.of("cpu", Map.of("host", "a", "zone", "x")).in(database);
    Series b = Series.of("cpu", Map.of("host", "b")).in(database);
    for (long t = 0; t < 10; t++) {
      client.write(new Sample(a, t * 1000, t), new Sample(b, t * 1000, t + 100));
    }
    Selector cpu = Selector.metric("cpu").in(database);
    Map<Matcher, List<Series>> matchers = new HashMap<>();
    matchers.put(Matcher.equal("host", "a"), List.of(a));
    matchers.put(Matcher.notEqual("host", "a"), List.of(b));
    matchers.put(Matcher.in("host", List.of("b", "c")), List.of(b));
    matchers.put(Matcher.notIn("host", List.of("b")), List.of(a));
    matchers.put(Matcher.matches("host", "[bc]"), List.of(b));
    matchers.put(Matcher.notMatches("host", "[bc]"), List.of(a));
    matchers.put(Matcher.present("zone"), List.of(a));
    matchers.put(Matcher.absent("zone"), List.of(b));
    matchers.forEach((m, want) -> assertEquals(want, client.series(cpu.where(m)).toList()));
    assertEquals(1, client.series(cpu, 1, Read.WHOLE).toList().size());

    Query query = Query.of(cpu.where(Matcher.equal("host", "a")), 1000, 9000);
    List<Chunk> chunks =
        client
            .query(query.windows(Windows.of(Duration.ofSeconds(5), Windows.Aggregate.values())))
            .toList();
    assertEquals(1, chunks.size());
    Chunk c = chunks.get(0);
    assertArrayEquals(new long[] {0, 5000}, c.timesMs());
    assertArrayEquals(new double[] {10, 35}, c.sums());
    assertArrayEquals(new long[] {4, 5}, c.counts());
    assertArrayEquals(new double[] {1, 5}, c.mins());
    assertArrayEquals(new double[] {4, 9}, c.maxs());
    assertArrayEquals(new double[] {1, 5}, c.firsts());
    assertArrayEquals(new double[] {4, 9}, c.lasts());
    assertEquals(0, c.values().length);

    assertEquals(
        Map.of(a, 9.0, b, 109.0),
        client.last(cpu, 0).toList().stream()
            .collect(java.util.stream.Collectors.toMap(Sample::series, Sample::value)));
    NameFilter names = NameFilter.ALL.in(database);
    assertEquals(List.of("cpu"), client.metrics(names));
    assertEquals(List.of("host", "zone"), client.tagNames("cpu", names));
    assertEquals(List.of("b"), client.tagValues("cpu", "host", names.prefix("b")));
    assertEquals(List.of(database), client.databases(NameFilter.ALL.prefix(database)));
    assertEquals(1, client.delete(cpu.where(Matcher.equal("host", "b")), 0, 9000));
    assertEquals(1, contents(client, cpu).size());
  }

  private static void refusals(TickmeshClient client) {
    Series series = Series.of("m").in(UUID.randomUUID().toString());
    client.write(new Sample(series, 1, 1), new Sample(series, 2, 1), new Sample(series, 3, 1));
    Selector m = Selector.metric("m").in(series.database());
    TickmeshException met =
        fails(Kind.QUERY_LIMIT, () -> client.query(Query.of(m, FROM, TO).limits(0, 2, 0)).toList());
    assertEquals(new TickmeshException.Limit("samples", 2), met.limit().orElseThrow());
    fails(Kind.INVALID, () -> client.series(m.where(Matcher.matches("a", "("))).toList());
    fails(Kind.INVALID, () -> new Sample(series, 1L << 52, 1));
    fails(Kind.INVALID, () -> Series.of(""));
    fails(Kind.INVALID, () -> Series.of("a", Map.of("b", "")));
    fails(Kind.INVALID, () -> Series.of("\ud800"));
    Series tooLong = Series.of("m", Map.of("t", "x".repeat(10_000)));
    WriteException refused =
        fails(
            Kind.INVALID,
            WriteException.class,
            () ->
                client.write(
                    new Sample(series, 4, 1),
                    new Sample(tooLong, 1, 1),
                    new Sample(tooLong, 2, 1)));
    assertEquals(2, refused.points());
    assertEquals(tooLong, refused.refused().get(0).series());
    assertEquals(4, contents(client, m).get(series).size());
  }

  private static void boundsOfWriter(TickmeshClient client) {
    String database = UUID.randomUUID().toString();
    Map<Series, Map<Long, Long>> want = new HashMap<>();
    try (Writer writer =
        client.writerBuilder().batchPoints(7).batchBytes(500).bufferPoints(20).build()) {
      for (int i = 0; i < 2000; i++) {
        Series series = Series.of("m", Map.of("n", String.valueOf(i % 5))).in(database);
        writer.append(series, i * 7 % 20, i);
        assertTrue(writer.buffered() <= 20);
        want.computeIfAbsent(series, s -> new HashMap<>())
            .put(i * 7L % 20, Double.doubleToRawLongBits(i));
        if (i % 500 == 0) {
          writer.flush();
          assertEquals(0, writer.buffered());
        }
      }
      writer.close();
      fails(Kind.CLOSED, () -> writer.append(Series.of("m"), 1, 1));
    }
    assertEquals(want, contents(client, Selector.all().in(database)));
    fails(Kind.OPTIONS, () -> client.writerBuilder().batchPoints(50_001));
    fails(Kind.OPTIONS, () -> client.writerBuilder().bufferPoints(0));
  }

  private static void example(Standalone server) throws Exception {
    String java = Path.of(System.getProperty("java.home"), "bin", "java").toString();
    ProcessBuilder builder =
        new ProcessBuilder(java, "-cp", System.getProperty("java.class.path"), "Quickstart");
    builder.environment().put("TICKMESH_ENDPOINTS", server.address());
    Process process = builder.redirectError(ProcessBuilder.Redirect.INHERIT).start();
    String printed = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
    assertEquals("100000 points of cpu{host=a}\n", printed);
    String source = Files.readString(Path.of("src/test/java/Quickstart.java"));
    assertTrue(Files.readString(Path.of("README.md")).contains("```java\n" + source + "```"));
  }

  @Test
  void killedAgainAndAgainHasWhatWasAcknowledgedOnce() throws Exception {
    try (Standalone server = new Standalone("--wal-sync", "always");
        TickmeshClient client =
            patient(server.address())
                .retryDelay(Duration.ofMillis(20), Duration.ofMillis(100))
                .build()) {
      Series single = Series.of("single");
      Map<Series, Map<Long, Long>> want = new HashMap<>();
      Writer writer =
          client
              .writerBuilder()
              .batchPoints(50)
              .bufferPoints(500)
              .batchDelay(Duration.ofMillis(5))
              .build();
      for (int kill = 0; kill < 3; kill++) {
        long first = kill * 2000L;
        CompletableFuture<Void> appending =
            begin(
                () ->
                    LongStream.range(first, first + 2000)
                        .forEach(
                            t ->
                                writer.append(
                                    Series.of("m", Map.of("n", "" + t % 3)), t, t / 7.0)));
        LongStream.range(first, first + 2000)
            .forEach(
                t ->
                    want.computeIfAbsent(
                            Series.of("m", Map.of("n", "" + t % 3)), s -> new HashMap<>())
                        .put(t, Double.doubleToRawLongBits(t / 7.0)));
        client.write(new Sample(single, kill, kill));
        server.kill();
        long down = 100 + kill;
        CompletableFuture<Void> write = begin(() -> client.write(new Sample(single, down, 1)));
        server.start();
        write.get();
        appending.get();
        want.computeIfAbsent(single, s -> new HashMap<>())
            .put((long) kill, Double.doubleToRawLongBits(kill));
        want.get(single).put(down, Double.doubleToRawLongBits(1));
      }
      writer.close();
      assertEquals(want, contents(client, Selector.all()));
    }
  }

  @Test
  void aRepetitionIsNotWrittenOverWhatCameAfter() throws Exception {
    try (Standalone server = new Standalone("--wal-sync", "always");
        TickmeshClient client =
            patient(server.address())
                .retryDelay(Duration.ofMillis(20), Duration.ofMillis(50))
                .build()) {
      Series series = Series.of("m");
      Map<Long, Long> want = new HashMap<>();
      for (int kill = 0; kill < 3; kill++) {
        try (Writer writer = client.writerBuilder().batchPoints(1).bufferPoints(100).build()) {
          for (int i = 0; i < 100; i++) {
            writer.append(series, kill, i);
          }
          server.kill();
          server.start();
        }
        want.put((long) kill, Double.doubleToRawLongBits(99));
      }
      assertEquals(Map.of(series, want), contents(client, Selector.all()));
    }
  }

  @Test
  void withoutAServerTheTimeEnds() throws Exception {
    Sample sample = new Sample(Series.of("m"), 1, 1);
    SkippingClock clock = new SkippingClock();
    try (TickmeshClient client =
        patient("127.0.0.1:1")
            .clock(clock)
            .writeTimeout(Duration.ofSeconds(20))
            .callTimeout(Duration.ofSeconds(10))
            .retryDelay(Duration.ofMillis(20), Duration.ofSeconds(2))
            .build()) {
      TickmeshException down = fails(Kind.UNAVAILABLE, () -> client.write(sample));
      assertTrue(down.getMessage().contains("127.0.0.1:1: "), down.getMessage());
      assertTrue(down.getMessage().contains("refused"), down.getMessage());
      // It ends before a wait that is longer than the rest, at most 2 s.
      assertWaited(18, 20, clock.waited());
      Duration before = clock.waited();
      fails(Kind.UNAVAILABLE, () -> client.metrics(NameFilter.ALL));
      assertWaited(8, 10, clock.waited().minus(before));
      before = clock.waited();
      Writer writer = client.writerBuilder().batchPoints(1).bufferPoints(1).build();
      writer.append(sample.series(), 1, 1);
      assertEquals(1, fails(Kind.UNAVAILABLE, WriteException.class, writer::close).points());
      assertWaited(18, 20, clock.waited().minus(before));
      writer.close(); // told once
    }
  }

  private static void assertWaited(long leastSeconds, long mostSeconds, Duration waited) {
    assertTrue(waited.compareTo(Duration.ofSeconds(leastSeconds)) >= 0, waited.toString());
    assertTrue(waited.compareTo(Duration.ofSeconds(mostSeconds)) <= 0, waited.toString());
  }

  @Test
  void closingAndInterruptsEndWhatWaitsForAServer() throws Exception {
    Sample sample = new Sample(Series.of("m"), 1, 1);
    TickmeshClient patient = patient("127.0.0.1:1").build();
    Writer writer = patient.writerBuilder().batchPoints(1).build();
    writer.append(sample.series(), 1, 1);
    writer.append(sample.series(), 2, 1);
    WriteException given =
        fails(Kind.DEADLINE, WriteException.class, () -> writer.close(Duration.ofMillis(50)));
    assertEquals(2, given.points());
    Thread.currentThread().interrupt();
    fails(Kind.CANCELLED, () -> patient.write(sample));
    assertTrue(Thread.interrupted());
    CompletableFuture<Void> ended = begin(() -> fails(Kind.CLOSED, () -> patient.write(sample)));
    patient.close();
    ended.get();
  }

  @Test
  void tokensAreShownOverTls() throws Exception {
    Path files = Files.createTempDirectory("tickmesh-java-");
    var words =
        Pattern.compile("client:\\s*(\\S+)\\s[\\s\\S]*file:\\s*(\\S+)")
            .matcher(Standalone.run("auth", "token"));
    assertTrue(words.find());
    String token = words.group(1);
    Standalone.run("certs", "--dir", files.toString(), "router/r1=127.0.0.1,localhost");
    Path auth = files.resolve("auth.yaml");
    Files.writeString(
        auth,
        "users:\n  - name: it\n    tokens: ["
            + words.group(2)
            + "]\n    rights: {default: read}\n");
    String[] flags = {
      "--auth-file", auth.toString(),
      "--tls-cert", files.resolve("router-r1.crt").toString(),
      "--tls-key", files.resolve("router-r1.key").toString()
    };
    Tls tls = Tls.ofCa(files.resolve("ca.crt"));
    try (Standalone server = new Standalone(flags)) {
      try (TickmeshClient client =
          patient(server.address()).tls(tls).token(() -> token + "\n").build()) {
        assertEquals(List.of(), client.metrics(NameFilter.ALL));
        fails(Kind.DENIED, () -> client.write(new Sample(Series.of("m"), 1, 1)));
      }
      try (TickmeshClient client = patient(server.address()).tls(tls).token("x").build()) {
        fails(Kind.UNAUTHENTICATED, () -> client.metrics(NameFilter.ALL));
      }
      try (TickmeshClient client = patient(server.address()).tls(tls).user("ann", "x").build()) {
        fails(Kind.UNAUTHENTICATED, () -> client.metrics(NameFilter.ALL));
      }
      try (TickmeshClient client =
          patient(server.address())
              .tls(Tls.system())
              .token(token)
              .clock(new SkippingClock())
              .callTimeout(Duration.ofMillis(500))
              .build()) {
        TickmeshException untrusted = fails(Kind.UNAVAILABLE, () -> client.metrics(NameFilter.ALL));
        assertTrue(untrusted.getMessage().contains("certification path"), untrusted.getMessage());
      }
    } finally {
      Standalone.remove(files);
    }
  }

  @Test
  void tokensStayOnTheLoopbackWithoutTls() throws IOException {
    TickmeshClient.builder("127.0.0.1:1", "[::1]:1", "localhost:1").token("x").build().close();
    fails(Kind.OPTIONS, () -> TickmeshClient.builder("127.0.0.1:1", "router:1").token("x").build());
    fails(Kind.OPTIONS, () -> TickmeshClient.builder("router:1").user("a", "b").build());
    TickmeshClient.builder("router:1").token("x").insecureCredentials().build().close();
    TickmeshClient.builder("router:1").token("x").tls(Tls.system()).build().close();
    fails(
        Kind.OPTIONS,
        () -> TickmeshClient.builder("127.0.0.1:1").token("x").user("a", "b").build());
    fails(Kind.OPTIONS, () -> TickmeshClient.builder("127.0.0.1:1").token("a b"));
    fails(Kind.OPTIONS, () -> TickmeshClient.builder("127.0.0.1:1").user("a:b", ""));
    fails(Kind.OPTIONS, () -> TickmeshClient.builder().build());
    fails(Kind.OPTIONS, () -> TickmeshClient.builder("a:1").callTimeout(Duration.ZERO).build());
  }
}
