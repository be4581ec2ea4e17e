/** What the plot draws: all series over the same times. */
import type { Series } from "../dialect/result";

/**
 * Columns has the times first, then a column for each series. undefined: the series has
 * nothing at that time, and its line goes on; null: its line is interrupted.
 */
export type Columns = [number[], ...(number | null | undefined)[][]];

/** withGaps puts a null after each point whose next one is late, so that the line is interrupted there. */
export function withGaps(s: Series): { times: number[]; values: (number | null)[] } {
  if (s.stepMs === undefined) {
    return s;
  }
  const times: number[] = [];
  const values: (number | null)[] = [];
  s.times.forEach((time, i) => {
    const before = s.times[i - 1];
    if (before !== undefined && s.stepMs !== undefined && time - before > 1.5 * s.stepMs) {
      times.push(before + s.stepMs);
      values.push(null);
    }
    times.push(time);
    values.push(s.values[i] ?? null);
  });
  return { times, values };
}

/** aligned puts series over the union of their times. */
export function aligned(series: Series[]): Columns {
  const parts = series.map(withGaps);
  const first = parts[0];
  if (first !== undefined && parts.every((part) => sameTimes(part.times, first.times))) {
    return [first.times, ...parts.map((part) => part.values)];
  }
  const times = [...new Set(parts.flatMap((part) => part.times))].sort((a, b) => a - b);
  const place = new Map(times.map((time, i) => [time, i]));
  const columns = parts.map((part) => {
    const column: (number | null | undefined)[] = new Array(times.length).fill(undefined);
    part.times.forEach((time, i) => {
      const at = place.get(time);
      if (at !== undefined) {
        column[at] = part.values[i] ?? null;
      }
    });
    return column;
  });
  return [times, ...columns];
}

/** stackedColumns gives each column that is not hidden the sum of itself and those before it. */
export function stackedColumns([times, ...columns]: Columns, hidden: boolean[]): Columns {
  const sums: number[] = new Array(times.length).fill(0);
  const stacked = columns.map((column, c) =>
    hidden[c]
      ? column
      : times.map((_, i) => {
          const sum = (sums[i] ?? 0) + (column[i] ?? 0);
          sums[i] = sum;
          return sum;
        }),
  );
  return [times, ...stacked];
}

function sameTimes(a: number[], b: number[]): boolean {
  return a === b || (a.length === b.length && a.every((time, i) => time === b[i]));
}

/** So many points away a value still counts for a time. */
export const reachMax = 32;

/** valueNear gives the value of a column at an index, or of the nearest one before or after within the reach. */
export function valueNear(column: (number | null | undefined)[], index: number, reach: number): number | null {
  for (let distance = 0; distance <= reach; distance++) {
    const value = column[index - distance] ?? column[index + distance];
    if (value !== undefined && value !== null) {
      return value;
    }
  }
  return null;
}

/** A summary of a series for tables. */
export interface Summary {
  count: number;
  last: number | null;
  min: number | null;
  mean: number | null;
  max: number | null;
}

export function summary(values: (number | null)[]): Summary {
  let [count, sum, min, max] = [0, 0, Infinity, -Infinity];
  let last: number | null = null;
  for (const value of values) {
    if (value === null) {
      continue;
    }
    count++;
    sum += value;
    min = Math.min(min, value);
    max = Math.max(max, value);
    last = value;
  }
  return count === 0
    ? { count, last: null, min: null, mean: null, max: null }
    : { count, last, min, mean: sum / count, max };
}
