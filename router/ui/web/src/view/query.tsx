import { useEffect, useRef, useState } from "preact/hooks";
import { formatBytes, formatCount, formatDuration } from "../data/format";
import { ask, errorText, HTTPError, isAbort } from "../data/http";
import { type Past, readHistory, remembered, writeHistory } from "../data/kept";
import { parseRange, type Range, stepFor } from "../data/range";
import { type Dialect, type DialectName, dialectOf } from "../dialect/dialect";
import { Failure, type Result } from "../dialect/result";
import { Editor } from "../part/editor";
import { Notice } from "../part/notice";
import { Plot } from "../part/plot";
import { RangePicker } from "../part/rangepicker";
import { PlainTable, SeriesTable } from "../part/tables";
import type { ViewProps } from "./context";

const pointsMax = 600;
const rawCharactersMax = 200_000;
const refreshMs = 10_000;
const shows = ["plot", "table", "raw"] as const;
type Show = (typeof shows)[number];

/** What came of a query. */
interface Outcome {
  result: Result | null;
  failure: Failure | null;
  raw: string;
  bytes: number;
  tookMs: number;
  range: Range;
}

/** runQuery asks, and reads the answer. It gives no error but AbortError. */
async function runQuery(
  dialect: Dialect,
  text: string,
  database: string,
  range: Range,
  signal: AbortSignal,
): Promise<Outcome> {
  const stepSeconds = stepFor(range, pointsMax);
  const { path, params } = dialect.request(text, range, stepSeconds);
  if (database !== "") {
    params.set("db", database);
  }
  const outcome: Outcome = { result: null, failure: null, raw: "", bytes: 0, tookMs: 0, range };
  try {
    const answer = await ask(path, params, { signal });
    Object.assign(outcome, { raw: answer.text, bytes: answer.bytes, tookMs: answer.tookMs });
    outcome.result = dialect.result(JSON.parse(answer.text), stepSeconds);
    outcome.result.notes.unshift(...dialect.notes(text));
  } catch (error) {
    if (isAbort(error)) {
      throw error;
    }
    if (error instanceof HTTPError) {
      outcome.raw = error.body;
    }
    outcome.failure = error instanceof Failure ? error : dialect.failure(errorText(error));
  }
  return outcome;
}

/** QueryView is where queries are written, and their answers seen. */
export function QueryView({ dialects, database, dark, route, go }: ViewProps) {
  const { params } = route;
  const name = dialects.find((d) => d === params.d) ?? dialects[0] ?? "opentsdb";
  const dialect = dialectOf(name);
  const asked = params.q ?? "";
  const [text, setText] = useState(asked);
  const [outcome, setOutcome] = useState<Outcome | null>(null);
  const [running, setRunning] = useState(false);
  const [turn, setTurn] = useState(0);
  const [past, setPast] = useState<Past[]>(readHistory);
  const stop = useRef<AbortController>(new AbortController());
  const show: Show = shows.find((s) => s === params.show) ?? "plot";
  const live = params.live === "1";

  const change = (changes: Record<string, string>, options?: { replace?: boolean }) =>
    go({ view: "query", params: { ...params, d: name, ...changes } }, options);

  useEffect(() => setText(asked), [asked, name]);
  useEffect(() => {
    if (asked.trim() === "") {
      setOutcome(null);
      return;
    }
    stop.current.abort();
    const mine = new AbortController();
    stop.current = mine;
    setRunning(true);
    const range = parseRange(params.from ?? "1h", params.to ?? "", Date.now());
    runQuery(dialect, asked, database, range, mine.signal).then(
      (next) => {
        if (!mine.signal.aborted) {
          setOutcome(next);
          setRunning(false);
        }
      },
      () => {}, // somebody asked for something else
    );
    return () => mine.abort();
  }, [name, asked, database, params.from, params.to, turn]);
  useEffect(() => {
    if (!live || running) {
      return;
    }
    const timer = setTimeout(() => setTurn(turn + 1), refreshMs);
    return () => clearTimeout(timer);
  }, [live, running, turn]);

  const run = () => {
    if (text.trim() === "") {
      return;
    }
    const next = remembered(past, { dialect: name, text });
    setPast(next);
    writeHistory(next);
    if (text === asked) {
      setTurn(turn + 1);
    } else {
      change({ q: text });
    }
  };
  const cancel = () => {
    stop.current.abort();
    setRunning(false);
  };
  const range = outcome?.range ?? parseRange(params.from ?? "1h", params.to ?? "", Date.now());
  const failure = text === asked ? (outcome?.failure ?? null) : null;
  const wrong =
    failure?.line === undefined || failure.column === undefined ? null : { line: failure.line, column: failure.column };

  return (
    <div class="query">
      <h1 class="unseen">Query</h1>
      <section class="card ask" aria-label="Query">
        <div class="bar">
          <DialectSwitch dialects={dialects} chosen={name} choose={(d) => change({ d, q: "" })} />
          <History
            past={past}
            pick={(p) => go({ view: "query", params: { ...params, d: p.dialect, q: p.text } })}
            clear={() => {
              setPast([]);
              writeHistory([]);
            }}
          />
        </div>
        <Editor dialect={dialect} database={database} text={text} setText={setText} run={run} wrong={wrong} />
        {failure !== null && <FailureNotice failure={failure} text={asked} />}
        <p class="note hint">{dialect.hint}</p>
        <div class="bar">
          <RangePicker
            from={params.from ?? "1h"}
            to={params.to ?? ""}
            range={range}
            choose={(from, to) => change({ from, to })}
          />
          <div class="run">
            <label class="check">
              <input
                type="checkbox"
                checked={live}
                onChange={() => change({ live: live ? "" : "1" }, { replace: true })}
              />
              every 10 s
            </label>
            {running ? (
              <button type="button" class="main" onClick={cancel}>
                Stop
              </button>
            ) : (
              <button type="button" class="main" disabled={text.trim() === ""} title="Ctrl-Enter" onClick={run}>
                Run
              </button>
            )}
          </div>
        </div>
      </section>
      <Answer
        outcome={outcome}
        running={running}
        show={show}
        dark={dark}
        setShow={(s) => change({ show: s === "plot" ? "" : s }, { replace: true })}
        zoom={(r) => change({ from: String(r.fromMs), to: String(r.toMs), live: "" })}
      />
    </div>
  );
}

