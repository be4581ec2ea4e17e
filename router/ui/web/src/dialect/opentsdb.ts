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

/** opentsdbRequest gives the request of expressions, one a line: avg:1m-avg:cpu{host=*}. */
export function opentsdbRequest(
  text: string,
  range: Range,
  stepSeconds: number,
): { path: string; params: URLSearchParams } {
  const params = new URLSearchParams({
    start: String(Math.floor(range.fromMs)),
    end: String(Math.floor(range.toMs)),
    ms: "true",
    arrays: "true",
  });
  for (const line of text.split("\n")) {
    const expression = line.trim().replace(/^(m=)/, "").replaceAll("$__interval", spanText(stepSeconds));
    if (expression.startsWith("tsuid=")) {
      params.append("tsuid", expression.slice("tsuid=".length));
    } else if (expression !== "" && !expression.startsWith("#")) {
      params.append("m", expression);
    }
  }
  return { path: "api/query", params };
}

/**
 * opentsdbReopened reads the line of a request, decoded: /api/query?start=…&m=…. Other requests, as those with a body,
 * are not what the page asks.
 */
export function opentsdbReopened(told: string): { text: string; range?: Range } | null {
  const [path, query] = [told.slice(0, told.indexOf("?")), told.slice(told.indexOf("?") + 1)];
  if (!path.endsWith("/api/query")) {
    return null;
  }
  const parts = query.split(/&(?=\w+(?:=|&|$))/);
  const parameter = (name: string) => parts.find((part) => part.startsWith(`${name}=`))?.slice(name.length + 1) ?? "";
  const lines = parts
    .map((part) => (part.startsWith("m=") ? part.slice(2) : part.startsWith("tsuid=") ? part : ""))
    .filter((line) => line !== "");
  if (lines.length === 0 || /\s\{"/.test(query)) {
    return null;
  }
  const text = lines.join("\n");
  const [fromMs, toMs] = [Number(parameter("start")), Number(parameter("end"))];
  return fromMs > 1e11 && toMs > fromMs ? { text, range: { fromMs, toMs } } : { text };
}

/** opentsdbResult reads the answer of /api/query, with points as pairs or as an object. */
export function opentsdbResult(body: unknown): Result {
  const result = emptyResult();
  if (!Array.isArray(body)) {
    throw new Failure("The answer is not one of OpenTSDB's API.");
  }
  for (const item of body) {
    if (!isObject(item) || !("dps" in item)) {
      continue; // the summary of statistics
    }
    const points = isObject(item.dps)
      ? Object.entries(item.dps).map(([time, value]) => [Number(time), value] as const)
      : asArray(item.dps).map((pair) => {
          const [time, value] = asArray(pair);
          return [Number(time), value] as const;
        });
    const series: Series = { name: asText(item.metric), labels: asLabels(item.tags), times: [], values: [] };
    for (const [time, value] of points) {
      // Seconds have at most ten digits, also in 2286.
      series.times.push(Math.abs(time) < 1e11 ? time * 1000 : time);
      series.values.push(asNumber(value));
    }
    const aggregated = asArray(item.aggregateTags).map(asText);
    if (aggregated.length > 0) {
      series.labels = { ...series.labels, ...Object.fromEntries(aggregated.map((tag) => [tag, "(all)"])) };
    }
    result.series.push(series);
  }
  return result;
}

/** opentsdbExpression picks the series of a metric that have the tags. */
export function opentsdbExpression(metric: string, tags: Record<string, string>): string {
  const inside = Object.entries(tags).map(
    ([name, value]) => `${name}=${/[|*{},()]/.test(value) ? `literal_or(${value})` : value}`,
  );
  return inside.length === 0 ? `none:${metric}` : `none:${metric}{${inside.join(",")}}`;
}
