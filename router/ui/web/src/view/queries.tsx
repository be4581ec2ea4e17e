import { useState } from "preact/hooks";
import { formatBytes, formatDuration, formatNumber, formatTime } from "../data/format";
import { usePolled } from "../data/hooks";
import { askJSON, errorText } from "../data/http";
import { type DialectName, dialectNames } from "../dialect/dialect";
import { Notice } from "../part/notice";
import type { ViewProps } from "./context";

const periodMs = 2000;

interface Query {
  id: string;
  dialect: string;
  database: string;
  text: string;
  user: string;
  beganMs: number;
  tookMs: number;
  series: number;
  samples: number;
  bytes: number;
  error: string;
  mayCancel: boolean;
}

interface Queries {
  running: Query[];
  slow: Query[];
  hidden: number;
}

/** QueriesView shows the queries that run on this router, and those that took long. */
export function QueriesView({ go, dialects }: ViewProps) {
  const polled = usePolled(periodMs, (signal) => askJSON<Queries>("queries", {}, { signal }));
  const [failed, setFailed] = useState<string | null>(null);
  const cancel = (id: string) => {
    setFailed(null);
    askJSON("cancel", { id }, { method: "POST" }).then(polled.again, (error) => setFailed(errorText(error)));
  };
  const open = (q: Query) =>
    go({ view: "query", params: { db: q.database === "default" ? "" : q.database, d: q.dialect, q: q.text } });
  const mayOpen = (q: Query) =>
    dialects.includes(q.dialect as DialectName) && (dialectNames as readonly string[]).includes(q.dialect);
  return (
    <div class="queries">
      <h1 class="unseen">Running and slow queries</h1>
      {polled.error !== null && <Notice kind="error">{polled.error}</Notice>}
      {failed !== null && <Notice kind="error">{failed}</Notice>}
      <section class="card" aria-label="Running queries">
        <h2>Running now</h2>
        <QueryTable
          queries={polled.value?.running ?? []}
          empty="No query is running on this router."
          cancel={cancel}
          open={open}
          mayOpen={mayOpen}
        />
      </section>
      <section class="card" aria-label="Slow queries">
        <h2>Slow</h2>
        <p class="note">The newest that took longer than --query-slow, since this router began.</p>
        <QueryTable queries={polled.value?.slow ?? []} empty="No query was slow." open={open} mayOpen={mayOpen} />
      </section>
      {(polled.value?.hidden ?? 0) > 0 && (
        <p class="note">{polled.value?.hidden} more are of databases that you may not read.</p>
      )}
    </div>
  );
}

interface TableProps {
  queries: Query[];
  empty: string;
  cancel?: (id: string) => void;
  open: (q: Query) => void;
  mayOpen: (q: Query) => boolean;
}

function QueryTable({ queries, empty, cancel, open, mayOpen }: TableProps) {
  if (queries.length === 0) {
    return <p class="empty">{empty}</p>;
  }
  return (
    <ul class="book">
      {queries.map((q) => (
        <li key={q.id}>
          <div class="head">
            <b class="took">{formatDuration(q.tookMs)}</b>
            <span class="tagged">{q.dialect}</span>
            <span class="tagged">{q.database}</span>
            {q.user !== "" && <span class="tagged">{q.user}</span>}
            <span class="note">
              {formatTime(q.beganMs)} · {formatNumber(q.series)} series · {formatNumber(q.samples)} samples ·{" "}
              {formatBytes(q.bytes)}
            </span>
            <span class="acts">
              {mayOpen(q) && (
                <button type="button" onClick={() => open(q)}>
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
          <pre class="mono">{q.text}</pre>
          {q.error !== "" && <p class="wrong">{q.error}</p>}
        </li>
      ))}
    </ul>
  );
}
