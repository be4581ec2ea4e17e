package io.github.tickmesh;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.gson.Gson;
import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import io.grpc.Status;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;
import tickmesh.v1.ErrorOuterClass;
import tickmesh.v1.Write;

/** Plays what all clients of TickMesh do alike; proto/README.md describes it. */
class VectorsTest {
  private static final JsonObject VECTORS = read();

  private static JsonObject read() {
    try {
      return JsonParser.parseString(Files.readString(Path.of("../../proto/vectors/client.json")))
          .getAsJsonObject();
    } catch (IOException e) {
      throw new IllegalStateException(e);
    }
  }

  record Row(String metric, long timeMs, double value) {
    static List<Row> of(JsonElement rows) {
      List<Row> all = new ArrayList<>();
      for (JsonElement row : rows.getAsJsonArray()) {
        JsonArray a = row.getAsJsonArray();
        all.add(new Row(a.get(0).getAsString(), a.get(1).getAsLong(), a.get(2).getAsDouble()));
      }
      return all;
    }

    static List<Row> of(Write.Batch batch) {
      Map<Integer, String> names = new HashMap<>();
      batch
          .getDefinitionsList()
          .forEach(d -> names.put(d.getHandle(), d.getSeries().getMetric().toStringUtf8()));
      List<Row> all = new ArrayList<>();
      long time = 0;
      for (int i = 0; i < batch.getHandlesCount(); i++) {
        time += batch.getTimeDeltasMs(i);
        all.add(new Row(names.get(batch.getHandles(i)), time, batch.getValues(i)));
      }
      return all;
    }
  }

  record Received(long counter, List<Row> samples) {}

  record Refused(long points, String error) {}

  record Outcome(String error, Map<String, Refused> refused) {}

  private static ErrorOuterClass.Error errorOf(JsonObject failure) {
    String kind = failure.get("error").getAsString();
    int after = failure.has("retry_after_ms") ? failure.get("retry_after_ms").getAsInt() : 0;
    return ErrorOuterClass.Error.newBuilder()
        .setKind(ErrorOuterClass.ErrorKind.valueOf("ERROR_KIND_" + kind))
        .setMessage(kind)
        .setRetryAfterMs(after)
        .build();
  }

  /** Answers attempt after attempt by answers. */
  private static final class Script {
    final JsonArray answers;
    final Attempts attempts;
    final AtomicInteger silent = new AtomicInteger(); // attempts whose time has ended
    final List<Received> received = Collections.synchronizedList(new ArrayList<>());
    final Set<Long> sessions = Collections.synchronizedSet(new HashSet<>());

    Script(JsonArray answers, Attempts attempts) {
      this.answers = answers;
      this.attempts = attempts;
    }

    void write(
        Write.WriteRequest request, io.grpc.stub.StreamObserver<Write.WriteResponse> answer) {
      Write.Batch batch = request.getBatch();
      int at = received.size();
      received.add(new Received(batch.getBatchId().getCounter(), Row.of(batch)));
      sessions.add(batch.getBatchId().getSession());
      if (at >= answers.size()) {
        answer.onError(
            Status.DATA_LOSS.withDescription("an attempt too many").asRuntimeException());
        return;
      }
      JsonObject next = answers.get(at).getAsJsonObject();
      if (next.has("code")) {
        Status status = Status.fromCode(Status.Code.valueOf(next.get("code").getAsString()));
        answer.onError(status.withDescription("of gRPC").asRuntimeException());
      } else if (next.has("error")) {
        answer.onError(FakeServer.statusOf(errorOf(next)));
      } else if (next.has("silent")) {
        silent.addAndGet(attempts.end());
      } else {
        Write.WriteResult.Builder result = Write.WriteResult.newBuilder().setCopies(1);
        if (next.has("refused")) {
          batch
              .getDefinitionsList()
              .forEach(
                  d -> {
                    JsonElement failure =
                        next.getAsJsonObject("refused")
                            .get(d.getSeries().getMetric().toStringUtf8());
                    if (failure != null) {
                      result.addRefused(
                          Write.RefusedSeries.newBuilder()
                              .setHandle(d.getHandle())
                              .setError(errorOf(failure.getAsJsonObject())));
                    }
                  });
        }
        answer.onNext(Write.WriteResponse.newBuilder().setResult(result).build());
        answer.onCompleted();
      }
    }
  }

  private static Outcome outcomeOf(Runnable write) {
    try {
      write.run();
      return new Outcome(null, null);
    } catch (WriteException e) {
      if (!e.failures().isEmpty()) {
        return new Outcome(e.failures().get(0).kind().name(), null);
      }
      Map<String, Refused> refused = new HashMap<>();
      e.refused()
          .forEach(
              r ->
                  refused.put(
                      r.series().metric(), new Refused(r.points(), r.error().kind().name())));
      return new Outcome(null, refused);
    } catch (TickmeshException e) {
      return new Outcome(e.kind().name(), null);
    }
  }

