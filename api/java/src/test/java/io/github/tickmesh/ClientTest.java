package io.github.tickmesh;

import static org.junit.jupiter.api.Assertions.assertDoesNotThrow;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.github.tickmesh.TickmeshException.Kind;
import io.grpc.Context;
import io.grpc.Status;
import io.grpc.netty.shaded.io.grpc.netty.NettyChannelBuilder;
import io.grpc.stub.StreamObserver;
import java.io.IOException;
import java.nio.channels.ClosedChannelException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Arrays;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.TimeUnit;
import java.util.logging.Handler;
import java.util.logging.LogRecord;
import java.util.logging.Logger;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import tickmesh.v1.Scan;
import tickmesh.v1.Write.WriteRequest;
import tickmesh.v1.Write.WriteResponse;
import tickmesh.v1.Write.WriteResult;

/** Talks with a server that answers writes as a test says. */
class ClientTest {
  private static final Sample SAMPLE = new Sample(Series.of("m"), 1, 1);

  private static void written(WriteRequest request, StreamObserver<WriteResponse> answer) {
    answer.onNext(WriteResponse.newBuilder().setResult(WriteResult.getDefaultInstance()).build());
    answer.onCompleted();
  }

  private static Kind kindOf(Status status) {
    return Errors.ofCall(status.asRuntimeException(), "router").kind();
  }

  @Test
  void onlyAnUnknownOfTheOwnTransportIsUnavailable() {
    Status own = Status.UNKNOWN.withDescription("channel closed");
    assertEquals(Kind.UNAVAILABLE, kindOf(own.withCause(new ClosedChannelException())));
    assertEquals(Kind.INTERNAL, kindOf(own.withCause(new IllegalStateException())));
    assertEquals(Kind.INTERNAL, kindOf(own));
  }

  @Test
  void addressesMayBeOfIpVersion6() throws IOException {
    try (FakeServer server = new FakeServer("[::1]", ClientTest::written);
        TickmeshClient client = TickmeshClient.builder(server.address()).build()) {
      client.write(SAMPLE);
    }
  }

  @Test
  void anAddressThatIsNoneLeavesNoConnectionOpen() throws InterruptedException {
    // The channels that gRPC tells of, as they were collected without being closed.
    Set<String> orphans = ConcurrentHashMap.newKeySet();
    Handler handler =
        new Handler() {
          @Override
          public void publish(LogRecord entry) {
            orphans.add(Arrays.toString(entry.getParameters()));
          }

          @Override
          public void flush() {}

          @Override
          public void close() {}
        };
    Logger logger = Logger.getLogger("io.grpc.internal.ManagedChannelOrphanWrapper");
    logger.addHandler(handler);
    logger.setUseParentHandlers(false);
    try {
      for (String wrong : new String[] {"127.0.0.1:x y", "nobody://127.0.0.1:1", "[::1:1"}) {
        TickmeshException error =
            assertThrows(
                TickmeshException.class,
                () -> TickmeshClient.builder("127.0.0.1:7", wrong).build());
        assertEquals(Kind.OPTIONS, error.kind());
        assertTrue(error.getMessage().contains(wrong), error.getMessage());
      }
      // gRPC tells of it when the next channel is made. Two that are left open show that it does.
      awaitOrphan("orphan-1", orphans);
      awaitOrphan("orphan-2", orphans);
    } finally {
      logger.removeHandler(handler);
      logger.setUseParentHandlers(true);
    }
    assertTrue(orphans.stream().noneMatch(o -> o.contains("127.0.0.1:7")), orphans.toString());
  }

  /** Leaves a channel open and waits until gRPC has told of it. */
  private static void awaitOrphan(String name, Set<String> orphans) {
    NettyChannelBuilder.forTarget("dns:///" + name).build();
    while (orphans.stream().noneMatch(o -> o.contains(name))) {
      System.gc();
      Thread.yield();
      TickmeshClient.builder("127.0.0.1:1").build().close();
    }
  }

  @Test
  void filesThatAreNoPemAreOptionsThatCannotWork(@TempDir Path folder) throws IOException {
    Path file = Files.writeString(folder.resolve("file"), "no PEM");
    for (Tls tls :
        new Tls[] {
          Tls.ofCa(file), Tls.system().withCertificate(file, file), Tls.ofCa(folder.resolve("none"))
        }) {
      TickmeshException error =
          assertThrows(
              TickmeshException.class,
              () -> TickmeshClient.builder("127.0.0.1:1").tls(tls).build());
      assertEquals(Kind.OPTIONS, error.kind());
      assertTrue(error.getMessage().startsWith("tls: "), error.getMessage());
    }
  }

