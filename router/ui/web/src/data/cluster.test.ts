import { describe, expect, it } from "vitest";
import { sparkPath } from "../part/spark";
import {
  arrivedPath,
  type CellState,
  cellOf,
  cellStates,
  cellsOf,
  columnsFor,
  countsOf,
  crossPath,
  type Group,
  gridPath,
  healthOf,
  lagOf,
  lagOfMove,
  leavingPath,
  type Member,
  type Move,
  type Node,
  problemsOf,
  type Status,
  shareOfMove,
  zonesOf,
} from "./cluster";

const member = (node: string, role: Member["role"], active = true, lag = 0): Member => ({ node, role, active, lag });
const group = (shard: number, leader: string, members: Member[], intended: Member[] = []): Group => ({
  shard,
  era: 1,
  term: 1,
  leader,
  commitIndex: 1,
  bytes: 0,
  lossesSurvived: 1,
  members,
  intended,
});
const node = (name: string, changes: Partial<Node> = {}): Node => ({
  node: name,
  zone: "",
  address: "",
  version: "",
  desired: "active",
  alive: true,
  deadMs: 0,
  refusal: "",
  capacityBytes: 0,
  usedBytes: 0,
  leads: 0,
  fullReplicas: 0,
  witnesses: 0,
  learners: 0,
  samplesApplied: 0,
  ...changes,
});

describe("moves", () => {
  const move = (shard: number, from: string, to: string, doneBytes: number, totalBytes: number): Move => ({
    shard,
    from,
    to,
    phase: "files",
    doneBytes,
    totalBytes,
    remainingMs: 0,
    bytesPerSecond: 0,
  });
  const moves = [move(0, "a", "b", 1, 2), move(17, "a", "c", 0, 0), move(2, "", "b", 9, 8)];
  it("go on by the log when the files are there", () => {
    const log = { ...move(1, "a", "b", 0, 9), phase: "log" };
    const groups = [0, 1].map((shard) => ({
      ...group(shard, "a", [member("b", "learner", true, 30)]),
      commitIndex: 40,
    }));
    expect([lagOfMove(log, groups), shareOfMove(log, groups)]).toEqual([30, 0.25]);
    expect([lagOfMove(log, []), shareOfMove(log, [])]).toEqual([null, 0]);
    expect([lagOfMove(move(1, "a", "b", 3, 9), groups), shareOfMove(move(1, "a", "b", 3, 9), groups)]).toEqual([
      null,
      1 / 3,
    ]);
    expect(shareOfMove({ ...log, to: "nobody" }, groups)).toBe(0);
  });
  it("fill the cells they go to, and mark those they leave", () => {
    expect(arrivedPath({ moves, groups: [] }, "b", 16)).toBe("M1 9h8v-4.0h-8zM21 9h8v-8.0h-8z");
    expect(arrivedPath({ moves, groups: [] }, "c", 16)).toBe("");
    expect(leavingPath(moves, "a", 16)).toBe("M4 0.5h5.5v5.5zM14 10.5h5.5v5.5z");
    expect(leavingPath(moves, "b", 16)).toBe("");
  });
});

describe("cells", () => {
  const led = group(
    0,
    "a",
    [member("a", "full"), member("b", "full", true, 7), member("c", "witness")],
    [member("d", "full")],
  );
  const headless = group(1, "", [member("a", "full", false), member("b", "full")]);
  const status = { shards: 2, groups: [led, headless], nodes: [] } as unknown as Status;
  it("says what a node is to a shard", () => {
    expect(["a", "b", "c", "d", "e"].map((n) => cellOf(led, n))).toEqual([
      "lead",
      "copy",
      "witness",
      "joining",
      "none",
    ]);
    expect(["a", "b", "c"].map((n) => cellOf(headless, n))).toEqual(["silent", "headless", "none"]);
    expect(cellOf(group(2, "a", [member("a", "full"), member("b", "learner"), member("c", "full", false)]), "b")).toBe(
      "joining",
    );
    expect(cellOf(group(2, "a", [member("a", "full"), member("c", "full", false)]), "c")).toBe("silent");
  });
  it("counts, and finds the worst lag of those that are heard", () => {
    expect(countsOf(cellsOf(status, "a"))).toMatchObject({ lead: 1, silent: 1, copy: 0 });
    expect(lagOf(status, "b")).toEqual({ entries: 7, shard: 0 });
    expect(lagOf(status, "a")).toEqual({ entries: 0, shard: -1 });
  });
  it("draws each shard once, in its field", () => {
    for (const shards of [1, 3, 16, 128, 1000]) {
      const columns = columnsFor(shards);
      const cells: CellState[] = Array.from(
        { length: shards },
        (_, i) => cellStates[(i * 5) % cellStates.length] ?? "none",
      );
      const found: [number, CellState][] = [];
      for (const state of cellStates) {
        for (const [, x, y] of gridPath(cells, state, columns, 8).matchAll(/M([\d.]+) ([\d.]+)h8v8h-8z/g)) {
          found.push([((Number(y) - 1) / 10) * columns + (Number(x) - 1) / 10, state]);
        }
      }
      found.sort(([a], [b]) => a - b);
      expect(found).toEqual(cells.map((state, shard) => [shard, state]));
    }
    expect(columnsFor(128)).toBe(16);
    expect(crossPath(["lead", "silent", "headless"], ["silent", "headless"], 4).match(/M/g)).toHaveLength(3);
  });
});

describe("nodes", () => {
  it("puts them into zones", () => {
    const zones = zonesOf([node("a", { zone: "y" }), node("b", { zone: "x" }), node("c", { zone: "y" })]);
    expect(zones.map((z) => [z.zone, z.nodes.map((n) => n.node)])).toEqual([
      ["x", ["b"]],
      ["y", ["a", "c"]],
    ]);
  });
  it("names the worst that is true", () => {
    expect(healthOf(node("a"))).toBe("well");
    expect(healthOf(node("a", { desired: "draining" }))).toBe("leaving");
    expect(healthOf(node("a", { desired: "draining", refusal: "disk full" }))).toBe("refusing");
    expect(healthOf(node("a", { alive: false, refusal: "x" }))).toBe("dead");
  });
});

describe("problems", () => {
  it("names dead nodes first, but not those that are to be gone", () => {
    const nodes = [node("a"), node("b", { alive: false }), node("c", { alive: false, desired: "gone" })];
    expect(problemsOf({ nodes, problems: ["x"] } as unknown as Status)).toEqual(["node b is dead", "x"]);
    expect(problemsOf({ nodes, problems: ["node b is dead; and more"] } as unknown as Status)).toEqual([
      "node b is dead; and more",
    ]);
  });
});

describe("spark", () => {
  it("ends at the right edge, and is interrupted by gaps", () => {
    const rates = (values: (number | null)[]) => values.map((value, i) => ({ timeMs: i * 150e3, value }));
    expect(sparkPath(rates([9, 0, 10]), 10)).toBe("M0.0 4.4L60.0 26.0L120.0 2.0");
    expect(sparkPath(rates([5, 0, 0, 10]), 10)).toBe("M0.0 26.0L60.0 26.0L120.0 2.0");
    expect(sparkPath(rates([1, null, 1]), 1).match(/M/g)).toHaveLength(2);
    expect(sparkPath([], 0)).toBe("");
  });
});
