import { useEffect, useState } from "preact/hooks";
import { formatCount } from "../data/format";
import { useLoaded } from "../data/hooks";
import { askJSON } from "../data/http";
import { type DialectName, dialectOf } from "../dialect/dialect";
import { Notice } from "../part/notice";
import type { ViewProps } from "./context";

const pageSize = 50;
const metricsMax = 1000;
/** So many metrics are counted to find those with the most series, and so many of them are listed. */
const rankedMax = 5000;
const rankedShown = 200;
const valuesMax = 500;
const debounceMs = 150;

interface Names {
  names: string[];
  more: boolean;
}

interface Tag {
  name: string;
  values: number;
  more: boolean;
  first: string[];
}

interface Tags {
  metric: string;
  series: number;
  tags: Tag[];
  more: boolean;
}

/** useSettled gives a value once it has stayed for a moment. */
function useSettled<T>(value: T): T {
  const [settled, setSettled] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(value), debounceMs);
    return () => clearTimeout(timer);
  }, [value]);
  return settled;
}

/** ExploreView lists metrics, and the tags of one of them. */
export function ExploreView({ dialects, database, route, go }: ViewProps) {
  const { find = "", metric = "" } = route.params;
  const [typed, setTyped] = useState(find);
  const settled = useSettled(typed);
  const largest = route.params.sort === "series";
  const [shown, setLimit] = useState(pageSize);
  const limit = largest ? rankedMax : shown;
  useEffect(() => {
    if (settled !== find) {
      setLimit(pageSize);
      go({ view: "explore", params: { ...route.params, find: settled } }, { replace: true });
    }
  }, [settled]);
  const metrics = useLoaded(JSON.stringify([database, find, limit]), (signal) =>
    askJSON<Names>("metrics", { db: database, contains: find, limit: String(limit) }, { signal }),
  );
  const total = useLoaded(database, (signal) =>
    askJSON<{ series: number[] }>("counts", { db: database, all: "1" }, { signal }),
  ).value?.series[0];
  const dialect = dialects.find((d) => d === route.params.d) ?? dialects[0] ?? "opentsdb";
  const query = (name: string, tags: Record<string, string>) =>
    go({ view: "query", params: { db: database, d: dialect, q: dialectOf(dialect).select(name, tags) } });
  const list = metrics.value?.names ?? [];
  return (
    <div class="explore">
      <section class="card metrics" aria-label="Metrics" aria-busy={metrics.loading}>
        <div class="bar">
          <h1>Metrics</h1>
          <span class="note" role="status">
            {total === undefined ? "" : `${formatCount(total)} series in all`}
          </span>
        </div>
        <input
          type="search"
          class="wide"
          placeholder="Contains …"
          aria-label="Metrics whose names contain"
          value={typed}
          onInput={(event) => setTyped(event.currentTarget.value)}
          data-focus="main"
        />
        <div class="choices" role="group" aria-label="Order of the metrics">
          {(["", "series"] as const).map((sort) => (
            <button
              type="button"
              key={sort}
              aria-pressed={largest === (sort !== "")}
              onClick={() => go({ view: "explore", params: { ...route.params, sort } }, { replace: true })}
            >
              {sort === "" ? "By name" : "Most series first"}
            </button>
          ))}
        </div>
        {metrics.error !== null && <Notice kind="error">{metrics.error}</Notice>}
        {metrics.value !== null && list.length === 0 && (
          <p class="empty">
            {find === ""
              ? "This database has no metrics yet: write some points."
              : "No name of a metric has that in it."}
          </p>
        )}
        <MetricList
          names={list}
          largest={largest}
          database={database}
          chosen={metric}
          choose={(name) => go({ view: "explore", params: { ...route.params, metric: name } })}
        />
        {metrics.value?.more &&
          (!largest && limit < metricsMax ? (
            <button type="button" onClick={() => setLimit(Math.min(2 * limit, metricsMax))}>
              More
            </button>
          ) : (
            <p class="note">
              There are more than {formatCount(limit)}
              {largest && ", of which the first by name were counted"}: type a part of the name.
            </p>
          ))}
      </section>
      <section class="card metric" aria-label="Metric">
        {metric === "" ? (
          <p class="empty">Choose a metric to see its tags.</p>
        ) : (
          <MetricDetails
            key={database + metric}
            metric={metric}
            database={database}
            dialects={dialects}
            dialect={dialect}
            setDialect={(d) => go({ view: "explore", params: { ...route.params, d } }, { replace: true })}
            query={(tags) => query(metric, tags)}
          />
        )}
      </section>
    </div>
  );
}

