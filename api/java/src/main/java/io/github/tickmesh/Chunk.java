package io.github.tickmesh;

import tickmesh.v1.Scan;

/**
 * A stretch of one series, in order of time. With windows, timesMs has their starts, and the
 * columns that were asked for are as long; else values is. The arrays are the caller's; two chunks
 * are equal only if their arrays are the same ones.
 *
 * @param series whose stretch it is
 * @param timesMs milliseconds since 1970 UTC
 * @param values of samples
 * @param sums of windows
 * @param counts of windows
 * @param mins of windows
 * @param maxs of windows
 * @param firsts of windows
 * @param lasts of windows
 */
public record Chunk(
    Series series,
    long[] timesMs,
    double[] values,
    double[] sums,
    long[] counts,
    double[] mins,
    double[] maxs,
    double[] firsts,
    double[] lasts) {

  static Chunk ofMessage(Series series, Scan.Columns c) {
    long[] times = new long[c.getTimeDeltasMsCount()];
    long time = 0;
    for (int i = 0; i < times.length; i++) {
      time += c.getTimeDeltasMs(i);
      times[i] = time;
    }
    return new Chunk(
        series,
        times,
        c.getValuesList().stream().mapToDouble(v -> v).toArray(),
        c.getSumsList().stream().mapToDouble(v -> v).toArray(),
        c.getCountsList().stream().mapToLong(v -> v).toArray(),
        c.getMinsList().stream().mapToDouble(v -> v).toArray(),
        c.getMaxsList().stream().mapToDouble(v -> v).toArray(),
        c.getFirstsList().stream().mapToDouble(v -> v).toArray(),
        c.getLastsList().stream().mapToDouble(v -> v).toArray());
  }
}
