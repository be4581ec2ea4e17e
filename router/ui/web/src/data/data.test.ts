import { describe, expect, it } from "vitest";
import type { Series } from "../dialect/result";
import { aligned, summary, valueNear, withGaps } from "./align";
import { timeLabels } from "./axis";
import type { Status } from "./cluster";
import { authorizationOf } from "./credentials";
import { forInput, formatBytes, formatCount, formatDuration, formatNumber, formatRate, formatTime } from "./format";
import { messageOf } from "./http";
import { remembered } from "./kept";
import { recalled, seen } from "./live";
import { onGrid, parseRange, parseSpan, shifted, spanText, stepFor, widened } from "./range";
import { keptMs, newCounter, newest, observed, observedAll, summed } from "./rates";
import { formatHash, parseHash } from "./route";

describe("route", () => {
  it("reads what it writes", () => {
    const route = { view: "query" as const, params: { d: "promql", q: 'sum(cpu{host="a&b=c"})\n# é', from: "1h" } };
    expect(parseHash(formatHash(route))).toEqual(route);
  });
  it("takes what it does not know for the query view", () => {
    expect(parseHash("")).toEqual({ view: "query", params: {} });
    expect(parseHash("#/nothing?x=1")).toEqual({ view: "query", params: { x: "1" } });
    expect(parseHash("#cluster").view).toBe("cluster");
  });
  it("leaves out what is empty", () => {
    expect(formatHash({ view: "cluster", params: { db: "" } })).toBe("#/cluster");
  });
});

describe("format", () => {
  it.each([
    [0, "0"],
    [0.1 + 0.2, "0.3"],
    [-1.5, "−1.5"],
    [99999, "99999"],
    [100000, "100 k"],
    [999999, "1 M"],
    [1234567, "1.235 M"],
    [-2.5e9, "−2.5 G"],
    [0.00001234, "1.234e−5"],
    [Number.POSITIVE_INFINITY, "+Inf"],
    [Number.NEGATIVE_INFINITY, "−Inf"],
    [Number.NaN, "NaN"],
    [null, "–"],
  ])("%s is %s", (value, text) => expect(formatNumber(value)).toBe(text));
  it("writes rates no finer than they are", () => {
    expect([237.14, 0.99163, 1234.5, 0, null].map(formatRate)).toEqual(["237", "0.992", "1230", "0", "–"]);
  });
  it("writes sizes", () => {
    expect([0, 1023, 1024, 1536, 1023.9 * 1024, 3.5 * 2 ** 40].map(formatBytes)).toEqual([
      "0 B",
      "1023 B",
      "1 KiB",
      "1.5 KiB",
      "1 MiB",
      "3.5 TiB",
    ]);
  });
  it("writes durations", () => {
    expect([0.25, 12.34, 1500, 59_999, 61_000, 3_600_000, 90_061_000].map(formatDuration)).toEqual([
      "250 µs",
      "12.3 ms",
      "1.5 s",
      "60 s",
      "1 min 1 s",
      "1 h",
      "1 d 1 h",
    ]);
  });
  it("writes counts and moments", () => {
    expect(formatCount(1234567)).toBe("1\u202f234\u202f567");
    const ms = new Date(2026, 10, 21, 18, 3, 5).getTime();
    expect(formatTime(ms)).toBe("2026-11-21 18:03:05");
    expect(formatTime(ms + 7)).toBe("2026-11-21 18:03:05.007");
    expect(new Date(forInput(ms + 7)).getTime()).toBe(ms);
  });
});

describe("axis", () => {
  const at = (hours: number) => new Date(2026, 10, 21, hours).getTime();
  it("names the date where it changes", () => {
    expect(timeLabels([at(12), at(18), at(24), null], 6 * 3600e3)).toEqual([
      "12:00\n2026-11-21",
      "18:00",
      "00:00\n2026-11-22",
      "",
    ]);
    expect(timeLabels([at(0), at(24)], 86400e3)).toEqual(["2026-11-21", "2026-11-22"]);
    expect(timeLabels([at(1)], 1000)).toEqual(["01:00:00\n2026-11-21"]);
  });
});

