import { TickmeshError } from "./errors.js";
import {
  Aggregate,
  type Columns,
  type Matcher as MatcherMessage,
  MatchKind,
  type Selector as SelectorMessage,
  type Series as SeriesMessage,
  type Windows as WindowsMessage,
} from "./generated/tickmesh/v1/scan.js";
import { decode, encode } from "./text.js";

/** Times are from -TIME_MS_MAX to TIME_MS_MAX, about 142,000 years, so that a number holds the difference of any two. */
export const TIME_MS_MAX = 2 ** 52 - 1;

/** The identity of a series. It never changes; make it once and use it for all its samples. */
export class Series {
  readonly tags: Readonly<Record<string, string>>;
  /** Two series are the same if their keys are. */
  readonly key: string;
  readonly #message: SeriesMessage;
  /** About how many bytes it takes in a message, at most. */
  readonly messageBytes: number;

  /** Throws "invalid" for an empty metric, and for tags without a name or a value. The default database is "". */
  constructor(
    readonly metric: string,
    tags: Readonly<Record<string, string>> = {},
    readonly database = "",
  ) {
    if (metric === "") {
      throw new TickmeshError("invalid", "the series has no metric");
    }
    const sorted = Object.entries(tags).sort(([a], [b]) => (a < b ? -1 : 1));
    for (const [name, value] of sorted) {
      if (name === "" || value === "") {
        throw new TickmeshError(
          "invalid",
          `tag ${JSON.stringify(name)}=${JSON.stringify(value)} lacks a name or a value`,
        );
      }
    }
    this.tags = Object.freeze(Object.fromEntries(sorted));
    this.key = JSON.stringify([database, metric, sorted]);
    this.#message = {
      database: encode(database),
      metric: encode(metric),
      tags: sorted.map(([name, value]) => ({ name: encode(name), value: encode(value) })),
    };
    const { database: d, metric: m, tags: t } = this.#message;
    this.messageBytes = t.reduce((sum, tag) => sum + 12 + tag.name.length + tag.value.length, 32 + d.length + m.length);
  }

  /** Returns the series as database/metric{name=value,…}, for people. */
  toString(): string {
    const tags = Object.entries(this.tags).map(([name, value]) => `${name}=${value}`);
    return `${this.database === "" ? "" : `${this.database}/`}${this.metric}{${tags.join(",")}}`;
  }

  /** @internal */
  toMessage(): SeriesMessage {
    return this.#message;
  }

  /** @internal */
  static ofMessage(m: SeriesMessage): Series {
    const tags = m.tags.map(({ name, value }): [string, string] => [decode(name), decode(value)]);
    return new Series(decode(m.metric), Object.fromEntries(tags), decode(m.database));
  }
}

/** One value of a series, at a time in milliseconds since 1970 UTC, as of Date.now(). */
export interface Sample {
  readonly series: Series;
  readonly timeMs: number;
  readonly value: number;
}

/** Restricts series by one tag; the functions below make it. */
export interface Matcher {
  readonly name: string;
  readonly kind: MatchKind;
  readonly values: readonly string[];
}

function matcher(name: string, kind: MatchKind, ...values: string[]): Matcher {
  return { name, kind, values };
}

/** The tag has this value; an empty value: or is not there. */
export const equal = (name: string, value: string): Matcher => matcher(name, MatchKind.EQUAL, value);
/** The tag has another value, or is not there. */
export const notEqual = (name: string, value: string): Matcher => matcher(name, MatchKind.NOT_EQUAL, value);
/** The tag has one of these values. */
export const isIn = (name: string, values: Iterable<string>): Matcher => matcher(name, MatchKind.IN, ...values);
/** The tag has none of these values. */
export const notIn = (name: string, values: Iterable<string>): Matcher => matcher(name, MatchKind.NOT_IN, ...values);
/** The whole value matches an RE2 expression. */
export const matches = (name: string, expression: string): Matcher => matcher(name, MatchKind.REGEXP, expression);
/** The whole value does not match an RE2 expression. */
export const notMatches = (name: string, expression: string): Matcher =>
  matcher(name, MatchKind.NOT_REGEXP, expression);
/** The series has the tag. */
export const present = (name: string): Matcher => matcher(name, MatchKind.PRESENT);
/** The series does not have the tag. */
export const absent = (name: string): Matcher => matcher(name, MatchKind.ABSENT);

/** Picks series. */
export interface Selector {
  /** Without it, all metrics of the database. */
  readonly metric?: string;
  /** All of them have to match. */
  readonly matchers?: readonly Matcher[];
  /** Without it, the default database. */
  readonly database?: string;
  /** Only series that have no other tags than those that matchers name. */
  readonly exact?: boolean;
}

/** @internal */
export function selectorMessage(s: Selector): SelectorMessage {
  return {
    database: encode(s.database ?? ""),
    metric: encode(s.metric ?? ""),
    metricAny: s.metric === undefined,
    matchers: (s.matchers ?? []).map(
      ({ name, kind, values }): MatcherMessage => ({ name: encode(name), kind, values: values.map(encode) }),
    ),
    exact: s.exact ?? false,
  };
}

const aggregates = {
  sum: Aggregate.SUM,
  count: Aggregate.COUNT,
  min: Aggregate.MIN,
  max: Aggregate.MAX,
  first: Aggregate.FIRST,
  last: Aggregate.LAST,
} as const;

/**
 * Asks for aggregates by window instead of samples. Window n starts at originMs + n * widthMs. NaN is left out, and a
 * window without any other sample, too.
 */
export interface Windows {
  readonly widthMs: number;
  readonly originMs?: number;
  readonly aggregates: readonly (keyof typeof aggregates)[];
}

/** @internal */
export function windowsMessage(w: Windows | undefined): WindowsMessage | undefined {
  return (
    w && {
      originMs: w.originMs ?? 0,
      widthMs: w.widthMs,
      aggregates: w.aggregates.map((name) => aggregates[name]),
      recordedDigests: false,
    }
  );
}

/**
 * A stretch of one series, in order of time. With windows, timesMs has their starts, and the columns that were asked
 * for are as long; else values is.
 */
export interface Chunk {
  readonly series: Series;
  readonly timesMs: readonly number[];
  readonly values: readonly number[];
  readonly sums: readonly number[];
  readonly counts: readonly number[];
  readonly mins: readonly number[];
  readonly maxs: readonly number[];
  readonly firsts: readonly number[];
  readonly lasts: readonly number[];
}

/** @internal */
export function chunkOf(series: Series, columns: Columns): Chunk {
  let time = 0;
  const { values, sums, counts, mins, maxs, firsts, lasts } = columns;
  const timesMs = columns.timeDeltasMs.map((delta) => {
    time += delta;
    return time;
  });
  return { series, timesMs, values, sums, counts, mins, maxs, firsts, lasts };
}
