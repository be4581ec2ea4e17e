/** The state of the cluster, as /ui/api/status tells it, and what is drawn of it. */

export interface Member {
  node: string;
  role: "full" | "witness" | "learner";
  active: boolean;
  lag: number;
}

export interface Group {
  shard: number;
  era: number;
  term: number;
  leader: string;
  commitIndex: number;
  bytes: number;
  lossesSurvived: number;
  members: Member[];
  intended?: Member[];
  recovery?: string;
}

export interface Node {
  node: string;
  zone: string;
  address: string;
  version: string;
  desired: "active" | "draining" | "gone";
  alive: boolean;
  deadMs: number;
  refusal: string;
  capacityBytes: number;
  usedBytes: number;
  leads: number;
  fullReplicas: number;
  witnesses: number;
  learners: number;
  samplesApplied: number;
}

export interface Move {
  shard: number;
  from: string;
  to: string;
  phase: string;
  doneBytes: number;
  totalBytes: number;
  remainingMs: number;
  bytesPerSecond: number;
}

export interface Status {
  timeMs: number;
  cluster: string;
  mapEpoch: number;
  shards: number;
  replication: number;
  storeReachable: boolean;
  problems: string[];
  /** Nodes, groups, moves and problems are not for who asked. */
  restricted: boolean;
  nodes: Node[];
  groups: Group[];
  moves: Move[];
  movesAhead?: { moves: number; totalBytes: number; doneBytes: number; remainingMs: number };
}

/** What a node is to a shard, in the order of the legend. */
export const cellStates = ["lead", "copy", "witness", "joining", "silent", "headless", "none"] as const;
export type CellState = (typeof cellStates)[number];

export const cellTexts: Record<CellState, { name: string; means: string }> = {
  lead: { name: "Leader", means: "takes the shard's writes" },
  copy: { name: "Copy", means: "has all of the shard's data, and votes" },
  witness: { name: "Witness", means: "votes, and keeps the log only" },
  joining: { name: "Joining", means: "gets the shard's data now: filled as far as it has come" },
  silent: { name: "Silent", means: "the shard's leader does not hear it" },
  headless: { name: "No leader", means: "nobody leads the shard: it takes no writes" },
  none: { name: "Not here", means: "the shard has no replica on this node" },
};

/** cellOf says what a node is to a shard. */
export function cellOf(group: Group, node: string): CellState {
  const member = group.members.find((m) => m.node === node);
  if (member === undefined) {
    return group.intended?.some((m) => m.node === node) ? "joining" : "none";
  }
  if (group.leader === "") {
    return member.active ? "headless" : "silent";
  }
  if (group.leader === node) {
    return "lead";
  }
  if (!member.active) {
    return "silent";
  }
  return member.role === "full" ? "copy" : member.role === "witness" ? "witness" : "joining";
}

/** cellsOf gives the states of all shards on a node, by shard. */
export function cellsOf(status: Status, node: string): CellState[] {
  return status.groups.map((group) => cellOf(group, node));
}

/** countsOf counts states. */
export function countsOf(cells: CellState[]): Record<CellState, number> {
  const counts = Object.fromEntries(cellStates.map((state) => [state, 0])) as Record<CellState, number>;
  for (const cell of cells) {
    counts[cell]++;
  }
  return counts;
}

/** lagOf gives how far a node's replicas that are heard are behind at most, in entries of the log, and where. */
export function lagOf(status: Status, node: string): { entries: number; shard: number } {
  let worst = { entries: 0, shard: -1 };
  for (const group of status.groups) {
    for (const member of group.members) {
      if (member.node === node && member.active && group.leader !== node && member.lag > worst.entries) {
        worst = { entries: member.lag, shard: group.shard };
      }
    }
  }
  return worst;
}

export interface Zone {
  zone: string;
  nodes: Node[];
}

/** zonesOf puts nodes into their zones; those without one are in a zone with the name "". */
export function zonesOf(nodes: Node[]): Zone[] {
  const zones = new Map<string, Node[]>();
  for (const node of nodes) {
    zones.set(node.zone, [...(zones.get(node.zone) ?? []), node]);
  }
  return [...zones]
    .map(([zone, members]) => ({ zone, nodes: members }))
    .sort((a, b) => (a.zone < b.zone ? -1 : a.zone > b.zone ? 1 : 0));
}

