import { useState } from "preact/hooks";
import { cellStates, cellTexts, isLost, lagOf, type Move, problemsOf, type Status, zonesOf } from "../data/cluster";
import { formatBytes, formatCount, formatDuration, formatNumber } from "../data/format";
import { usePolled } from "../data/hooks";
import { askJSON } from "../data/http";
import { type Board, newest, observedAll } from "../data/rates";
import { CellMark } from "../part/cells";
import { NodeCard } from "../part/nodecard";
import { Notice } from "../part/notice";
import { Spark } from "../part/spark";
import type { ViewProps } from "./context";

const periodMs = 2000;
const movesShown = 50;

interface Live {
  timeMs: number;
  points: Record<string, number>;
  refused: number;
  bytes: number;
  requests: number;
  cpuSeconds: number;
  residentBytes: number;
  queriesRunning: number;
  queriesEnded: number;
}

/** What is known now, with the rates since the view was opened. */
interface Seen {
  status: Status;
  live: Live;
  nodes: Board;
  router: Board;
}

/** seen joins what was known with what came now. */
export function seen(before: Seen | null, status: Status, live: Live): Seen {
  return {
    status,
    live,
    nodes: observedAll(
      before?.nodes ?? {},
      status.timeMs,
      Object.fromEntries(status.nodes.filter((n) => n.alive).map((n) => [n.node, n.samplesApplied])),
    ),
    router: observedAll(before?.router ?? {}, live.timeMs, {
      points: Object.values(live.points).reduce((sum, n) => sum + n, 0),
      refused: live.refused,
      bytes: live.bytes,
      cpu: live.cpuSeconds,
      queries: live.queriesEnded,
    }),
  };
}

/** ClusterView draws nodes in their zones, with what each is to every shard. */
export function ClusterView(_: ViewProps) {
  const [state] = useState<{ seen: Seen | null }>(() => ({ seen: null }));
  const [shard, setShard] = useState<number | null>(null);
  const polled = usePolled(periodMs, async (signal) => {
    const [status, live] = await Promise.all([
      askJSON<Status>("status", {}, { signal }),
      askJSON<Live>("live", {}, { signal }),
    ]);
    state.seen = seen(state.seen, status, live);
    return state.seen;
  });
  const now = polled.value;
  return (
    <div class="cluster">
      <h1 class="unseen">Cluster</h1>
      {polled.error !== null && (
        <Notice kind="error">
          {polled.error} {now !== null && "What is shown is what was known before."}
        </Notice>
      )}
      {now !== null && (
        <>
          <Problems status={now.status} />
          <Figures now={now} />
          <section class="card" aria-label="Shards on nodes">
            <div class="bar">
              <h2>Shards on nodes</h2>
              <Legend />
            </div>
            <div class="zones">
              {zonesOf(now.status.nodes).map((zone) => (
                <section
                  key={zone.zone}
                  class="zone"
                  aria-label={zone.zone === "" ? "Nodes without a zone" : `Zone ${zone.zone}`}
                >
                  {(zone.zone !== "" || now.status.nodes.length > 1) && (
                    <h3>{zone.zone === "" ? "No zone" : zone.zone}</h3>
                  )}
                  <div class="nodes">
                    {zone.nodes.map((node) => (
                      <NodeCard
                        key={node.node}
                        node={node}
                        status={now.status}
                        counter={now.nodes[node.node]}
                        shard={shard}
                        setShard={setShard}
                      />
                    ))}
                  </div>
                </section>
              ))}
            </div>
            <ShardFacts status={now.status} shard={shard} />
          </section>
          <Moves status={now.status} />
        </>
      )}
    </div>
  );
}

/** Problems says what is wrong, or that nothing is. */
function Problems({ status }: { status: Status }) {
  const problems = problemsOf(status);
  if (problems.length === 0) {
    const copies = status.replication === 1 ? "its copy" : `${status.replication} copies`;
    return <Notice kind="good">All is well: every shard has a leader and {copies}.</Notice>;
  }
  const severe = status.nodes.some(isLost) || status.groups.some((g) => g.leader === "");
  return (
    <Notice kind={severe ? "error" : "warning"}>
      <ul class="problems">
        {problems.map((problem) => (
          <li key={problem}>{problem}</li>
        ))}
      </ul>
    </Notice>
  );
}

