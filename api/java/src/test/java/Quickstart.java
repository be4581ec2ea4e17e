import io.github.tickmesh.Chunk;
import io.github.tickmesh.Matcher;
import io.github.tickmesh.Query;
import io.github.tickmesh.Sample;
import io.github.tickmesh.Selector;
import io.github.tickmesh.Series;
import io.github.tickmesh.TickmeshClient;
import java.util.Map;

final class Quickstart {
  public static void main(String[] args) {
    String endpoints = System.getenv().getOrDefault("TICKMESH_ENDPOINTS", "127.0.0.1:6183");
    try (var client = TickmeshClient.builder(endpoints.split(",")).build()) {
      var cpu = Series.of("cpu", Map.of("host", "a"));

      // One write, answered when a majority of the replicas has it.
      client.write(new Sample(cpu, 1_700_000_000_000L, 0.64));

      // Many samples: gathered into batches, sent in the background. append waits while the buffer
      // is full.
      try (var writer = client.writer()) {
        for (int i = 1; i < 100_000; i++) {
          writer.append(cpu, 1_700_000_000_000L + i, i / 10.0);
        }
      } // sends what is left; throws what was lost

      long points = 0;
      var selector = Selector.metric("cpu").where(Matcher.equal("host", "a"));
      for (Chunk chunk : client.query(Query.of(selector, 0, 1_800_000_000_000L))) {
        points += chunk.values().length;
      }
      System.out.println(points + " points of " + cpu);
    }
  }
}