function DialectSwitch({
  dialects,
  chosen,
  choose,
}: {
  dialects: DialectName[];
  chosen: DialectName;
  choose: (d: DialectName) => void;
}) {
  return (
    <div class="choices" role="group" aria-label="Query language">
      {dialects.map((d) => (
        <button type="button" key={d} aria-pressed={d === chosen} onClick={() => d !== chosen && choose(d)}>
          {dialectOf(d).title}
        </button>
      ))}
    </div>
  );
}

/** FailureNotice shows what is wrong, with the line of the query and a mark below its place. */
function FailureNotice({ failure, text }: { failure: Failure; text: string }) {
  const line = failure.line === undefined ? undefined : text.split("\n")[failure.line - 1];
  return (
    <Notice kind="error">
      <p>{failure.message}</p>
      {line !== undefined && failure.column !== undefined && (
        <pre class="place" aria-hidden="true">
          {line}
          {"\n"}
          {" ".repeat(Math.max(0, Math.min(failure.column - 1, line.length)))}^
        </pre>
      )}
    </Notice>
  );
}

function History({ past, pick, clear }: { past: Past[]; pick: (p: Past) => void; clear: () => void }) {
  const [open, setOpen] = useState(false);
  if (past.length === 0) {
    return null;
  }
  return (
    <div class="history" onKeyDown={(event) => event.key === "Escape" && setOpen(false)}>
      <button type="button" aria-expanded={open} onClick={() => setOpen(!open)}>
        History
      </button>
      {open && (
        <div class="popup">
          <ul>
            {past.map((p) => (
              <li key={p.dialect + p.text}>
                <button
                  type="button"
                  class="plain mono"
                  onClick={() => {
                    pick(p);
                    setOpen(false);
                  }}
                >
                  <small>{p.dialect}</small> {p.text}
                </button>
              </li>
            ))}
          </ul>
          <button
            type="button"
            onClick={() => {
              clear();
              setOpen(false);
            }}
          >
            Forget all
          </button>
        </div>
      )}
    </div>
  );
}

interface AnswerProps {
  outcome: Outcome | null;
  running: boolean;
  show: Show;
  dark: boolean;
  setShow: (show: Show) => void;
  zoom: (range: Range) => void;
}

const showTitles: Record<Show, string> = { plot: "Plot", table: "Table", raw: "Raw answer" };

/** Answer shows what came of a query. */
function Answer({ outcome, running, show, dark, setShow, zoom }: AnswerProps) {
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
          {running ? "Running …" : outcome === null || outcome.failure !== null ? "" : facts(outcome)}
        </p>
      </div>
      {result?.notes.map((note) => (
        <Notice kind="warning" key={note}>
          {note}
        </Notice>
      ))}
      <div class="content">
        {outcome === null ? (
          <p class="empty">
            {running
              ? ""
              : "Write a query and press Ctrl-Enter. Names are completed while you type; Explore lists what there is."}
          </p>
        ) : show === "raw" ? (
          <Raw text={outcome.raw} />
        ) : result === null ? (
          <p class="empty">The query failed: the reason is beside it.</p>
        ) : (
          <Shown result={result} range={outcome.range} show={show} dark={dark} zoom={zoom} />
        )}
      </div>
    </section>
  );
}

function facts(outcome: Outcome): string {
  const points = outcome.result?.series.reduce((sum, s) => sum + s.times.length, 0) ?? 0;
  return `${formatCount(outcome.result?.series.length ?? 0)} series · ${formatCount(points)} points · ${formatBytes(outcome.bytes)} · ${formatDuration(outcome.tookMs)}`;
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
  if (result.series.length === 0 && result.tables.length === 0) {
    return <p class="empty">The answer is empty: no series match, or they have no points in this range of time.</p>;
  }
  return (
    <>
      {result.series.length > 0 &&
        (show === "plot" ? (
          <Plot series={result.series} range={range} dark={dark} zoom={zoom} />
        ) : (
          <SeriesTable series={result.series} />
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
