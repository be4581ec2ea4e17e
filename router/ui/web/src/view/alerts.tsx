import { formatCount, formatDuration, formatTime } from "../data/format";
import { usePolled } from "../data/hooks";
import { ask } from "../data/http";
import { type Filter, filtered, filters, type Group, type Rule, ruleCounts } from "../data/rules";
import { seriesName } from "../dialect/result";
import { Notice } from "../part/notice";
import type { ViewProps } from "./context";

const periodMs = 10_000;
const filterTitles: Record<Filter, string> = { all: "All", firing: "Firing", pending: "Pending", failing: "Failing" };

/** AlertsView shows the rules of the database, and what they have found. */
export function AlertsView({ database, dialects, route, go }: ViewProps) {
  const polled = usePolled(periodMs, async (signal): Promise<Group[]> => {
    const params = new URLSearchParams(database === "" ? {} : { db: database });
    return JSON.parse((await ask("api/v1/rules", params, { signal })).text).data?.groups ?? [];
  });
  const filter = filters.find((f) => f === route.params.only) ?? "all";
  const groups = polled.value ?? [];
  const counts = ruleCounts(groups);
  const shown = filtered(groups, filter);
  const query = dialects.includes("promql")
    ? (q: string) => go({ view: "query", params: { db: database, d: "promql", q } })
    : null;
  return (
    <div class="alerts">
      <h1 class="unseen">Rules and alerts</h1>
      {polled.error !== null && (
        <Notice kind="error">
          {polled.error} {polled.value !== null && "What is shown is what was known before."}
        </Notice>
      )}
      <div class="bar">
        <div class="choices" role="group" aria-label="Which rules">
          {filters.map((f) => (
            <button
              type="button"
              key={f}
              aria-pressed={f === filter}
              onClick={() =>
                go({ view: "alerts", params: { ...route.params, only: f === "all" ? "" : f } }, { replace: true })
              }
            >
              {filterTitles[f]} {polled.value === null ? "" : formatCount(counts[f])}
            </button>
          ))}
        </div>
      </div>
      {polled.value !== null && groups.length === 0 && (
        <p class="card empty">
          This database has no rules: <span class="mono">--rules-file</span> names files of them, in Prometheus' format.
        </p>
      )}
      {groups.length > 0 && shown.length === 0 && <p class="card empty">No rule is {filter}.</p>}
      {shown.map((group) => (
        <section class="card" key={group.file + group.name} aria-label={`Group ${group.name}`}>
          <div class="bar">
            <h2>{group.name}</h2>
            <p class="note">
              every {formatDuration(group.interval * 1000)} · {group.file}
            </p>
          </div>
          <ul class="rules">
            {group.rules.map((rule, i) => (
              <RuleEntry key={i} rule={rule} query={query} />
            ))}
          </ul>
        </section>
      ))}
    </div>
  );
}

/** stateOf gives what a rule's mark says. */
function stateOf(rule: Rule): { title: string; kind: string } {
  if (rule.health === "err") {
    return { title: "failing", kind: "bad" };
  }
  switch (rule.state) {
    case "firing":
      return { title: "firing", kind: "bad" };
    case "pending":
      return { title: "pending", kind: "warn" };
    case "inactive":
      return { title: "inactive", kind: "good" };
    default:
      return { title: "recording", kind: "" };
  }
}

function RuleEntry({ rule, query }: { rule: Rule; query: ((q: string) => void) | null }) {
  const { title, kind } = stateOf(rule);
  const last = Date.parse(rule.lastEvaluation);
  return (
    <li>
      <p class="bar">
        <span class={`state ${kind}`}>{title}</span>
        <b class="mono">{rule.name}</b>
        <span class="note">
          {rule.duration !== undefined && rule.duration > 0 ? `for ${formatDuration(rule.duration * 1000)} · ` : ""}
          {last > 0 ? `${formatTime(Math.floor(last / 1000) * 1000)}, ` : ""}
          {formatDuration(rule.evaluationTime * 1000)}
        </span>
        {query !== null && (
          <button type="button" onClick={() => query(rule.query)}>
            Query
          </button>
        )}
      </p>
      <pre>{rule.query}</pre>
      {rule.lastError !== undefined && rule.lastError !== "" && <Notice kind="error">{rule.lastError}</Notice>}
      {(rule.alerts ?? []).length > 0 && (
        <div class="scroll">
          <table>
            <thead>
              <tr>
                <th scope="col">Alert</th>
                <th scope="col">State</th>
                <th scope="col">Since</th>
                <th scope="col" class="number">
                  Value
                </th>
              </tr>
            </thead>
            <tbody>
              {rule.alerts?.map((alert, i) => {
                const { alertname: _, ...labels } = alert.labels;
                return (
                  <tr key={i}>
                    <td class="mono">
                      {seriesName({ name: "", labels })}
                      {Object.entries(alert.annotations).map(([name, text]) => (
                        <small key={name}>
                          {name}: {text}
                        </small>
                      ))}
                    </td>
                    <td>{alert.state}</td>
                    <td>{formatTime(Math.floor(Date.parse(alert.activeAt) / 1000) * 1000)}</td>
                    <td class="number">{Number(alert.value)}</td>
                  </tr>
                );
              })}
            </tbody>
          </table>
        </div>
      )}
    </li>
  );
}
