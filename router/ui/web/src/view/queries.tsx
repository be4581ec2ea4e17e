import { useState } from "preact/hooks";
import { grouped, type Order, orders, type Queries, type Query, reopened } from "../data/book";
import { formatBytes, formatCount, formatDuration, formatNumber, formatTime } from "../data/format";
import { usePolled } from "../data/hooks";
import { askJSON, errorText } from "../data/http";
import type { DialectName } from "../dialect/dialect";
import { Notice } from "../part/notice";
import type { ViewProps } from "./context";

const periodMs = 2000;
const pageSize = 50;
/** As the book names what the page itself asks. */
const ownDialect = "ui";

const orderTitles: Record<Order, string> = { longest: "Longest", newest: "Newest", often: "Most often" };

/** QueriesView shows the queries that run on this router, and those that took long. */
export function QueriesView({ go, dialects, route }: ViewProps) {
  const polled = usePolled(periodMs, (signal) => askJSON<Queries>("queries", {}, { signal }));
  const [failed, setFailed] = useState<string | null>(null);
  const [limit, setLimit] = useState(pageSize);
  const order = orders.find((o) => o === route.params.sort) ?? "longest";
  const cancel = (id: string) => {
    setFailed(null);
    askJSON("cancel", { id }, { method: "POST" }).then(polled.again, (error) => setFailed(errorText(error)));
  };
  const open = (q: Query) => {
    const again = dialects.includes(q.dialect as DialectName) ? reopened(q) : null;
    if (again === null) {
      return null;
    }
    const { text, range } = again;
    const moments: Record<string, string> =
      range === undefined ? {} : { from: String(range.fromMs), to: String(range.toMs) };
    return () => go({ view: "query", params: { db: q.database, d: q.dialect, q: text, ...moments } });
  };
  const running = polled.value?.running ?? [];
  const own = route.params.own === "1";
  const all = polled.value?.slow ?? [];
  const ofPeople = all.filter((q) => q.dialect !== ownDialect);
  const slow = grouped(own ? all : ofPeople, order);
  return (
    <div class="queries">
      <h1 class="unseen">Running and slow queries</h1>
      {polled.error !== null && (
        <Notice kind="error">
          {polled.error} {polled.value !== null && "What is shown is what was known before."}
        </Notice>
      )}
      {failed !== null && <Notice kind="error">{failed}</Notice>}
      <section class="card" aria-label="Running queries">
        <div class="bar">
          <h2>Running now</h2>
          {polled.value !== null && running.length === 0 && <p class="note">No query is running on this router.</p>}
        </div>
        <ul class="book">
          {running.map((q) => (
            <Entry key={q.id} query={q} open={open(q)} cancel={cancel} />
          ))}
        </ul>
      </section>
      <section class="card" aria-label="Slow queries">
        <div class="bar">
          <h2>Slow</h2>
          <div class="choices" role="group" aria-label="Order of the slow queries">
            {orders.map((o) => (
              <button
                type="button"
                key={o}
                aria-pressed={o === order}
                onClick={() => go({ view: "queries", params: { ...route.params, sort: o } }, { replace: true })}
              >
                {orderTitles[o]}
              </button>
            ))}
          </div>
        </div>
        <div class="bar">
          <p class="note">
            The newest that took longer than --query-slow, since this router began; what asks the same is one entry.
          </p>
          {all.length > ofPeople.length && (
            <label class="check">
              <input
                type="checkbox"
                checked={own}
                onChange={() =>
                  go({ view: "queries", params: { ...route.params, own: own ? "" : "1" } }, { replace: true })
                }
              />
              with {formatCount(all.length - ofPeople.length)} of this page
            </label>
          )}
        </div>
        {polled.value !== null && slow.length === 0 && <p class="empty">No query was slow.</p>}
        <ul class="book">
          {slow.slice(0, limit).map(({ longest, times, newestMs }) => (
            <Entry key={longest.id} query={longest} times={times} newestMs={newestMs} open={open(longest)} />
          ))}
        </ul>
        {slow.length > limit && (
          <button type="button" onClick={() => setLimit(2 * limit)}>
            {formatCount(slow.length - limit)} more
          </button>
        )}
      </section>
      {(polled.value?.hidden ?? 0) > 0 && (
        <p class="note">{polled.value?.hidden} more are of databases that you may not read.</p>
      )}
    </div>
  );
}

interface EntryProps {
  query: Query;
  times?: number;
  newestMs?: number;
  /** null: the page cannot ask it. */
  open: (() => void) | null;
  cancel?: (id: string) => void;
}

/** Entry is one query, or the longest of several that ask the same. */
function Entry({ query: q, times = 1, newestMs = q.beganMs, open, cancel }: EntryProps) {
  return (
    <li>
      <div class="head">
        <b class="took">{formatDuration(q.tookMs)}</b>
        {times > 1 && <span class="tagged">longest of {formatCount(times)}</span>}
        <span class="tagged">{q.dialect}</span>
        <span class="tagged">{q.database}</span>
        {q.user !== "" && <span class="tagged">{q.user}</span>}
        <span class="note">
          {formatTime(q.beganMs)} · {formatNumber(q.series)} series · {formatNumber(q.samples)} samples ·{" "}
          {formatBytes(q.bytes)}
          {newestMs > q.beganMs && ` · last ${formatTime(newestMs)}`}
        </span>
        <span class="acts">
          {open !== null && (
            <button type="button" onClick={open}>
              Open
            </button>
          )}
          {cancel !== undefined && (
            <button
              type="button"
              disabled={!q.mayCancel}
              title={q.mayCancel ? "" : "This needs the admin right"}
              onClick={() => cancel(q.id)}
            >
              Cancel
            </button>
          )}
        </span>
      </div>
      <pre class="mono" tabIndex={0}>
        {reopened(q)?.text ?? q.text}
      </pre>
      {q.error !== "" && <p class="wrong">{q.error}</p>}
    </li>
  );
}
