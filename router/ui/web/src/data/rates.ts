/** Rates of counters that the page has asked for again and again. */

/** How long rates are kept, and drawn. */
export const keptMs = 5 * 60e3;

export interface Sample {
  timeMs: number;
  value: number;
}

/** A Rate is what came a second until a moment; null where the counter began anew. */
export interface Rate {
  timeMs: number;
  value: number | null;
}

/** A Counter remembers its last value and the rates before. */
export interface Counter {
  last: Sample | null;
  rates: Rate[];
}

export function newCounter(): Counter {
  return { last: null, rates: [] };
}

/** observed gives the counter with one more value. One that has become lower began anew. */
export function observed(counter: Counter, sample: Sample): Counter {
  const { last } = counter;
  if (last === null) {
    return { last: sample, rates: counter.rates };
  }
  const seconds = (sample.timeMs - last.timeMs) / 1000;
  if (seconds <= 0) {
    return counter;
  }
  const value = sample.value < last.value ? null : (sample.value - last.value) / seconds;
  const kept = counter.rates.filter((rate) => rate.timeMs > sample.timeMs - keptMs);
  return { last: sample, rates: [...kept, { timeMs: sample.timeMs, value }] };
}

/** newest gives the last rate; null: there is none yet. */
export function newest(counter: Counter | undefined): number | null {
  return counter?.rates.at(-1)?.value ?? null;
}

/** A Board is counters by name. */
export type Board = Record<string, Counter>;

/** observedAll gives the board with one more value of each counter; those without one are forgotten. */
export function observedAll(board: Board, timeMs: number, values: Record<string, number>): Board {
  const next: Board = {};
  for (const [name, value] of Object.entries(values)) {
    next[name] = observed(board[name] ?? newCounter(), { timeMs, value });
  }
  return next;
}

/** summed gives the rates of all counters together, at each moment of which any of them knows. */
export function summed(board: Board): Rate[] {
  const sums = new Map<number, number>();
  for (const { rates } of Object.values(board)) {
    for (const { timeMs, value } of rates) {
      sums.set(timeMs, (sums.get(timeMs) ?? 0) + (value ?? 0));
    }
  }
  return [...sums].map(([timeMs, value]) => ({ timeMs, value })).sort((a, b) => a.timeMs - b.timeMs);
}
