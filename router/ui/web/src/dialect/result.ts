/** What an answer in any dialect comes down to. */

export interface Series {
  /** The metric, function or expression; may be empty. */
  name: string;
  labels: Record<string, string>;
  /** Unix milliseconds, growing. */
  times: number[];
  /** null: no number. As long as times. */
  values: (number | null)[];
  /** Between points, milliseconds, where the query made it so: more between two of them is a gap. */
  stepMs?: number;
}

export interface Table {
  title: string;
  columns: string[];
  rows: string[][];
}

export interface Result {
  series: Series[];
  /** What is no series over time. */
  tables: Table[];
  /** Warnings of the server, and what the page has to say to the answer. */
  notes: string[];
}

/** Failure is an error that the answer tells of, where known with its place in the query. */
export class Failure extends Error {
  constructor(
    message: string,
    readonly line?: number,
    readonly column?: number,
  ) {
    super(message);
  }
}

export function emptyResult(): Result {
  return { series: [], tables: [], notes: [] };
}

/** seriesName writes a series as PromQL does, which every dialect's people can read. */
export function seriesName(s: { name: string; labels: Record<string, string> }): string {
  const labels = Object.entries(s.labels).map(([name, value]) => `${name}=${JSON.stringify(value)}`);
  return labels.length === 0 ? s.name || "{}" : `${s.name}{${labels.join(", ")}}`;
}

/** apart takes from several series the labels that all of them have alike, which tell none of them from another. */
export function apart(series: Series[]): { common: Record<string, string>; series: Series[] } {
  const [first, ...others] = series;
  if (first === undefined || others.length === 0) {
    return { common: {}, series };
  }
  const alike = Object.entries(first.labels).filter(([name, value]) => others.every((s) => s.labels[name] === value));
  const common = Object.fromEntries(alike);
  if (alike.length === 0) {
    return { common, series };
  }
  const left = (labels: Record<string, string>) => Object.entries(labels).filter(([name]) => !(name in common));
  return { common, series: series.map((s) => ({ ...s, labels: Object.fromEntries(left(s.labels)) })) };
}

/** isObject narrows what JSON gave. */
export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

export function asArray(value: unknown): unknown[] {
  return Array.isArray(value) ? value : [];
}

export function asText(value: unknown): string {
  return typeof value === "string" ? value : value === null || value === undefined ? "" : JSON.stringify(value);
}

/** asLabels takes an object's members as labels. */
export function asLabels(value: unknown): Record<string, string> {
  const labels: Record<string, string> = {};
  if (isObject(value)) {
    for (const [name, v] of Object.entries(value)) {
      labels[name] = asText(v);
    }
  }
  return labels;
}

/** asNumber reads a number, or its text with NaN and infinities; null: it is none. */
export function asNumber(value: unknown): number | null {
  if (typeof value === "number") {
    return Number.isNaN(value) ? null : value;
  }
  if (typeof value !== "string" || value.trim() === "") {
    return null;
  }
  const infinite = /^([+-]?)inf(inity)?$/i.exec(value);
  if (infinite !== null) {
    return infinite[1] === "-" ? -Infinity : Infinity;
  }
  const n = Number(value);
  return Number.isNaN(n) ? null : n;
}