  @Test
  void columnsAreAsLongAsTheirTimes() {
    Scan.Columns columns =
        Scan.Columns.newBuilder().addTimeDeltasMs(1).addTimeDeltasMs(1).addValues(1).build();
    TickmeshException error =
        assertThrows(TickmeshException.class, () -> Chunk.ofMessage(SAMPLE.series(), columns));
    assertEquals(Kind.INTERNAL, error.kind());
  }

  @Test
  void theServerKnowsTheTimeOfAnAttempt() throws Exception {
    CompletableFuture<Long> seconds = new CompletableFuture<>();
    try (FakeServer server =
            new FakeServer(
                (request, answer) -> {
                  seconds.complete(Context.current().getDeadline().timeRemaining(TimeUnit.SECONDS));
                  written(request, answer);
                });
        TickmeshClient client =
            TickmeshClient.builder(server.address())
                .attemptTimeout(Duration.ofHours(2))
                .writeTimeout(Duration.ofHours(3))
                .build()) {
      client.write(SAMPLE);
    }
    assertTrue(seconds.get() <= 7200 && seconds.get() > 3600, seconds.get() + " s");
  }

  @Test
  void aTokenThatNoHeaderHasEndsTheCall() throws IOException {
    for (String token : new String[] {null, "", " \n", "a b", "a\r\nb", "ä"}) {
      try (FakeServer server = new FakeServer(ClientTest::written);
          TickmeshClient client =
              TickmeshClient.builder(server.address()).token(() -> token).build()) {
        TickmeshException error = assertThrows(TickmeshException.class, () -> client.write(SAMPLE));
        assertEquals(Kind.OPTIONS, error.kind());
      }
    }
  }

  @Test
  void aWriterThatIsClosedGivesUpItsCall() throws Exception {
    CountDownLatch asked = new CountDownLatch(1);
    try (FakeServer server = new FakeServer((request, answer) -> asked.countDown());
        TickmeshClient client =
            TickmeshClient.builder(server.address())
                .attemptTimeout(Duration.ofDays(200_000))
                .writeTimeout(Duration.ofDays(200_000))
                .build()) {
      Writer writer = client.writerBuilder().batchPoints(1).build();
      writer.append(SAMPLE.series(), 1, 1);
      writer.append(SAMPLE.series(), 2, 1);
      asked.await();
      WriteException lost =
          assertThrows(WriteException.class, () -> writer.close(Duration.ofMillis(20)));
      assertEquals(2, lost.points());
      lost.failures().forEach(e -> assertEquals(Kind.DEADLINE, e.kind()));
    }
  }

  @Test
  void anInterruptEndsACallThatWaits() throws Exception {
    CountDownLatch asked = new CountDownLatch(1);
    try (FakeServer server = new FakeServer((request, answer) -> asked.countDown());
        TickmeshClient client = TickmeshClient.builder(server.address()).build()) {
      CompletableFuture<Boolean> stays = new CompletableFuture<>();
      Thread caller =
          new Thread(
              () -> {
                try {
                  client.write(SAMPLE);
                  stays.completeExceptionally(new AssertionError("it is written"));
                } catch (TickmeshException e) {
                  stays.complete(
                      e.kind() == Kind.CANCELLED && Thread.currentThread().isInterrupted());
                }
              });
      caller.start();
      asked.await();
      caller.interrupt();
      assertTrue(stays.get());
    }
  }

  @Test
  void anErrorOfAThreadThatIsInterruptedStaysWhatItIs() throws IOException {
    try (FakeServer server = new FakeServer(ClientTest::written);
        TickmeshClient client =
            TickmeshClient.builder(server.address())
                .token(
                    () -> {
                      Thread.currentThread().interrupt();
                      throw new IllegalStateException("no token");
                    })
                .build()) {
      TickmeshException error = assertThrows(TickmeshException.class, () -> client.write(SAMPLE));
      assertTrue(Thread.interrupted());
      assertEquals(Kind.INTERNAL, error.kind());
      assertTrue(error.getMessage().contains("no token"), error.getMessage());
    }
  }

  @Test
  void aWriterThatIsOpenedWhileItsClientClosesEnds() throws Exception {
    for (int round = 0; round < 500; round++) {
      TickmeshClient client = TickmeshClient.builder("127.0.0.1:1").build();
      CyclicBarrier start = new CyclicBarrier(2);
      CompletableFuture<Void> closes =
          CompletableFuture.runAsync(
              () -> {
                assertDoesNotThrow(() -> start.await());
                client.close();
              });
      start.await();
      try {
        for (int i = 0; i < 100; i++) { // few, however late the other thread is
          client.writer();
        }
      } catch (TickmeshException e) {
        assertEquals(Kind.CLOSED, e.kind());
      }
      closes.get();
      assertThrows(TickmeshException.class, client::writer);
    }
    for (Thread thread : Thread.getAllStackTraces().keySet()) {
      if (thread.getName().equals("tickmesh-writer")) {
        thread.join();
      }
    }
  }
}