/** countsPerRequest is what the server tells at once. */
const countsPerRequest = 64;

/** MetricList shows each metric with its number of series, as a bar beside the largest one. */
function MetricList({
  names,
  largest,
  database,
  chosen,
  choose,
}: {
  names: string[];
  largest: boolean;
  database: string;
  chosen: string;
  choose: (name: string) => void;
}) {
  const counts = useCounts(names, (some) => ({ db: database, metric: some }), JSON.stringify([database, names]));
  const most = Math.max(1, ...names.map((name) => counts[name] ?? 0));
  // Those whose numbers are not known yet come last, in their order.
  const ordered = largest
    ? names.toSorted((a, b) => (counts[b] ?? -1) - (counts[a] ?? -1)).slice(0, rankedShown)
    : names;
  const counted = Object.keys(counts).length;
  return (
    <>
      {largest && counted < names.length && (
        <p class="note">
          {formatCount(counted)} of {formatCount(names.length)} counted …
        </p>
      )}
      <ul class="names">
        {ordered.map((name) => (
          <li key={name}>
            <button
              type="button"
              class="plain"
              aria-current={name === chosen ? "true" : undefined}
              onClick={() => choose(name)}
            >
              <span class="name mono">{name}</span>
              <span class="number">{counts[name] === undefined ? "…" : formatCount(counts[name])}</span>
              <Bar share={(counts[name] ?? 0) / most} />
            </button>
          </li>
        ))}
      </ul>
      {largest && names.length > rankedShown && <p class="note">The first {rankedShown} are listed.</p>}
    </>
  );
}

function Bar({ share }: { share: number }) {
  return (
    <span class="share" aria-hidden="true">
      <span style={{ width: `${Math.max(share * 100, share > 0 ? 1 : 0)}%` }} />
    </span>
  );
}

/** useCounts asks for the numbers of series of names, in parts. */
function useCounts(
  names: string[],
  params: (some: string[]) => Record<string, string | string[]>,
  key: string,
): Record<string, number> {
  const [counts, setCounts] = useState<Record<string, number>>({});
  useEffect(() => {
    const stop = new AbortController();
    setCounts({});
    const askAll = async () => {
      for (let at = 0; at < names.length; at += countsPerRequest) {
        const some = names.slice(at, at + countsPerRequest);
        const { series } = await askJSON<{ series: number[] }>("counts", params(some), { signal: stop.signal });
        setCounts((before) => ({ ...before, ...Object.fromEntries(some.map((name, i) => [name, series[i] ?? 0])) }));
      }
    };
    askAll().catch(() => {}); // the numbers stay unknown, and the list says so
    return () => stop.abort();
  }, [key]);
  return counts;
}

interface DetailsProps {
  metric: string;
  database: string;
  dialects: DialectName[];
  dialect: DialectName;
  setDialect: (dialect: DialectName) => void;
  query: (tags: Record<string, string>) => void;
}

