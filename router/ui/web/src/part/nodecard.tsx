import { cellsOf, healthOf, lagOf, type Node, type NodeHealth, type Status } from "../data/cluster";
import { formatBytes, formatCount, formatDuration, formatRate } from "../data/format";
import { type Counter, newest } from "../data/rates";
import { Cells } from "./cells";
import { Spark } from "./spark";

interface Props {
  node: Node;
  status: Status;
  counter: Counter | undefined;
  shard: number | null;
  setShard: (shard: number | null) => void;
}

/** healthText names how a node is; the sign tells it without colour. */
function healthText(node: Node, health: NodeHealth): { sign: string; text: string } {
  switch (health) {
    case "dead":
      return { sign: "✕", text: node.deadMs > 0 ? `Dead for ${formatDuration(node.deadMs)}` : "Dead" };
    case "refusing":
      return { sign: "!", text: "Takes no writes" };
    case "leaving":
      return { sign: "→", text: node.desired === "gone" ? "Gone for good" : "Draining" };
    case "well":
      return { sign: "✓", text: "Alive" };
  }
}

/** NodeCard is one node: how it is, its disk, what it takes in, and its shards. */
export function NodeCard({ node, status, counter, shard, setShard }: Props) {
  const health = healthOf(node);
  const { sign, text } = healthText(node, health);
  const lag = lagOf(status, node.node);
  const share = node.capacityBytes === 0 ? 0 : node.usedBytes / node.capacityBytes;
  return (
    <article
      class={`node ${health}`}
      data-node={node.node}
      data-health={health}
      aria-label={`Node ${node.node}: ${text}`}
    >
      <header>
        <h4>{node.node}</h4>
        <span class="health">
          <span aria-hidden="true">{sign}</span> {text}
        </span>
      </header>
      {node.refusal !== "" && <p class="wrong">{node.refusal}</p>}
      <Cells node={node.node} cells={cellsOf(status, node.node)} moving={status} shard={shard} setShard={setShard} />
      <dl>
        <div>
          <dt>Leads</dt>
          <dd>{formatCount(node.leads)}</dd>
        </div>
        <div>
          <dt>Copies</dt>
          <dd>{formatCount(node.fullReplicas)}</dd>
        </div>
        <div>
          <dt>Witness</dt>
          <dd>{formatCount(node.witnesses)}</dd>
        </div>
        <div title={lag.shard < 0 ? "" : `shard ${lag.shard}`}>
          <dt>Lag</dt>
          <dd>{formatCount(lag.entries)}</dd>
        </div>
      </dl>
      <div class="rate">
        <Spark rates={counter?.rates ?? []} label={`Samples a second that ${node.node} applies, in the last minutes`} />
        <span>
          <b>{formatRate(newest(counter))}</b>/s <span class="note">applied</span>
        </span>
      </div>
      <div class="disk">
        <meter min={0} max={1} low={0.8} high={0.9} optimum={0} value={share} aria-label={`Disk of ${node.node}`} />
        <span class="note">
          {node.capacityBytes === 0
            ? "disk not known"
            : `${formatBytes(node.usedBytes)} of ${formatBytes(node.capacityBytes)}`}
        </span>
      </div>
      <p class="note foot">
        {node.address || "no address"} {node.version !== "" && `· ${node.version}`}
      </p>
    </article>
  );
}
