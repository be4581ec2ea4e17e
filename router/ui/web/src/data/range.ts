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

/**
 * parseMoment reads a moment as people write it: "now", "now-90m", Unix seconds or milliseconds, or a date, with its
 * time or without, in the browser's time zone, or with Z or an offset in that one. null: it is none.
 */
export function parseMoment(text: string, nowMs: number): number | null {
  const trimmed = text.trim();
  const relative = /^now(?:\s*-\s*(\d+[smhdw]))?$/.exec(trimmed);
  if (relative !== null) {
    const span = relative[1] === undefined ? 0 : parseSpan(relative[1]);
    return span === null ? null : nowMs - span;
  }
  if (/^\d{9,10}$/.test(trimmed)) {
    return Number(trimmed) * 1000;
  }
  if (/^\d{12,13}$/.test(trimmed)) {
    return Number(trimmed);
  }
  const date = /^(\d{4}-\d\d-\d\d)(?:[ T](\d\d:\d\d(?::\d\d(?:\.\d{1,3})?)?) ?(Z|UTC|[+-]\d\d:\d\d)?)?$/.exec(trimmed);
  if (date === null) {
    return null;
  }
  // A date alone would be one in UTC.
  const ms = Date.parse(`${date[1]}T${date[2] ?? "00:00"}${date[3] === "UTC" ? "Z" : (date[3] ?? "")}`);
  return Number.isNaN(ms) ? null : ms;
}

/**
 * chosenRange gives the parameters from and to of what people wrote into two fields: a span until now stays one, and
 * all else is two moments. null: it is no range.
 */
export function chosenRange(from: string, to: string, nowMs: number): { from: string; to: string } | null {
  const span = /^now\s*-\s*(\d+[smhdw])$/.exec(from.trim())?.[1];
  if (span !== undefined && parseSpan(span) !== null && to.trim() === "now") {
    return { from: span, to: "" };
  }
  const [fromMs, toMs] = [parseMoment(from, nowMs), parseMoment(to, nowMs)];
  return fromMs === null || toMs === null || fromMs >= toMs ? null : { from: String(fromMs), to: String(toMs) };
}

/** parseStep gives the seconds between points that somebody chose, "30s"; null: the page is to choose. */
export function parseStep(text: string): number | null {
  const ms = parseSpan(text);
  return ms === null ? null : ms / 1000;
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
