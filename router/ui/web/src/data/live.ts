/** What the cluster and this router do now, with the rates of the last minutes. */
import type { Status } from "./cluster";
import { type Board, observedAll } from "./rates";

/** As /ui/api/live tells. */
export interface Live {
  timeMs: number;
  points: Record<string, number>;
  refused: number;
  cpuSeconds: number;
  residentBytes: number;
  queriesRunning: number;
  queriesEnded: number;
}

/** As /ui/api/history tells: counters at moments of the last minutes, the oldest first. */
export interface History {
  moments: {
    timeMs: number;
    points: number;
    refused: number;
    cpuSeconds: number;
    queries: number;
    nodesTimeMs: number;
    nodes: Record<string, number>;
  }[];
}

/** Rates of nodes by their names, and of this router by what is counted. */
export interface Rates {
  nodes: Board;
  router: Board;
}

export interface Seen extends Rates {
  status: Status;
  live: Live;
}

/** recalled gives the rates of what the router has kept. */
export function recalled(history: History): Rates {
  let rates: Rates = { nodes: {}, router: {} };
  for (const { timeMs, points, refused, cpuSeconds: cpu, queries, nodesTimeMs, nodes } of history.moments) {
    rates = {
      nodes: Object.keys(nodes).length === 0 ? rates.nodes : observedAll(rates.nodes, nodesTimeMs, nodes),
      router: observedAll(rates.router, timeMs, { points, refused, cpu, queries }),
    };
  }
  return rates;
}

/** seen joins what was known with what came now. */
export function seen(before: Rates, status: Status, live: Live): Seen {
  const alive = status.nodes.filter((n) => n.alive).map((n) => [n.node, n.samplesApplied]);
  return {
    status,
    live,
    nodes: observedAll(before.nodes, status.timeMs, Object.fromEntries(alive)),
    router: observedAll(before.router, live.timeMs, {
      points: Object.values(live.points).reduce((sum, n) => sum + n, 0),
      refused: live.refused,
      cpu: live.cpuSeconds,
      queries: live.queriesEnded,
    }),
  };
}
