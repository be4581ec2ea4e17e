import { describe, expect, it } from "vitest";
import type { Series } from "../dialect/result";
import { stackedColumns } from "./align";
import { resultCSV } from "./csv";
import { plansOf } from "./plan";
import { chosenRange, parseMoment, parseStep } from "./range";
import { filtered, type Group, ruleCounts } from "./rules";
import { formatUnit, guessedUnit } from "./unit";

const now = 1_800_000_000_000;

describe("moments", () => {
  it("are read as people write them", () => {
    expect(parseMoment("now", now)).toBe(now);
    expect(parseMoment(" now-3h ", now)).toBe(now - 3 * 3600e3);
    expect(parseMoment("1700000000", now)).toBe(1_700_000_000_000);
    expect(parseMoment("1700000000123", now)).toBe(1_700_000_000_123);
    expect(parseMoment("2026-11-28 07:00Z", now)).toBe(Date.UTC(2026, 10, 28, 7));
    expect(parseMoment("2026-11-28T07:00:05.5+02:00", now)).toBe(Date.UTC(2026, 10, 28, 5, 0, 5, 500));
    expect(parseMoment("2026-11-28 07:00", now)).toBe(new Date(2026, 10, 28, 7).getTime());
    expect(parseMoment("2026-11-28", now)).toBe(new Date(2026, 10, 28).getTime());
  });
  it("are refused when they are none", () => {
    for (const text of ["", "now-", "now-0m", "3h", "2026-13-01", "2026-11-28 25:00", "yesterday", "170000"]) {
      expect(parseMoment(text, now), text).toBeNull();
    }
  });
  it("make ranges, of which one until now stays so", () => {
    expect(chosenRange("now-90m", "now", now)).toEqual({ from: "90m", to: "" });
    expect(chosenRange("now-3h", "now-1h", now)).toEqual({ from: String(now - 10800e3), to: String(now - 3600e3) });
    expect(chosenRange("now", "now-1h", now)).toBeNull();
    expect(chosenRange("x", "now", now)).toBeNull();
  });
  it("have steps", () => {
    expect([parseStep("30s"), parseStep("2h"), parseStep(""), parseStep("x")]).toEqual([30, 7200, null, null]);
  });
});

describe("units", () => {
  it.each([
    ["node_memory_free_bytes", "bytes"],
    ["sum by (host) (node_memory_free_bytes)", "bytes"],
    ["rate(node_network_receive_bytes_total[5m])", "bytes/s"],
    ['{"disk.used.bytes", host=~"a.*"}', "bytes"],
    ["histogram_quantile(0.9, sum by (le) (rate(request_seconds_bucket[5m])))", "seconds"],
    ["rate(process_cpu_seconds_total[5m])", "none"],
    ["count(node_memory_free_bytes)", "none"],
    ["a_bytes / b_bytes", "none"],
    ["a_bytes + b_seconds", "none"],
    ["cpu_percent", "percent"],
    ["avg:1m-avg:disk_used_ratio{host=*}", "ratio"],
    ['SELECT mean("value") FROM "x_bytes" WHERE $timeFilter', "bytes"],
    ["up", "none"],
  ] as const)("%s: %s", (text, unit) => expect(guessedUnit(text)).toBe(unit));
  it("are written", () => {
    expect(formatUnit(1536, "bytes")).toBe("1.5 KiB");
    expect(formatUnit(-1536, "bytes/s")).toBe("−1.5 KiB/s");
    expect(formatUnit(0.25, "seconds")).toBe("250 ms");
    expect(formatUnit(0, "seconds")).toBe("0 s");
    expect(formatUnit(0.125, "ratio")).toBe("12.5 %");
    expect(formatUnit(12.5, "percent")).toBe("12.5 %");
    expect(formatUnit(null, "bytes")).toBe("–");
    expect(formatUnit(Number.POSITIVE_INFINITY, "seconds")).toBe("+Inf");
  });
});

describe("answers", () => {
  const series: Series[] = [
    { name: "a", labels: { host: 'x"y' }, times: [0, 1000, 9000], values: [1, 2, 3], stepMs: 1000 },
    { name: "b", labels: {}, times: [1000], values: [null] },
  ];
  it("are stacked over those that are shown", () => {
    const columns = stackedColumns(
      [
        [1, 2],
        [1, null],
        [5, 5],
        [2, 2],
      ],
      [false, true, false],
    );
    expect(columns).toEqual([
      [1, 2],
      [1, 0],
      [5, 5],
      [3, 2],
    ]);
  });
  it("are files of commas, without rows for gaps, and without formulas", () => {
    expect(resultCSV({ series, tables: [], notes: [] })).toBe(
      'time,"a{host=""x\\""y""}",b\n1970-01-01T00:00:00.000Z,1,\n1970-01-01T00:00:01.000Z,2,\n1970-01-01T00:00:09.000Z,3,\n',
    );
    const table = {
      title: "",
      columns: ["name", "n"],
      rows: [
        ["=1+1", "-5"],
        ["a,b", "-x"],
      ],
    };
    expect(resultCSV({ series: [], tables: [table], notes: [] })).toBe("name,n\n'=1+1,-5\n\"a,b\",'-x\n");
  });
  it("of explain are plans, in each language", () => {
    const plan = {
      dialect: "promql",
      query: "up",
      evaluation: "direct",
      reads: [
        { selector: "up", series: 2 },
        { selector: "b", steps: { function: "rate", count: 2 } },
      ],
      estimate: { series: 2 },
      admission: { seriesMax: 1, exceeds: ["series"] },
    };
    const [first, ...others] = plansOf({ status: "success", data: plan });
    expect(others).toEqual([]);
    expect(first?.facts).toEqual([
      ["query", "up"],
      ["evaluation", "direct"],
      ["reads in all", "2 series"],
      ["may read", "1 series"],
      ["would be refused for", "series"],
    ]);
    expect(first?.reads).toEqual({
      columns: ["selector", "series", "steps"],
      rows: [
        ["up", "2", ""],
        ["b", "", "function rate, count 2"],
      ],
    });
    expect(plansOf(plan)).toHaveLength(1);
    expect(
      plansOf({
        results: [
          { statement_id: 0, plan },
          { statement_id: 1, plan },
        ],
      }),
    ).toHaveLength(2);
    expect(plansOf({ results: [{ statement_id: 0, series: [] }] })).toEqual([]);
  });
});

describe("rules", () => {
  const rule = { type: "alerting", name: "", query: "", labels: {}, evaluationTime: 0, lastEvaluation: "" } as const;
  const groups: Group[] = [
    { name: "a", file: "f", interval: 1, evaluationTime: 0, rules: [{ ...rule, health: "ok", state: "firing" }] },
    { name: "b", file: "f", interval: 1, evaluationTime: 0, rules: [{ ...rule, health: "err", state: "inactive" }] },
  ];
  it("are counted and filtered", () => {
    expect(ruleCounts(groups)).toEqual({ all: 2, firing: 1, pending: 0, failing: 1 });
    expect(filtered(groups, "failing").map((group) => group.name)).toEqual(["b"]);
    expect(filtered(groups, "pending")).toEqual([]);
  });
});