describe("range", () => {
  const now = 1_800_000_000_000;
  it("reads spans", () => {
    expect(["90s", "5m", "1h", "2d", "1w"].map(parseSpan)).toEqual([90e3, 300e3, 3600e3, 172800e3, 604800e3]);
    expect(["", "h", "0m", "-1h", "1y", "1h ago"].map(parseSpan)).toEqual([null, null, null, null, null, null]);
  });
  it("reads ranges, and takes the last hour for what is wrong", () => {
    expect(parseRange("15m", "", now)).toEqual({ fromMs: now - 900e3, toMs: now });
    expect(parseRange("5", "9", now)).toEqual({ fromMs: 5, toMs: 9 });
    for (const [from, to] of [
      ["", ""],
      ["9", "5"],
      ["x", "9"],
      ["5", ""],
    ] as const) {
      expect(parseRange(from, to, now)).toEqual({ fromMs: now - 3600e3, toMs: now });
    }
  });
  it("has steps for any range", () => {
    for (let span = 1; span < 1e12; span *= 7) {
      const step = stepFor({ fromMs: 0, toMs: span * 1000 }, 600);
      expect(span / step).toBeLessThanOrEqual(600);
      expect(step).toBeGreaterThanOrEqual(1);
    }
    expect([1, 60, 90, 300, 7200, 86400, 604800].map(spanText)).toEqual(["1s", "1m", "90s", "5m", "2h", "1d", "1w"]);
  });
  it("moves and widens", () => {
    const range = { fromMs: now - 1000, toMs: now };
    expect(widened(range, now)).toEqual({ fromMs: now - 2000, toMs: now });
    expect(widened({ fromMs: now - 5000, toMs: now - 4000 }, now)).toEqual({ fromMs: now - 5500, toMs: now - 3500 });
    expect(shifted(range, -1)).toEqual({ fromMs: now - 1500, toMs: now - 500 });
    expect(onGrid({ fromMs: 10_999, toMs: 21_500 }, 5)).toEqual({ fromMs: 10_000, toMs: 20_000 });
  });
});

describe("rates", () => {
  it("gives increases per second, and a gap where a counter began anew", () => {
    let counter = newCounter();
    for (const [timeMs, value] of [
      [0, 100],
      [2000, 300],
      [4000, 300],
      [4000, 400],
      [6000, 10],
      [8000, 30],
    ] as const) {
      counter = observed(counter, { timeMs, value });
    }
    expect(counter.rates.map((rate) => rate.value)).toEqual([100, 0, null, 10]);
    expect(counter.rates.map((rate) => rate.timeMs)).toEqual([2000, 4000, 6000, 8000]);
    expect(newest(counter)).toBe(10);
    expect(newest(undefined)).toBeNull();
  });
  it("keeps them for a while, and forgets counters that are gone", () => {
    let board = observedAll({}, 0, { a: 0, b: 0 });
    for (let i = 1; i <= (2 * keptMs) / 1000; i++) {
      board = observedAll(board, i * 1000, { a: i });
    }
    expect(board.a?.rates).toHaveLength(keptMs / 1000);
    expect(board.b).toBeUndefined();
  });
  it("adds counters up at each moment", () => {
    let board = observedAll({}, 0, { a: 0, b: 0 });
    board = observedAll(board, 1000, { a: 1, b: 10 });
    board = observedAll(board, 2000, { a: 3, b: 9, c: 5 });
    board = observedAll(board, 3000, { a: 3, b: 10, c: 9 });
    expect(summed(board)).toEqual([
      { timeMs: 1000, value: 11 },
      { timeMs: 2000, value: 2 },
      { timeMs: 3000, value: 5 },
    ]);
    expect(summed({})).toEqual([]);
  });
  it("go on from what the router has kept", () => {
    const at = (timeMs: number, points: number, nodes: Record<string, number>) => ({
      timeMs,
      points,
      refused: 0,
      cpuSeconds: 0,
      queries: 0,
      nodesTimeMs: timeMs - 10,
      nodes,
    });
    const kept = recalled({ moments: [at(1000, 0, { a: 5 }), at(6000, 10, {}), at(11000, 10, { a: 25 })] });
    expect(kept.router.points?.rates.map((rate) => rate.value)).toEqual([2, 0]);
    expect(kept.nodes.a?.rates).toEqual([{ timeMs: 10990, value: 2 }]);
    const live = {
      points: { x: 4, y: 10 },
      refused: 0,
      cpuSeconds: 0,
      residentBytes: 0,
      queriesRunning: 0,
      queriesEnded: 0,
    };
    const nodes = [
      { node: "a", alive: true, samplesApplied: 27 },
      { node: "b", alive: false, samplesApplied: 1 },
    ];
    const now = seen(kept, { timeMs: 12990, nodes } as unknown as Status, { ...live, timeMs: 13000 });
    expect(newest(now.router.points)).toBe(2);
    expect(newest(now.nodes.a)).toBe(1);
    expect(now.nodes.b).toBeUndefined();
  });
});

