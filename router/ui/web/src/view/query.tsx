import { useEffect, useRef, useState } from "preact/hooks";
import { useLoaded } from "../data/hooks";
import { askJSON } from "../data/http";
import { type Past, readDraft, readHistory, remembered, writeDraft, writeHistory } from "../data/kept";
import { parseRange, parseStep } from "../data/range";
import { type Asked, type Outcome, runQuery } from "../data/run";
import { type DialectName, dialectOf } from "../dialect/dialect";
import type { Failure } from "../dialect/result";
import { Editor } from "../part/editor";
import { Notice } from "../part/notice";
import { draws } from "../part/plot";
import { RangePicker } from "../part/rangepicker";
import { Answer, type Show, shows } from "./answer";
import type { ViewProps } from "./context";

const refreshMs = 10_000;

/** QueryView is where queries are written, and their answers seen. */
export function QueryView({ dialects, database, dark, route, go }: ViewProps) {
  const { params } = route;
  const name = dialects.find((d) => d === params.d) ?? dialects[0] ?? "opentsdb";
  const dialect = dialectOf(name);
  const asked = params.q ?? "";
  const [text, setTextOnly] = useState(asked === "" ? readDraft(name) : asked);
  const setText = (next: string) => {
    setTextOnly(next);
    writeDraft(name, next);
  };
  const [outcome, setOutcome] = useState<Outcome | null>(null);
  const [running, setRunning] = useState(false);
  const [turn, setTurn] = useState(0);
  const [past, setPast] = useState<Past[]>(readHistory);
  const stop = useRef<AbortController>(new AbortController());
  const shown = useRef<{ key: string; outcome: Outcome } | null>(null);
  const show: Show = shows.find((s) => s === params.show) ?? "plot";
  const live = params.live === "1";

  const change = (changes: Record<string, string>, options?: { replace?: boolean }) =>
    go({ view: "query", params: { ...params, d: name, ...changes } }, options);

  useEffect(() => {
    if (asked === "") {
      setTextOnly(readDraft(name));
    } else {
      setText(asked);
    }
  }, [asked, name]);
  const instant = params.at === "end" && dialect.instant !== undefined;
  const request = (range: ReturnType<typeof parseRange>): Asked => ({
    dialect,
    text: asked,
    database,
    range,
    stepSeconds: parseStep(params.step ?? ""),
    instant,
  });
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
    runQuery(request(range), mine.signal).then(
      (next) => {
        if (!mine.signal.aborted) {
          // What is asked again and again stays while it fails.
          const key = JSON.stringify([name, asked, database, params.from, params.to, params.step, instant]);
          const stays = next.result === null && shown.current?.key === key && shown.current.outcome.result !== null;
          shown.current = {
            key,
            outcome: stays && shown.current !== null ? { ...shown.current.outcome, failure: next.failure } : next,
          };
          setOutcome(shown.current.outcome);
          setRunning(false);
        }
      },
      () => {}, // somebody asked for something else
    );
    return () => mine.abort();
  }, [name, asked, database, params.from, params.to, params.step, instant, turn]);
  useEffect(() => {
    if (!live || running) {
      return;
    }
    const timer = setTimeout(() => setTurn(turn + 1), refreshMs);
    return () => clearTimeout(timer);
  }, [live, running, turn]);

  /** runWith runs what stands in the editor, which is what is plotted from then on, with changes of the address. */
  const runWith = (changes: Record<string, string>) => {
    if (text.trim() === "") {
      change(changes);
      return;
    }
    const next = remembered(past, { dialect: name, text });
    setPast(next);
    writeHistory(next);
    if (text === asked && Object.keys(changes).length === 0) {
      setTurn(turn + 1);
    } else {
      change({ q: text, ...changes });
    }
  };
  const run = () => runWith({});
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
        <Editor
          dialect={dialect}
          database={database}
          text={text}
          asked={asked}
          setText={setText}
          run={run}
          wrong={wrong}
        />
        {failure !== null && <FailureNotice failure={failure} text={asked} />}
        <p class="note hint">{dialect.hint}</p>
        <div class="bar">
          <RangePicker
            from={params.from ?? "1h"}
            to={params.to ?? ""}
            range={range}
            choose={(from, to) => runWith({ from, to })}
          />
          <Steps
            instant={instant}
            setInstant={dialect.instant === undefined ? null : (on) => runWith({ at: on ? "end" : "" })}
            step={params.step ?? ""}
            setStep={(step) => runWith({ step })}
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
        start={<Start database={database} pick={(metric) => change({ q: dialect.select(metric, {}) })} />}
        outcome={outcome}
        running={running}
        show={params.show === undefined && instant ? "table" : show}
        request={outcome === null ? null : request(outcome.range)}
        draw={draws.find((d) => d === params.draw) ?? "lines"}
        setDraw={(draw) => change({ draw: draw === "lines" ? "" : draw }, { replace: true })}
        dark={dark}
        setShow={(s) => change({ show: s === "plot" && !instant ? "" : s }, { replace: true })}
        zoom={(r) => change({ from: String(r.fromMs), to: String(r.toMs), live: "" })}
      />
    </div>
  );
}

const stepChoices = ["", "1s", "10s", "30s", "1m", "5m", "15m", "1h", "1d"];

/** Steps chooses between a range and its end alone, and how far apart points are. */
function Steps({
  instant,
  setInstant,
  step,
  setStep,
}: {
  instant: boolean;
  /** null: the language has ranges only. */
  setInstant: ((on: boolean) => void) | null;
  step: string;
  setStep: (step: string) => void;
}) {
  const choices = stepChoices.includes(step) ? stepChoices : [...stepChoices, step];
  return (
    <>
      {setInstant !== null && (
        <div class="choices" role="group" aria-label="Range or instant">
          <button type="button" aria-pressed={!instant} onClick={() => instant && setInstant(false)}>
            Range
          </button>
          <button
            type="button"
            aria-pressed={instant}
            title="At the end of the range alone"
            onClick={() => !instant && setInstant(true)}
          >
            Instant
          </button>
        </div>
      )}
      {!instant && (
        <select
          aria-label="Time between points"
          title="Time between points"
          value={step}
          onChange={(event) => setStep(event.currentTarget.value)}
        >
          {choices.map((choice) => (
            <option key={choice} value={choice}>
              {choice === "" ? "step: auto" : `step: ${choice}`}
            </option>
          ))}
        </select>
      )}
    </>
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

/** Start is what is seen before the first query: how to begin, and metrics to begin with. */
function Start({ database, pick }: { database: string; pick: (metric: string) => void }) {
  const metrics = useLoaded(database, (signal) =>
    askJSON<{ names: string[] }>("metrics", { db: database, limit: "24" }, { signal }),
  );
  return (
    <div class="empty">
      <p>Write a query and press Ctrl-Enter. Names are completed while you type.</p>
      {metrics.error !== null && <Notice kind="error">{metrics.error}</Notice>}
      {metrics.value?.names.length === 0 && <p>This database has no metrics yet: write some points.</p>}
      <ul class="chips" aria-label="Metrics to begin with">
        {metrics.value?.names.map((name) => (
          <li key={name}>
            <button type="button" class="mono" onClick={() => pick(name)}>
              {name}
            </button>
          </li>
        ))}
      </ul>
    </div>
  );
}
