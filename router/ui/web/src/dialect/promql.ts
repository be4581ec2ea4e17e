import type { Range } from "../data/range";
import { onGrid, spanText } from "../data/range";
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

/** replaced puts in what stands for lengths of time. */
function replaced(text: string, range: Range, stepSeconds: number): string {
  return text
    .replaceAll("$__rate_interval", spanText(Math.max(4 * stepSeconds, 60)))
    .replaceAll("$__interval", spanText(stepSeconds))
    .replaceAll("$__range", `${Math.ceil((range.toMs - range.fromMs) / 1000)}s`);
}

/** promqlInstant gives the request of a query at the end of a range. */
export function promqlInstant(
  text: string,
  range: Range,
  stepSeconds: number,
): { path: string; params: URLSearchParams } {
  const params = new URLSearchParams({ query: replaced(text, range, stepSeconds), time: String(range.toMs / 1000) });
  return { path: "api/v1/query", params };
}

/** promqlRequest gives the request of a query over a range. */
export function promqlRequest(
  text: string,
  range: Range,
  stepSeconds: number,
): { path: string; params: URLSearchParams } {
  const query = replaced(text, range, stepSeconds);
  const { fromMs, toMs } = onGrid(range, stepSeconds);
  return {
    path: "api/v1/query_range",
    params: new URLSearchParams({
      query,
      start: String(fromMs / 1000),
      end: String(toMs / 1000),
      step: String(stepSeconds),
    }),
  };
}

/** promqlResult reads the answer of /api/v1/query_range or /api/v1/query. */
export function promqlResult(body: unknown, stepMs: number): Result {
  const result = emptyResult();
  if (!isObject(body) || !isObject(body.data)) {
    throw new Failure("The answer is not one of the Prometheus API.");
  }
  for (const note of [...asArray(body.warnings), ...asArray(body.infos)]) {
    result.notes.push(asText(note));
  }
  const { resultType } = body.data;
  if (resultType === "scalar" || resultType === "string") {
    const [time, value] = asArray(body.data.result);
    result.tables.push({
      title: asText(resultType),
      columns: ["time", "value"],
      rows: [[asText(time), asText(value)]],
    });
    return result;
  }
  let histograms = 0;
  for (const item of asArray(body.data.result)) {
    if (!isObject(item)) {
      continue;
    }
    const { __name__: name = "", ...labels } = asLabels(item.metric);
    const points = resultType === "vector" ? [item.value] : asArray(item.values);
    if ("histograms" in item || "histogram" in item) {
      histograms++;
    }
    const series: Series = { name, labels, times: [], values: [], stepMs };
    for (const point of points) {
      const [seconds, value] = asArray(point);
      if (typeof seconds === "number") {
        series.times.push(Math.round(seconds * 1000));
        series.values.push(asNumber(value));
      }
    }
    result.series.push(series);
  }
  if (histograms > 0) {
    result.notes.push(
      `${histograms} series have histograms, which are not drawn: see the raw answer, or ask for histogram_quantile.`,
    );
  }
  return result;
}

/** promqlFailure finds the place that a message of Prometheus' parser names: "1:5: parse error: …". */
export function promqlFailure(message: string): Failure {
  const match = /(?:^|: )(\d+):(\d+): /.exec(message);
  return match === null ? new Failure(message) : new Failure(message, Number(match[1]), Number(match[2]));
}

/** promqlSelector picks the series of a metric that have the labels. */
export function promqlSelector(metric: string, labels: Record<string, string>): string {
  const plain = /^[a-zA-Z_:][a-zA-Z0-9_:]*$/.test(metric);
  const inside = Object.entries(labels).map(
    ([name, value]) => `${/^[a-zA-Z_]\w*$/.test(name) ? name : JSON.stringify(name)}=${JSON.stringify(value)}`,
  );
  if (!plain) {
    return `{${[JSON.stringify(metric), ...inside].join(", ")}}`;
  }
  return inside.length === 0 ? metric : `${metric}{${inside.join(", ")}}`;
}