  private static void play(JsonObject vector, boolean byWriter) throws IOException {
    List<Outcome> outcomes = new ArrayList<>();
    // Time does not end attempts, on however slow a machine: the server's silence does.
    Attempts attempts = new Attempts();
    Script script = new Script(vector.getAsJsonArray("answers"), attempts);
    try (FakeServer server = new FakeServer(script::write);
        TickmeshClient client =
            TickmeshClient.builder(server.address())
                .intercept(attempts)
                .attemptTimeout(Duration.ofHours(1))
                .writeTimeout(Duration.ofHours(1))
                .retryDelay(Duration.ofMillis(1), Duration.ofMillis(5))
                .build();
        Writer writer = client.writer()) {
      for (JsonElement write : vector.getAsJsonArray("writes")) {
        List<Sample> samples =
            Row.of(write).stream()
                .map(r -> new Sample(Series.of(r.metric()), r.timeMs(), r.value()))
                .toList();
        outcomes.add(
            outcomeOf(
                () -> {
                  if (byWriter) {
                    samples.forEach(s -> writer.append(s.series(), s.timeMs(), s.value()));
                    writer.flush();
                  } else {
                    client.write(samples);
                  }
                }));
      }
    }
    List<Received> want = new ArrayList<>();
    for (JsonElement r : vector.getAsJsonArray("received")) {
      JsonObject o = r.getAsJsonObject();
      want.add(new Received(o.get("counter").getAsLong(), Row.of(o.get("samples"))));
    }
    assertEquals(want, script.received);
    assertEquals(List.of(new Gson().fromJson(vector.get("outcomes"), Outcome[].class)), outcomes);
    assertEquals(vector.has("attempt_timeout_ms") ? 1 : 0, script.silent.get());
    assertEquals(1, script.sessions.size());
    assertNotEquals(Set.of(0L), script.sessions);
  }

  @TestFactory
  Stream<DynamicTest> retries() {
    return Stream.of(false, true)
        .flatMap(
            byWriter ->
                VECTORS.getAsJsonArray("retries").asList().stream()
                    .map(JsonElement::getAsJsonObject)
                    .map(
                        v ->
                            DynamicTest.dynamicTest(
                                (byWriter ? "writer: " : "write: ") + v.get("name").getAsString(),
                                () -> play(v, byWriter))));
  }

  @Test
  void delays() {
    for (JsonElement e : VECTORS.getAsJsonArray("delays")) {
      JsonObject v = e.getAsJsonObject();
      Backoff backoff =
          new Backoff(
              Duration.ofMillis(v.get("min_ms").getAsLong()),
              Duration.ofMillis(v.get("max_ms").getAsLong()));
      int failures = v.get("failures").getAsInt();
      long after = v.get("retry_after_ms").getAsLong();
      assertEquals(
          v.get("most_ms").getAsDouble(), backoff.delayMs(failures, after, 0), v.toString());
      assertEquals(
          v.get("least_ms").getAsDouble(), backoff.delayMs(failures, after, 1), v.toString());
    }
  }

  @Test
  void countersStayNearToEachOther() throws Exception {
    for (JsonElement e : VECTORS.getAsJsonArray("window")) {
      JsonObject v = e.getAsJsonObject();
      long oldest = v.get("oldest").getAsLong();
      Session session = new Session();
      Write.BatchId open = null;
      for (long counter = 1; counter <= v.get("last").getAsLong(); counter++) {
        Write.BatchId id = session.acquire();
        assertEquals(counter, id.getCounter());
        if (counter == oldest) {
          open = id;
        } else {
          session.release(id);
        }
      }
      boolean may = v.get("may_take").getAsBoolean();
      assertEquals(may, session.mayAcquire(), v.toString());
      CompletableFuture<Write.BatchId> next = CompletableFuture.supplyAsync(session::acquire);
      if (!may) {
        assertThrows(
            java.util.concurrent.TimeoutException.class,
            () -> next.get(20, java.util.concurrent.TimeUnit.MILLISECONDS));
      }
      session.release(open);
      assertEquals(v.get("last").getAsLong() + 1, next.get().getCounter());
    }
  }

  @Test
  void loopback() {
    Map<String, JsonElement> all = VECTORS.getAsJsonObject("loopback").asMap();
    assertTrue(all.size() > 3);
    all.forEach(
        (address, is) -> assertEquals(is.getAsBoolean(), Settings.onLoopback(address), address));
  }
}
