package io.github.tickmesh;

import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import tickmesh.v1.Write.BatchId;
import tickmesh.v1.Write.RefusedSeries;
import tickmesh.v1.Write.SeriesHandle;
import tickmesh.v1.Write.WriteLevel;
import tickmesh.v1.Write.WriteResult;

/** Samples that are sent together, under one id. */
final class Batch {
  /** Bounds of a batch, which fits a message. */
  static final int POINTS_MAX = 50_000;

  static final int BYTES_MAX = 3 << 20;

  /** Bytes of a sample: its value, handle and time, at most. */
  private static final int SAMPLE_BYTES = 8 + 4 + 10;

  /** What was refused: for now, to be sent again as a batch of its own, with why; and for ever. */
  record Refusals(Batch again, TickmeshException why, List<WriteException.Refused> refused) {}

  private final Map<Series, Integer> handles = new LinkedHashMap<>();
  private final List<Sample> samples = new ArrayList<>();
  private long bytes;

  int points() {
    return samples.size();
  }

  /** Returns about how many bytes the message would have with another sample, at most. */
  long bytesWith(Series series) {
    return bytes + SAMPLE_BYTES + (handles.containsKey(series) ? 0 : series.messageBytes());
  }

  void add(Sample sample) {
    bytes = bytesWith(sample.series());
    handles.putIfAbsent(sample.series(), handles.size());
    samples.add(sample);
  }

  tickmesh.v1.Write.Batch toMessage(BatchId id, WriteLevel level) {
    var m = tickmesh.v1.Write.Batch.newBuilder().setBatchId(id).setLevel(level);
    handles.forEach(
        (series, handle) ->
            m.addDefinitions(
                SeriesHandle.newBuilder().setHandle(handle).setSeries(series.toMessage())));
    long before = 0;
    for (Sample sample : samples) {
      m.addHandles(handles.get(sample.series()));
      m.addTimeDeltasMs(sample.timeMs() - before);
      m.addValues(sample.value());
      before = sample.timeMs();
    }
    return m.build();
  }

  Refusals refusals(WriteResult result) {
    Map<Integer, TickmeshException> errors = new HashMap<>();
    for (RefusedSeries r : result.getRefusedList()) {
      errors.put(r.getHandle(), Errors.ofMessage(r.getError()));
    }
    Batch again = new Batch();
    TickmeshException why = null;
    Map<Series, Long> lost = new LinkedHashMap<>();
    if (!errors.isEmpty()) {
      for (Sample sample : samples) {
        TickmeshException error = errors.get(handles.get(sample.series()));
        if (error != null && error.retryAfter().compareTo(Duration.ZERO) > 0) {
          again.add(sample);
          why = error;
        } else if (error != null) {
          lost.merge(sample.series(), 1L, Long::sum);
        }
      }
    }
    List<WriteException.Refused> refused = new ArrayList<>();
    lost.forEach(
        (series, points) ->
            refused.add(
                new WriteException.Refused(series, points, errors.get(handles.get(series)))));
    return new Refusals(why == null ? null : again, why, refused);
  }
}
