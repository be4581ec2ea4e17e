import type { ComponentChildren } from "preact";
import { useMemo, useState } from "preact/hooks";
import { copy, resultCSV, save } from "../data/csv";
import { formatBytes, formatCount, formatDuration, formatTime } from "../data/format";
import type { Range } from "../data/range";
import type { Asked, Outcome } from "../data/run";
import { guessedUnit, type Unit, units } from "../data/unit";
import { apart, type Result, seriesName } from "../dialect/result";
import { Notice } from "../part/notice";
import { type Draw, draws, Plot } from "../part/plot";
import { PlainTable, SeriesTable } from "../part/tables";
import { PlanView } from "./plan";

const rawCharactersMax = 200_000;

/** The forms of an answer. */
export const shows = ["plot", "table", "raw", "plan"] as const;
export type Show = (typeof shows)[number];

interface AnswerProps {
  outcome: Outcome | null;
  running: boolean;
  /** What is shown before the first query. */
  start: ComponentChildren;
  show: Show;
  /** What the answer is of; null: nothing was asked. */
  request: Asked | null;
  draw: Draw;
  setDraw: (draw: Draw) => void;
  dark: boolean;
  setShow: (show: Show) => void;
  zoom: (range: Range) => void;
}

const showTitles: Record<Show, string> = { plot: "Plot", table: "Table", raw: "Raw answer", plan: "Plan" };
const drawTitles: Record<Draw, string> = { lines: "Lines", stacked: "Stacked", log: "Log axis" };

/** Answer shows what came of a query. */
export function Answer(props: AnswerProps) {
  const { outcome, running, start, show, request, draw, setDraw, dark, setShow, zoom } = props;
  const [unit, setUnit] = useState<Unit | null>(null);
  const guessed = guessedUnit(request?.text ?? "");
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
        {show === "plot" && result !== null && result.series.length > 0 && (
          <>
            <div class="choices" role="group" aria-label="How lines are drawn">
              {draws.map((d) => (
                <button type="button" key={d} aria-pressed={d === draw} onClick={() => setDraw(d)}>
                  {drawTitles[d]}
                </button>
              ))}
            </div>
            <select
              aria-label="Unit of the values"
              title="Unit of the values"
              value={unit ?? ""}
              onChange={(event) => setUnit(units.find((u) => u === event.currentTarget.value) ?? null)}
            >
              <option value="">unit: by name{guessed === "none" ? "" : ` (${guessed})`}</option>
              {units.map((u) => (
                <option key={u} value={u}>
                  unit: {u}
                </option>
              ))}
            </select>
          </>
        )}
        {outcome !== null && outcome.raw !== "" && <Take outcome={outcome} />}
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
        ) : show === "plan" && request !== null ? (
          <PlanView asked={request} />
        ) : show === "raw" ? (
          <Raw text={outcome.raw} />
        ) : result === null ? (
          <p class="empty">The query failed: the reason is above, below its text.</p>
        ) : (
          <Shown
            result={result}
            range={outcome.range}
            show={show}
            draw={draw}
            unit={unit ?? guessed}
            dark={dark}
            zoom={zoom}
          />
        )}
      </div>
    </section>
  );
}

/** Take offers the answer as a file, and its address. */
function Take({ outcome }: { outcome: Outcome }) {
  const [copied, setCopied] = useState<boolean | null>(null);
  const { result, raw } = outcome;
  return (
    <div class="choices" role="group" aria-label="Take the answer along">
      {result !== null && (
        <button type="button" onClick={() => save("answer.csv", "text/csv", resultCSV(result))}>
          CSV
        </button>
      )}
      <button type="button" onClick={() => save("answer.json", "application/json", raw)}>
        JSON
      </button>
      <button type="button" onClick={async () => setCopied(await copy(location.href))}>
        {copied === null ? "Copy link" : copied ? "Copied" : "Not copied"}
      </button>
    </div>
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
  draw,
  unit,
  dark,
  zoom,
}: {
  result: Result;
  range: Range;
  show: Show;
  draw: Draw;
  unit: Unit;
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
          <Plot series={series} range={range} draw={draw} unit={unit} dark={dark} zoom={zoom} />
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
