/** Rates of counters that the page has asked for again and again. */

/** How many rates are kept: five minutes of one every two seconds. */
export const samplesMax = 150;

export interface Sample {
  timeMs: number;
  value: number;
}

/** A Counter remembers its last value and the rates before. */
export interface Counter {
  last: Sample | null;
  /** Per second; null where the counter began anew. */
  rates: (number | null)[];
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
  const rate = sample.value < last.value ? null : (sample.value - last.value) / seconds;
  return { last: sample, rates: [...counter.rates, rate].slice(-samplesMax) };
}

/** newest gives the last rate; null: there is none yet. */
export function newest(counter: Counter | undefined): number | null {
  return counter?.rates.at(-1) ?? null;
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
