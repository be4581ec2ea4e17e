import type { Range } from "../data/range";
import {
  influxqlFailure,
  influxqlNotes,
  influxqlReopened,
  influxqlRequest,
  influxqlResult,
  influxqlSelect,
} from "./influxql";
import { opentsdbExpression, opentsdbReopened, opentsdbRequest, opentsdbResult } from "./opentsdb";
import { promqlFailure, promqlInstant, promqlRequest, promqlResult, promqlSelector } from "./promql";
import { Failure, type Result } from "./result";

export const dialectNames = ["promql", "opentsdb", "influxql"] as const;
export type DialectName = (typeof dialectNames)[number];

/** A query as it is written, and its range of time where it is known. */
export interface Reopened {
  text: string;
  range?: Range;
}

/** A query language as the page needs it. */
export interface Dialect {
  name: DialectName;
  title: string;
  /** What an empty editor shows. */
  example: string;
  hint: string;
  request(text: string, range: Range, stepSeconds: number): { path: string; params: URLSearchParams };
  /** instant gives the request at the end of a range alone, where the language has one. */
  instant?(text: string, range: Range, stepSeconds: number): { path: string; params: URLSearchParams };
  /** result reads an answer. Errors: Failure. */
  result(body: unknown, stepSeconds: number): Result;
  /** failure gives a message its place. */
  failure(message: string): Failure;
  /** notes says what a person should know of the text before its answer. */
  notes(text: string): string[];
  /** reopened gives what to write to ask again what the book of queries tells of; null: nothing asks so. */
  reopened(told: string): Reopened | null;
  /** select gives a query of the series of a metric that have the tags. */
  select(metric: string, tags: Record<string, string>): string;
}

const all: Record<DialectName, Dialect> = {
  promql: {
    name: "promql",
    title: "PromQL",
    example: "sum by (host) (rate(http_requests_total[5m]))",
    hint: "$__interval, $__rate_interval and $__range stand for lengths of time that fit the range below.",
    request: promqlRequest,
    instant: promqlInstant,
    result: (body, stepSeconds) => promqlResult(body, stepSeconds * 1000),
    failure: promqlFailure,
    notes: () => [],
    reopened: (told) => ({ text: told }),
    select: promqlSelector,
  },
  opentsdb: {
    name: "opentsdb",
    title: "OpenTSDB",
    example: "avg:1m-avg:cpu{host=*}",
    hint: "One expression a line: aggregator:[rate:][downsample:]metric{tag=value}. $__interval is the time between points.",
    request: opentsdbRequest,
    result: opentsdbResult,
    failure: (message) => new Failure(message),
    notes: () => [],
    reopened: opentsdbReopened,
    select: opentsdbExpression,
  },
  influxql: {
    name: "influxql",
    title: "InfluxQL",
    example: 'SELECT mean("value") FROM "cpu" WHERE $timeFilter GROUP BY time($__interval), "host"',
    hint: "$timeFilter is the range of time below, $__interval the time between points.",
    request: influxqlRequest,
    result: influxqlResult,
    failure: influxqlFailure,
    notes: influxqlNotes,
    reopened: influxqlReopened,
    select: influxqlSelect,
  },
};

export function dialectOf(name: DialectName): Dialect {
  return all[name];
}

/** knownDialects keeps the names that this page knows, in its order. */
export function knownDialects(names: string[]): DialectName[] {
  return dialectNames.filter((name) => names.includes(name));
}
