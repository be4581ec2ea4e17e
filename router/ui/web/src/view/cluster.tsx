import { useState } from "preact/hooks";
import {
  cellStates,
  cellTexts,
  type Group,
  isLost,
  lagOf,
  lagOfMove,
  type Move,
  problemsOf,
  type Status,
  shareOfMove,
  zonesOf,
} from "../data/cluster";
import { formatBytes, formatCount, formatDuration, formatRate } from "../data/format";
import { usePolled } from "../data/hooks";
import { askJSON } from "../data/http";
import { type History, type Live, recalled, type Seen, seen } from "../data/live";
import { newest, summed } from "../data/rates";
import { CellMark } from "../part/cells";
import { NodeCard } from "../part/nodecard";
import { Notice } from "../part/notice";
import { Spark } from "../part/spark";
import type { ViewProps } from "./context";

const periodMs = 2000;
const movesShown = 50;
/** After so long a rest the rates of the meantime are asked for. */
const restMs = 15e3;

/** ClusterView draws nodes in their zones, with what each is to every shard. */
export function ClusterView(_: ViewProps) {
  const [state] = useState<{ seen: Seen | null; at: number }>(() => ({ seen: null, at: 0 }));
  const [shard, setShard] = useState<number | null>(null);
  const polled = usePolled(periodMs, async (signal) => {
    const rested = state.seen === null || Date.now() - state.at > restMs;
    const [status, live, history] = await Promise.all([
      askJSON<Status>("status", {}, { signal }),
      askJSON<Live>("live", {}, { signal }),
      rested ? askJSON<History>("history", {}, { signal }) : null,
    ]);
    state.at = Date.now();
    state.seen = seen(history === null ? (state.seen ?? recalled({ moments: [] })) : recalled(history), status, live);
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
      {now?.status.restricted && (
        <Notice kind="warning">Nodes and shards are shown to users who may read all databases.</Notice>
      )}
      {now !== null && !now.status.restricted && (
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
                    <h3>
                      {zone.zone !== "" ? zone.zone : zone.nodes.some((n) => n.alive) ? "No zone" : "Zone not known"}
                    </h3>
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
          <Moves status={now.status} shard={shard} setShard={setShard} />
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
  const applied = summed(now.nodes);
  const cpu = newest(router.cpu);
  return (
    <section class="figures" aria-label="Figures">
      <Figure
        title="Points in"
        value={`${formatRate(newest(router.points))}/s`}
        detail={`by this router, ${formatRate(newest(router.refused))}/s refused`}
      >
        <Spark rates={router.points?.rates ?? []} label="Points a second that this router took, in the last minutes" />
      </Figure>
      <Figure
        title="Applied"
        value={`${formatRate(applied.at(-1)?.value)}/s`}
        detail="samples, by all nodes in every copy"
      >
        <Spark rates={applied} label="Samples a second that all nodes applied, in the last minutes" />
      </Figure>
      <Figure
        title="Queries"
        value={`${formatRate(newest(router.queries))}/s`}
        detail={`by this router, ${live.queriesRunning} running`}
      >
        <Spark
          rates={router.queries?.rates ?? []}
          label="Queries a second that ended on this router, in the last minutes"
        />
      </Figure>
      <Figure
        title="This router"
        value={formatBytes(live.residentBytes)}
        detail={`memory, ${cpu === null ? "–" : cpu.toFixed(2)} processors`}
      >
        <Spark rates={router.cpu?.rates ?? []} label="Processors that this process uses, in the last minutes" />
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
      <Figure title="Lag at most" value={formatCount(lag)} detail="entries that a live replica is behind" />
      <Figure
        title="Disks"
        value={capacity === 0 ? "–" : formatBytes(used)}
        detail={capacity === 0 ? "size not known" : `used of ${formatBytes(capacity)}, all nodes`}
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
function Moves({ status, shard, setShard }: { status: Status } & ShardChoice) {
  const ahead = status.movesAhead;
  return (
    <section class="card" aria-label="Moves">
      <div class="bar">
        <h2>Moves</h2>
        <p class="note">
          {ahead === undefined
            ? status.moves.length === 0 && "No data is on the move."
            : `${formatCount(ahead.moves)} to make, ${formatBytes(ahead.doneBytes)} of ${formatBytes(ahead.totalBytes)}, ${
                ahead.remainingMs > 0
                  ? `done in about ${formatDuration(ahead.remainingMs)}`
                  : "nobody can say yet for how long"
              }`}
        </p>
      </div>
      {status.moves.length > 0 && (
        <ul class="moves">
          {status.moves.slice(0, movesShown).map((move) => (
            <MoveRow
              key={`${move.shard}-${move.to}`}
              move={move}
              groups={status.groups}
              chosen={move.shard === shard}
              setShard={setShard}
            />
          ))}
        </ul>
      )}
      {status.moves.length > movesShown && <p class="note">and {formatCount(status.moves.length - movesShown)} more</p>}
    </section>
  );
}

interface ShardChoice {
  shard: number | null;
  setShard: (shard: number | null) => void;
}

interface MoveProps extends Pick<ShardChoice, "setShard"> {
  move: Move;
  groups: Group[];
  chosen: boolean;
}

function MoveRow({ move, groups, chosen, setShard }: MoveProps) {
  const lag = lagOfMove(move, groups);
  return (
    <li
      class={chosen ? "chosen" : ""}
      onPointerEnter={() => setShard(move.shard)}
      onPointerLeave={() => setShard(null)}
    >
      <span class="mono">shard {move.shard}</span>
      <span class="mono">
        {move.from === "" ? "lost copy" : move.from} → {move.to}
      </span>
      <progress max={1} value={shareOfMove(move, groups)} aria-label={`Shard ${move.shard} to ${move.to}`} />
      <span class="note">
        {move.phase}
        {lag !== null
          ? ` · ${formatCount(lag)} entries behind`
          : move.totalBytes > 0 && ` · ${formatBytes(move.doneBytes)} of ${formatBytes(move.totalBytes)}`}
        {move.bytesPerSecond > 0 && ` · ${formatBytes(move.bytesPerSecond)}/s`}
        {move.remainingMs > 0 && ` · ${formatDuration(move.remainingMs)} left`}
      </span>
    </li>
  );
}