/** Figures are the numbers of the whole cluster, and of this router. */
function Figures({ now }: { now: Seen }) {
  const { status, live, router } = now;
  const alive = status.nodes.filter((n) => n.alive);
  const led = status.groups.filter((g) => g.leader !== "").length;
  const used = alive.reduce((sum, n) => sum + n.usedBytes, 0);
  const capacity = alive.reduce((sum, n) => sum + n.capacityBytes, 0);
  const lag = Math.max(0, ...status.nodes.map((n) => lagOf(status, n.node).entries));
  const cpu = newest(router.cpu);
  return (
    <section class="figures" aria-label="Figures">
      <Figure
        title="Points in"
        value={`${formatNumber(newest(router.points))}/s`}
        detail={`this router, ${formatNumber(newest(router.refused))}/s refused`}
      >
        <Spark rates={router.points?.rates ?? []} label="Points a second that this router took, in the last minutes" />
      </Figure>
      <Figure
        title="Queries"
        value={`${formatNumber(newest(router.queries))}/s`}
        detail={`this router, ${live.queriesRunning} running`}
      >
        <Spark
          rates={router.queries?.rates ?? []}
          label="Queries a second that ended on this router, in the last minutes"
        />
      </Figure>
      <Figure
        title="Nodes alive"
        value={`${alive.length} of ${status.nodes.length}`}
        detail={`cluster ${status.cluster}, map ${status.mapEpoch}`}
        bad={alive.length < status.nodes.length}
      />
      <Figure
        title="Shards led"
        value={`${led} of ${status.shards}`}
        detail={`${status.replication} ${status.replication === 1 ? "copy" : "copies"} each`}
        bad={led < status.shards}
      />
      <Figure title="Lag at most" value={`${formatCount(lag)}`} detail="entries that a live replica is behind" />
      <Figure
        title="Disks"
        value={capacity === 0 ? "–" : formatBytes(used)}
        detail={capacity === 0 ? "size not known" : `used of ${formatBytes(capacity)}, all nodes`}
      />
      <Figure
        title="This process"
        value={formatBytes(live.residentBytes)}
        detail={cpu === null ? "memory" : `memory, ${cpu.toFixed(2)} processors`}
      />
    </section>
  );
}

interface FigureProps {
  title: string;
  value: string;
  detail: string;
  bad?: boolean;
  children?: preact.ComponentChildren;
}

function Figure({ title, value, detail, bad = false, children }: FigureProps) {
  return (
    <div class={`card figure ${bad ? "bad" : ""}`}>
      <h2>{title}</h2>
      <p class="value">{value}</p>
      <p class="note">{detail}</p>
      {children}
    </div>
  );
}

function Legend() {
  return (
    <ul class="marks" aria-label="Legend">
      {cellStates.map((state) => (
        <li key={state} title={cellTexts[state].means}>
          <CellMark state={state} />
          {cellTexts[state].name}
        </li>
      ))}
    </ul>
  );
}

/** ShardFacts says all of the shard under the pointer. Its place is always there, so that nothing moves. */
function ShardFacts({ status, shard }: { status: Status; shard: number | null }) {
  const group = shard === null ? undefined : status.groups[shard];
  if (group === undefined) {
    return (
      <p class="facts note">
        Point at a shard, or choose a node's field and use the arrow keys, to see the shard on all nodes.
      </p>
    );
  }
  return (
    <p class="facts" role="status">
      <b>Shard {group.shard}</b> · {group.leader === "" ? "no leader" : `led by ${group.leader}`} ·{" "}
      {formatBytes(group.bytes)} · era {group.era}, term {group.term} ·{" "}
      {group.lossesSurvived === 0
        ? "survives no further loss"
        : `survives ${group.lossesSurvived} more ${group.lossesSurvived === 1 ? "loss" : "losses"}`}{" "}
      ·{" "}
      {group.members
        .map((m) => `${m.node} ${m.role}${m.active ? (m.lag > 0 ? `, ${formatCount(m.lag)} behind` : "") : ", silent"}`)
        .join("; ")}
      {group.recovery !== undefined && ` · ${group.recovery}`}
    </p>
  );
}

/** Moves lists the replicas that are on their way. */
function Moves({ status }: { status: Status }) {
  const ahead = status.movesAhead;
  return (
    <section class="card" aria-label="Moves">
      <h2>Moves</h2>
      {ahead !== undefined && (
        <p class="note">
          {formatCount(ahead.moves)} to make, {formatBytes(ahead.doneBytes)} of {formatBytes(ahead.totalBytes)}
          {ahead.remainingMs > 0
            ? `, done in about ${formatDuration(ahead.remainingMs)}`
            : ", nobody can say yet for how long"}
          .
        </p>
      )}
      {status.moves.length === 0 ? (
        <p class="empty">No data is on the move.</p>
      ) : (
        <ul class="moves">
          {status.moves.slice(0, movesShown).map((move) => (
            <MoveRow key={`${move.shard}-${move.to}`} move={move} />
          ))}
        </ul>
      )}
      {status.moves.length > movesShown && <p class="note">and {formatCount(status.moves.length - movesShown)} more</p>}
    </section>
  );
}

function MoveRow({ move }: { move: Move }) {
  return (
    <li>
      <span class="mono">shard {move.shard}</span>
      <span class="mono">
        {move.from === "" ? "lost copy" : move.from} → {move.to}
      </span>
      <progress
        max={Math.max(move.totalBytes, 1)}
        value={move.doneBytes}
        aria-label={`Shard ${move.shard} to ${move.to}`}
      />
      <span class="note">
        {move.phase} · {formatBytes(move.doneBytes)} of {formatBytes(move.totalBytes)}
        {move.bytesPerSecond > 0 && ` · ${formatBytes(move.bytesPerSecond)}/s`}
        {move.remainingMs > 0 && ` · ${formatDuration(move.remainingMs)} left`}
      </span>
    </li>
  );
}