/** MetricDetails shows the tags of a metric, those with the most values first. */
function MetricDetails({ metric, database, dialects, dialect, setDialect, query }: DetailsProps) {
  const loaded = useLoaded(JSON.stringify([database, metric]), (signal) =>
    askJSON<Tags>("tags", { db: database, metric }, { signal }),
  );
  const tags = loaded.value;
  const most = Math.max(1, ...(tags?.tags.map((tag) => tag.values) ?? []));
  return (
    <>
      <div class="bar">
        <h2 class="mono">{metric}</h2>
        <div class="run">
          <select
            aria-label="Query language"
            value={dialect}
            onChange={(event) => setDialect(event.currentTarget.value as DialectName)}
          >
            {dialects.map((d) => (
              <option key={d} value={d}>
                {dialectOf(d).title}
              </option>
            ))}
          </select>
          <button type="button" class="main" onClick={() => query({})}>
            Query
          </button>
        </div>
      </div>
      {loaded.error !== null && <Notice kind="error">{loaded.error}</Notice>}
      {tags === null ? (
        <p class="empty">{loaded.loading ? "…" : ""}</p>
      ) : (
        <>
          <p class="note">
            {formatCount(tags.series)} series, {tags.tags.length}
            {tags.more ? " or more" : ""} tags. Press a value to query its series.
          </p>
          {tags.tags
            .toSorted((a, b) => b.values - a.values || (a.name < b.name ? -1 : 1))
            .map((tag) => (
              <TagDetails
                key={tag.name}
                tag={tag}
                metric={metric}
                database={database}
                most={most}
                pick={(value) => query({ [tag.name]: value })}
              />
            ))}
        </>
      )}
    </>
  );
}

interface TagProps {
  tag: Tag;
  metric: string;
  database: string;
  most: number;
  pick: (value: string) => void;
}

/** TagDetails shows values of a tag: the first ones, or those that begin as a person types. */
function TagDetails({ tag, metric, database, most, pick }: TagProps) {
  const [typed, setTyped] = useState("");
  const prefix = useSettled(typed);
  const [limit, setLimit] = useState(tag.first.length);
  const asked = prefix !== "" || limit > tag.first.length;
  const found = useLoaded(asked ? JSON.stringify([prefix, limit]) : null, (signal) =>
    askJSON<Names>(
      "names",
      { db: database, kind: "value", metric, tag: tag.name, prefix, limit: String(limit) },
      { signal },
    ),
  );
  const values = asked ? (found.value?.names ?? []) : tag.first;
  const more = asked ? (found.value?.more ?? false) : tag.values > tag.first.length;
  const counts = useCounts(
    values,
    (some) => ({ db: database, of: metric, tag: tag.name, value: some }),
    JSON.stringify([database, metric, tag.name, values]),
  );
  return (
    <section class="tag" aria-busy={found.loading}>
      <h3>
        <span class="mono">{tag.name}</span>
        <span class="note">
          {tag.more ? "more than " : ""}
          {formatCount(tag.values)} {tag.values === 1 ? "value" : "values"}
        </span>
        <Bar share={tag.values / most} />
      </h3>
      {tag.values > tag.first.length && (
        <input
          type="search"
          class="values"
          placeholder="Values that begin with …"
          aria-label={`Values of ${tag.name} that begin with`}
          value={typed}
          onInput={(event) => {
            setTyped(event.currentTarget.value);
            setLimit(tag.first.length);
          }}
        />
      )}
      {found.error !== null && <Notice kind="error">{found.error}</Notice>}
      <ul class="chips">
        {values.map((value) => (
          <li key={value}>
            <button type="button" onClick={() => pick(value)} title={`Query ${tag.name}=${value}`}>
              <span class="mono">{value === "" ? '""' : value}</span>{" "}
              <small>{counts[value] === undefined ? "…" : formatCount(counts[value])}</small>
            </button>
          </li>
        ))}
        {asked && found.value !== null && values.length === 0 && <li class="note">No value begins so.</li>}
        {more && limit < valuesMax && (
          <li>
            <button type="button" onClick={() => setLimit(Math.min(5 * limit, valuesMax))}>
              More
            </button>
          </li>
        )}
        {more && limit >= valuesMax && <li class="note">and more: type how they begin.</li>}
      </ul>
    </section>
  );
}
