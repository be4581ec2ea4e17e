/** Units of values, as the names in a query tell them, and numbers written in them. */
import { formatBytes, formatDuration, formatNumber } from "./format";

export const units = ["none", "bytes", "bytes/s", "seconds", "percent", "ratio"] as const;
export type Unit = (typeof units)[number];

const suffixes: [RegExp, Unit][] = [
  [/[._](bytes)$/, "bytes"],
  [/[._](seconds)$/, "seconds"],
  [/[._](percent)$/, "percent"],
  [/[._](ratio)$/, "ratio"],
];

/** Endings of names that follow the unit. */
const endings = /_(total|sum|bucket|max|min|avg)$/;

/** Functions and aggregations after which a number is of no unit. */
const unitless =
  /\b(count|count_values|count_over_time|changes|resets|stddev|stdvar|absent|group|timestamp|elapsed)\b/i;
const perSecond = /\b(rate|irate|deriv|derivative|non_negative_derivative)\b/i;

/**
 * guessedUnit tells the unit of what a query answers with by the suffixes of the metrics in it: node_memory_free_bytes.
 * Where it is not clear there is none.
 */
export function guessedUnit(text: string): Unit {
  const plain = text.replace(/"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'/g, (quoted) =>
    /^["'][\w.:]+["']$/.test(quoted) ? quoted : " ",
  );
  if (unitless.test(plain) || /[/*^]/.test(plain.replace(/[:=]\*|\*[})]/g, ""))) {
    return "none";
  }
  const found = new Set<Unit>();
  for (const word of plain.match(/[A-Za-z_][\w.:]*/g) ?? []) {
    const unit = suffixes.find(([suffix]) => suffix.test(word.replace(endings, "")))?.[1];
    if (unit !== undefined) {
      found.add(unit);
    }
  }
  const [unit, ...others] = found;
  if (unit === undefined || others.length > 0) {
    return "none";
  }
  if (!perSecond.test(plain) || plain.includes("histogram_quantile")) {
    return unit;
  }
  return unit === "bytes" ? "bytes/s" : "none";
}

/** formatUnit writes a number in its unit. */
export function formatUnit(value: number | null | undefined, unit: Unit): string {
  if (value === null || value === undefined || !Number.isFinite(value) || unit === "none") {
    return formatNumber(value);
  }
  const sign = value < 0 ? "−" : "";
  switch (unit) {
    case "bytes":
      return sign + formatBytes(Math.abs(value));
    case "bytes/s":
      return `${sign}${formatBytes(Math.abs(value))}/s`;
    case "seconds":
      return value === 0 ? "0 s" : sign + formatDuration(Math.abs(value) * 1000);
    case "percent":
      return `${formatNumber(value)} %`;
    case "ratio":
      return `${formatNumber(value * 100)} %`;
  }
}