/** How a node is, in one word; the worst that is true. */
export type NodeHealth = "dead" | "refusing" | "leaving" | "well";

export function healthOf(node: Node): NodeHealth {
  if (!node.alive) {
    return "dead";
  }
  if (node.refusal !== "") {
    return "refusing";
  }
  return node.desired === "active" ? "well" : "leaving";
}

/** columnsFor gives the columns of a grid of shards, twice as wide as high if it can be. */
export function columnsFor(shards: number): number {
  for (const columns of [4, 8, 16, 32, 64, 128]) {
    if (columns * columns >= 2 * shards) {
      return columns;
    }
  }
  return 256;
}

/** gridPath gives the SVG path of the cells that have a state, each a square of the given side in a field of 10. */
export function gridPath(cells: CellState[], state: CellState, columns: number, side: number): string {
  const margin = (10 - side) / 2;
  let path = "";
  cells.forEach((cell, shard) => {
    if (cell === state) {
      const x = (shard % columns) * 10 + margin;
      const y = Math.floor(shard / columns) * 10 + margin;
      path += `M${x} ${y}h${side}v${side}h-${side}z`;
    }
  });
  return path;
}

/** crossPath gives a stroke over each cell that has one of the states, so that they are told apart without colour. */
export function crossPath(cells: CellState[], states: CellState[], columns: number): string {
  let path = "";
  cells.forEach((cell, shard) => {
    if (states.includes(cell)) {
      const x = (shard % columns) * 10 + 3;
      const y = Math.floor(shard / columns) * 10 + 3;
      path += `M${x} ${y}l4 4${cell === "silent" ? `M${x + 4} ${y}l-4 4` : ""}`;
    }
  });
  return path;
}

/** What is drawn of moves. */
export type Moving = Pick<Status, "moves" | "groups">;

/** lagOfMove gives how many entries a copy that has its files is behind; null: it is not that far, or nobody knows. */
export function lagOfMove(move: Move, groups: Group[]): number | null {
  const member = groups[move.shard]?.members.find((m) => m.node === move.to);
  return move.phase === "log" ? (member?.lag ?? null) : null;
}

/** shareOfMove gives how far a move has come, from 0 to 1: by files, and behind them by entries of the log. */
export function shareOfMove(move: Move, groups: Group[]): number {
  const lag = lagOfMove(move, groups);
  const entries = groups[move.shard]?.commitIndex ?? 0;
  if (lag !== null) {
    return entries === 0 ? 0 : Math.max(0, 1 - lag / entries);
  }
  return move.totalBytes === 0 ? 0 : Math.min(1, move.doneBytes / move.totalBytes);
}

/** arrivedPath fills cells of shards that move to a node, from below, as far as they have come. */
export function arrivedPath({ moves, groups }: Moving, node: string, columns: number): string {
  let path = "";
  for (const move of moves) {
    const height = 8 * shareOfMove(move, groups);
    if (move.to === node && height > 0) {
      const x = (move.shard % columns) * 10 + 1;
      const y = Math.floor(move.shard / columns) * 10 + 9;
      path += `M${x} ${y}h8v-${height.toFixed(1)}h-8z`;
    }
  }
  return path;
}

/** leavingPath marks the upper right corner of cells of shards that move away from a node. */
export function leavingPath(moves: Move[], node: string, columns: number): string {
  let path = "";
  for (const { shard, from } of moves) {
    if (from === node) {
      path += `M${(shard % columns) * 10 + 4} ${Math.floor(shard / columns) * 10 + 0.5}h5.5v5.5z`;
    }
  }
  return path;
}

/** isLost says whether a node is dead that should be there. */
export function isLost(node: Node): boolean {
  return !node.alive && node.desired !== "gone";
}

/**
 * problemsOf says what is wrong: nodes that are dead first, then what the cluster tells of itself,
 * those among them of which it has more to say.
 */
export function problemsOf(status: Status): string[] {
  const dead = status.nodes
    .filter(isLost)
    .map((node) => `node ${node.node} is dead`)
    .filter((text) => !status.problems.some((problem) => problem.startsWith(`${text};`)));
  return [...dead, ...status.problems];
}
