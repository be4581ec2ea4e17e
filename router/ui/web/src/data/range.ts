/** Ranges of time, as the address has them: "1h" (until now), or two moments in Unix milliseconds. */

export interface Range {
  fromMs: number;
  toMs: number;
}

export const presets = ["5m", "15m", "1h", "6h", "1d", "7d", "30d"] as const;

const unitMs: Record<string, number> = { s: 1e3, m: 60e3, h: 3600e3, d: 86400e3, w: 7 * 86400e3 };

/** parseSpan gives the milliseconds of "90m"; null: it is none. */
export function parseSpan(text: string): number | null {
  const match = /^(\d{1,9})([smhdw])$/.exec(text.trim());
  if (match === null) {
    return null;
  }
  const ms = Number(match[1]) * (unitMs[match[2] ?? ""] ?? 0);
  return ms > 0 ? ms : null;
}

/** parseRange reads the parameters from and to; what is wrong is the last hour. */
export function parseRange(from: string, to: string, nowMs: number): Range {
  const span = parseSpan(from);
  if (span !== null) {
    return { fromMs: nowMs - span, toMs: nowMs };
  }
  const [fromMs, toMs] = [Number(from), Number(to)];
  if (from !== "" && to !== "" && Number.isSafeInteger(fromMs) && Number.isSafeInteger(toMs) && fromMs < toMs) {
    return { fromMs, toMs };
  }
  return { fromMs: nowMs - 3600e3, toMs: nowMs };
}

const steps = [
  1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800,
];

/** stepFor gives the seconds between points so that a range has at most so many of them. */
export function stepFor(range: Range, pointsMax: number): number {
  const least = (range.toMs - range.fromMs) / 1000 / pointsMax;
  return steps.find((step) => step >= least) ?? Math.ceil(least / 604800) * 604800;
}

/** spanText gives seconds as query languages write them: 300 is "5m". */
export function spanText(seconds: number): string {
  for (const [unit, size] of [
    ["w", 604800],
    ["d", 86400],
    ["h", 3600],
    ["m", 60],
  ] as const) {
    if (seconds % size === 0) {
      return `${seconds / size}${unit}`;
    }
  }
  return `${seconds}s`;
}

/** widened gives a range twice as long with the same middle, not beyond now. */
export function widened(range: Range, nowMs: number): Range {
  const length = range.toMs - range.fromMs;
  const toMs = Math.min(range.toMs + length / 2, Math.max(nowMs, range.toMs));
  return { fromMs: Math.max(0, Math.floor(toMs - 2 * length)), toMs: Math.floor(toMs) };
}

/** shifted moves a range by half its length, back (-1) or on (1). */
export function shifted(range: Range, direction: -1 | 1): Range {
  const by = (direction * (range.toMs - range.fromMs)) / 2;
  return { fromMs: Math.max(0, Math.floor(range.fromMs + by)), toMs: Math.floor(range.toMs + by) };
}

/** onGrid moves both ends of a range back to whole steps, so that points of any two answers lie on one grid. */
export function onGrid(range: Range, stepSeconds: number): Range {
  const step = stepSeconds * 1000;
  return { fromMs: Math.floor(range.fromMs / step) * step, toMs: Math.floor(range.toMs / step) * step };
}
