import type { Range } from "../data/range";
import { spanText } from "../data/range";
import {
  asArray,
  asLabels,
  asNumber,
  asText,
  emptyResult,
  Failure,
  isObject,
  type Result,
  type Series,
} from "./result";

/** influxqlRequest gives the request of statements, with $timeFilter and $__interval put in. */
export function influxqlRequest(
  text: string,
  range: Range,
  stepSeconds: number,
): { path: string; params: URLSearchParams } {
  const filter = `(time >= ${Math.floor(range.fromMs)}ms AND time <= ${Math.floor(range.toMs)}ms)`;
  const query = text.replaceAll("$timeFilter", filter).replaceAll("$__interval", spanText(stepSeconds));
  return { path: "query", params: new URLSearchParams({ q: query, epoch: "ms" }) };
}

/** influxqlReopened takes out the range of time that influxqlRequest put in. */
export function influxqlReopened(told: string): { text: string; range?: Range } {
  const put = /\(time >= (\d+)ms AND time <= (\d+)ms\)/g;
  const first = put.exec(told);
  return first === null
    ? { text: told }
    : { text: told.replace(put, "$$timeFilter"), range: { fromMs: Number(first[1]), toMs: Number(first[2]) } };
}

/** influxqlNotes says what a query leaves out that the page offers. */
export function influxqlNotes(text: string): string[] {
  return /\bselect\b/i.test(text) && !text.includes("$timeFilter")
    ? ["The query has no $timeFilter: the range of time above does not count for it."]
    : [];
}

/** influxqlResult reads the answer of /query with times in milliseconds. */
export function influxqlResult(body: unknown): Result {
  const result = emptyResult();
  if (!isObject(body) || !Array.isArray(body.results)) {
    throw new Failure("The answer is not one of InfluxDB's API.");
  }
  for (const statement of body.results) {
    if (!isObject(statement)) {
      continue;
    }
    if (typeof statement.error === "string") {
      throw influxqlFailure(statement.error);
    }
    for (const message of asArray(statement.messages)) {
      result.notes.push(isObject(message) ? asText(message.text) : asText(message));
    }
    for (const item of asArray(statement.series)) {
      if (isObject(item)) {
        addSeries(result, item);
      }
    }
  }
  return result;
}

/** addSeries takes each column of numbers as a series of its own, and what has no times as a table. */
function addSeries(result: Result, item: Record<string, unknown>): void {
  const columns = asArray(item.columns).map(asText);
  const rows = asArray(item.values).map(asArray);
  const name = asText(item.name);
  const labels = asLabels(item.tags);
  const timed = columns[0] === "time" && rows.every((row) => typeof row[0] === "number");
  const numeric = columns.map((_, c) => c > 0 && rows.some((row) => typeof row[c] === "number"));
  if (!timed || !numeric.includes(true)) {
    result.tables.push({ title: name, columns, rows: rows.map((row) => row.map(asText)) });
    return;
  }
  const ordered = rows.toSorted((a, b) => Number(a[0]) - Number(b[0]));
  columns.forEach((column, c) => {
    if (!numeric[c]) {
      return;
    }
    const series: Series = { name: `${name}.${column}`, labels, times: [], values: [] };
    for (const row of ordered) {
      const value = asNumber(row[c]);
      if (value !== null) {
        series.times.push(Number(row[0]));
        series.values.push(value);
      }
    }
    const apart = medianApart(series.times);
    if (apart !== null) {
      series.stepMs = 2 * apart;
    }
    result.series.push(series);
  });
}

/**
 * medianApart returns how far apart points usually are; null: there are too few. A window
 * without points is null in InfluxQL, also where windows are shorter than the time between
 * points: only what is missing for much longer than usual is a gap.
 */
function medianApart(times: number[]): number | null {
  const apart = times.slice(1).map((time, i) => time - (times[i] ?? time));
  return apart.sort((a, b) => a - b)[Math.floor(apart.length / 2)] ?? null;
}

/** influxqlFailure finds the place that InfluxData's parser names: "… at line 1, char 8". */
export function influxqlFailure(message: string): Failure {
  const match = /at line (\d+), char (\d+)/.exec(message);
  return match === null ? new Failure(message) : new Failure(message, Number(match[1]), Number(match[2]));
}

export function quoteIdent(name: string): string {
  return `"${name.replaceAll("\\", "\\\\").replaceAll('"', '\\"')}"`;
}

export function quoteText(text: string): string {
  return `'${text.replaceAll("\\", "\\\\").replaceAll("'", "\\'")}'`;
}

/** influxqlSelect picks the series of a measurement that have the tags; a tag _field is a field. */
export function influxqlSelect(metric: string, tags: Record<string, string>): string {
  const { _field: field = "value", ...rest } = tags;
  const where = [
    "$timeFilter",
    ...Object.entries(rest).map(([name, value]) => `${quoteIdent(name)} = ${quoteText(value)}`),
  ];
  return `SELECT mean(${quoteIdent(field)}) FROM ${quoteIdent(metric)} WHERE ${where.join(" AND ")} GROUP BY time($__interval), * fill(none)`;
}
