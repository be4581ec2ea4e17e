package io.github.tickmesh;

import java.util.function.IntToDoubleFunction;
import java.util.stream.IntStream;
import tickmesh.v1.Scan;

/**
 * Consecutive samples or windows of one series, in order of time. For a query with windows, timesMs
 * holds their starts, and the columns that were asked for are as long; otherwise values is. Other
 * columns are empty. The arrays belong to the caller; two chunks are equal only if their arrays are
 * the same objects.
 *
 * @param series the series
 * @param timesMs milliseconds since 1970 UTC
 * @param values the values of samples
 * @param sums the sums of windows
 * @param counts the numbers of samples in windows
 * @param mins the least values of windows
 * @param maxs the greatest values of windows
 * @param firsts the first values of windows
 * @param lasts the last values of windows
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

  /** Throws INTERNAL for columns that are not as long as the times. */
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
        column(times.length, c.getValuesCount(), c::getValues),
        column(times.length, c.getSumsCount(), c::getSums),
        IntStream.range(0, checked(times.length, c.getCountsCount()))
            .mapToLong(c::getCounts)
            .toArray(),
        column(times.length, c.getMinsCount(), c::getMins),
        column(times.length, c.getMaxsCount(), c::getMaxs),
        column(times.length, c.getFirstsCount(), c::getFirsts),
        column(times.length, c.getLastsCount(), c::getLasts));
  }

  private static double[] column(int times, int count, IntToDoubleFunction value) {
    return IntStream.range(0, checked(times, count)).mapToDouble(value).toArray();
  }

  private static int checked(int times, int count) {
    if (count != 0 && count != times) {
      throw new TickmeshException(
          TickmeshException.Kind.INTERNAL,
          "the server sent a column of " + count + " values for " + times + " times");
    }
    return count;
  }
}
