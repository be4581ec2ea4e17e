package io.github.tickmesh;

import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;

/** A `tickmesh standalone` with a folder of its own, which may be killed and started again. */
final class Standalone implements AutoCloseable {
  static final String BINARY =
      Path.of("../../bin/tickmesh").toAbsolutePath().normalize().toString();

  private final Path folder;
  private final List<String> flags;
  private final Map<String, String> addresses =
      new HashMap<>(Map.of("grpc", "127.0.0.1:0", "http", "127.0.0.1:0"));
  private Process process;

  Standalone(String... flags) throws IOException {
    this.folder = Files.createTempDirectory("tickmesh-java-");
    this.flags = List.of(flags);
    start();
  }

  /** Returns where its gRPC port is: chosen at the first start, kept after. */
  String address() {
    return addresses.get("grpc");
  }

  /** Starts it and waits until it listens. */
  void start() throws IOException {
    List<String> command =
        new ArrayList<>(
            List.of(BINARY, "standalone", "--data-dir", folder.resolve("data").toString()));
    command.addAll(List.of("--log-format", "json", "--put-addr", "", "--line-addr", ""));
    command.addAll(
        List.of("--http-addr", addresses.get("http"), "--grpc-addr", addresses.get("grpc")));
    command.addAll(flags);
    process = new ProcessBuilder(command).redirectOutput(ProcessBuilder.Redirect.DISCARD).start();
    BufferedReader log = process.errorReader();
    StringBuilder text = new StringBuilder();
    for (int listening = 0; listening < 2; ) {
      String line = log.readLine();
      if (line == null) {
        throw new IOException("the server ended:\n" + text);
      }
      text.append(line).append('\n');
      JsonObject entry =
          line.startsWith("{") ? JsonParser.parseString(line).getAsJsonObject() : new JsonObject();
      if (entry.has("msg") && entry.get("msg").getAsString().equals("listening")) {
        String port = entry.get("port").getAsString();
        if (addresses.containsKey(port)) {
          addresses.put(port, entry.get("address").getAsString());
          listening++;
        }
      }
    }
    Thread reader = new Thread(() -> discard(log)); // so that the server may write
    reader.setDaemon(true);
    reader.start();
  }

  private static void discard(BufferedReader log) {
    try {
      log.lines().forEach(line -> {});
    } catch (UncheckedIOException closed) {
      // Java closes the stream of a process that has ended.
    }
  }

  /** Kills it with all that it holds in memory, and waits for its end. */
  void kill() throws InterruptedException {
    process.destroyForcibly().waitFor();
  }

  @Override
  public void close() throws IOException {
    process.destroyForcibly().onExit().join();
    remove(folder);
  }

  static void remove(Path folder) throws IOException {
    try (Stream<Path> files = Files.walk(folder)) {
      for (Path file : files.sorted(Comparator.reverseOrder()).toList()) {
        Files.delete(file);
      }
    }
  }

  /** Runs a command of the program and returns its standard output. */
  static String run(String... args) throws IOException {
    List<String> command = new ArrayList<>(List.of(BINARY));
    command.addAll(List.of(args));
    Process p = new ProcessBuilder(command).redirectError(ProcessBuilder.Redirect.INHERIT).start();
    return new String(p.getInputStream().readAllBytes(), java.nio.charset.StandardCharsets.UTF_8);
  }
}