const series = (times: number[], values: (number | null)[], stepMs?: number): Series => ({
  name: "s",
  labels: {},
  times,
  values,
  ...(stepMs === undefined ? {} : { stepMs }),
});

describe("align", () => {
  it("interrupts lines at missing steps", () => {
    expect(withGaps(series([0, 10, 40, 50], [1, 2, 3, 4], 10))).toEqual({
      times: [0, 10, 20, 40, 50],
      values: [1, 2, null, 3, 4],
    });
  });
  it("goes on over times that are another series'", () => {
    expect(aligned([series([1, 3], [1, null]), series([2, 3], [5, 6])])).toEqual([
      [1, 2, 3],
      [1, undefined, null],
      [undefined, 5, 6],
    ]);
    expect(aligned([])).toEqual([[]]);
  });
  it("agrees with looking each time up", () => {
    let seed = 1;
    const draw = (n: number) => {
      seed = (seed * 48271) % 2147483647;
      return seed % n;
    };
    for (let round = 0; round < 200; round++) {
      const all = Array.from({ length: draw(4) }, () => {
        const times = [...new Set(Array.from({ length: draw(8) }, () => draw(12)))].sort((a, b) => a - b);
        return series(
          times,
          times.map(() => (draw(5) === 0 ? null : draw(100))),
        );
      });
      const [times, ...columns] = aligned(all);
      expect([...times]).toEqual([...new Set(all.flatMap((s) => s.times))].sort((a, b) => a - b));
      all.forEach((s, i) => {
        times.forEach((time, at) => {
          const own = s.times.indexOf(time);
          expect(columns[i]?.[at]).toEqual(own < 0 ? undefined : s.values[own]);
        });
      });
    }
  });
  it("finds values and sums up", () => {
    expect(valueNear([undefined, 5, undefined, undefined], 3, 3)).toBe(5);
    expect(valueNear([undefined, 5, undefined, undefined], 3, 1)).toBeNull();
    expect(summary([null, 2, 4, null])).toEqual({ count: 2, last: 4, min: 2, mean: 3, max: 4 });
    expect(summary([null]).mean).toBeNull();
  });
});

describe("http", () => {
  it("finds the message of any dialect", () => {
    expect(messageOf(400, '{"status":"error","errorType":"bad_data","error":"no"}')).toBe("no");
    expect(messageOf(400, '{"error":{"code":400,"message":"bad","details":"worse"}}')).toBe("bad: worse");
    expect(messageOf(502, "<h1>gone</h1>")).toBe("<h1>gone</h1>");
    expect(messageOf(500, "")).toBe("The server answered with status 500.");
  });
  it("writes credentials in UTF-8", () => {
    expect(authorizationOf("ann", "pässwort", " ")).toBe("Basic YW5uOnDDpHNzd29ydA==");
    expect(authorizationOf("ann", "x", " a-token ")).toBe("Bearer a-token");
  });
});

describe("history", () => {
  it("has each query once, the newest first, and not too many", () => {
    let past = remembered([], { dialect: "promql", text: "a" });
    past = remembered(past, { dialect: "promql", text: "b" });
    past = remembered(past, { dialect: "promql", text: "a" });
    expect(past.map((p) => p.text)).toEqual(["a", "b"]);
    for (let i = 0; i < 100; i++) {
      past = remembered(past, { dialect: "promql", text: String(i) });
    }
    expect(past).toHaveLength(50);
  });
});
