import type { ComponentChildren } from "preact";
import { useMemo } from "preact/hooks";
import { formatBytes, formatCount, formatDuration, formatTime } from "../data/format";
import type { Range } from "../data/range";
import type { Outcome } from "../data/run";
import { apart, type Result, seriesName } from "../dialect/result";
import { Notice } from "../part/notice";
import { Plot } from "../part/plot";
import { PlainTable, SeriesTable } from "../part/tables";

const rawCharactersMax = 200_000;

/** The forms of an answer. */
export const shows = ["plot", "table", "raw"] as const;
export type Show = (typeof shows)[number];

interface AnswerProps {
  outcome: Outcome | null;
  running: boolean;
  /** What is shown before the first query. */
  start: ComponentChildren;
  show: Show;
  dark: boolean;
  setShow: (show: Show) => void;
  zoom: (range: Range) => void;
}

const showTitles: Record<Show, string> = { plot: "Plot", table: "Table", raw: "Raw answer" };

/** Answer shows what came of a query. */
export function Answer({ outcome, running, start, show, dark, setShow, zoom }: AnswerProps) {
  const result = outcome?.result ?? null;
  return (
    <section class={`card answer ${running ? "running" : ""}`} aria-label="Answer" aria-busy={running}>
      <div class="bar">
        <div class="choices" role="group" aria-label="Form of the answer">
          {shows.map((s) => (
            <button type="button" key={s} aria-pressed={s === show} onClick={() => setShow(s)}>
              {showTitles[s]}
            </button>
          ))}
        </div>
        <p class="note" role="status">
          {running ? "Running …" : outcome === null ? "" : facts(outcome)}
        </p>
      </div>
      {result?.notes.map((note) => (
        <Notice kind="warning" key={note}>
          {note}
        </Notice>
      ))}
      <div class="content">
        {outcome === null ? (
          running ? null : (
            start
          )
        ) : show === "raw" ? (
          <Raw text={outcome.raw} />
        ) : result === null ? (
          <p class="empty">The query failed: the reason is above, below its text.</p>
        ) : (
          <Shown result={result} range={outcome.range} show={show} dark={dark} zoom={zoom} />
        )}
      </div>
    </section>
  );
}

function facts(outcome: Outcome): string {
  if (outcome.failure !== null) {
    return outcome.result === null
      ? ""
      : `What is shown is what was known before, until ${formatTime(outcome.range.toMs)}.`;
  }
  const { series, tables } = outcome.result ?? { series: [], tables: [] };
  const points = series.reduce((sum, s) => sum + s.times.length, 0);
  const rows = tables.reduce((sum, table) => sum + table.rows.length, 0);
  const counts =
    series.length === 0 && rows > 0 ? [] : [`${formatCount(series.length)} series`, `${formatCount(points)} points`];
  if (rows > 0) {
    counts.push(`${formatCount(rows)} rows`);
  }
  return [...counts, formatBytes(outcome.bytes), formatDuration(outcome.tookMs)].join(" · ");
}

function Shown({
  result,
  range,
  show,
  dark,
  zoom,
}: {
  result: Result;
  range: Range;
  show: Show;
  dark: boolean;
  zoom: (range: Range) => void;
}) {
  const { common, series } = useMemo(() => apart(result.series), [result]);
  if (result.series.length === 0 && result.tables.length === 0) {
    return <p class="empty">The answer is empty: no series match, or they have no points in this range of time.</p>;
  }
  return (
    <>
      {Object.keys(common).length > 0 && (
        <p class="note">
          All series have <span class="mono">{seriesName({ name: "", labels: common })}</span>
        </p>
      )}
      {series.length > 0 &&
        (show === "plot" ? (
          <Plot series={series} range={range} dark={dark} zoom={zoom} />
        ) : (
          <SeriesTable series={series} />
        ))}
      {result.tables.map((table, i) => (
        <PlainTable key={i} table={table} />
      ))}
    </>
  );
}

function Raw({ text }: { text: string }) {
  let shown = text;
  try {
    if (text.length <= rawCharactersMax) {
      shown = JSON.stringify(JSON.parse(text), null, 1);
    }
  } catch {
    // It is no JSON: it is shown as it is.
  }
  return (
    <>
      {shown.length > rawCharactersMax && (
        <p class="note">
          The first {formatBytes(rawCharactersMax)} of {formatBytes(shown.length)}.
        </p>
      )}
      <pre class="raw" tabIndex={0} role="region" aria-label="Raw answer">
        {shown.slice(0, rawCharactersMax)}
      </pre>
    </>
  );
}
