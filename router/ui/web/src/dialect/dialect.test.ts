import { describe, expect, it } from "vitest";
import { dialectNames, dialectOf, knownDialects } from "./dialect";
import { influxqlFailure, influxqlNotes, influxqlRequest, influxqlResult } from "./influxql";
import { opentsdbRequest, opentsdbResult } from "./opentsdb";
import { promqlFailure, promqlRequest, promqlResult } from "./promql";
import { apart, asNumber, Failure, seriesName } from "./result";

const range = { fromMs: 1_000_000, toMs: 4_600_123 };

describe("promql", () => {
  it("asks for a range on the grid of its steps", () => {
    const { path, params } = promqlRequest("rate(x[$__rate_interval]) + y[$__interval:] + z[$__range]", range, 30);
    expect(path).toBe("api/v1/query_range");
    expect(Object.fromEntries(params)).toEqual({
      query: "rate(x[2m]) + y[30s:] + z[3601s]",
      start: "990",
      end: "4590",
      step: "30",
    });
  });
  it("reads matrices", () => {
    const result = promqlResult(
      {
        status: "success",
        warnings: ["w"],
        infos: ["i"],
        data: {
          resultType: "matrix",
          result: [
            {
              metric: { __name__: "up", job: "a" },
              values: [
                [1.5, "1"],
                [2.5, "NaN"],
                [3.5, "+Inf"],
              ],
            },
            { metric: {}, histograms: [[1, {}]] },
          ],
        },
      },
      1000,
    );
    expect(result.series[0]).toEqual({
      name: "up",
      labels: { job: "a" },
      times: [1500, 2500, 3500],
      values: [1, null, Infinity],
      stepMs: 1000,
    });
    expect(result.notes.slice(0, 2)).toEqual(["w", "i"]);
    expect(result.notes[2]).toContain("histograms");
  });
  it("reads vectors, scalars and strings", () => {
    const vector = { data: { resultType: "vector", result: [{ metric: { __name__: "up" }, value: [1, "2"] }] } };
    expect(promqlResult(vector, 1000).series[0]?.values).toEqual([2]);
    expect(promqlResult({ data: { resultType: "scalar", result: [1, "2"] } }, 1000).tables[0]?.rows).toEqual([
      ["1", "2"],
    ]);
  });
  it("refuses what is no answer of its API", () => {
    for (const body of [null, [], {}, { data: null }, "x"]) {
      expect(() => promqlResult(body, 1000)).toThrow(Failure);
    }
  });
  it("finds the place of an error", () => {
    expect(promqlFailure('invalid parameter "query": 2:5: parse error: unexpected')).toMatchObject({
      line: 2,
      column: 5,
    });
    expect(promqlFailure("too many series")).toMatchObject({ line: undefined });
  });
});

describe("opentsdb", () => {
  it("asks for each line", () => {
    const { path, params } = opentsdbRequest(
      "m=avg:$__interval-avg:cpu{host=*}\n\n# no\nsum:mem\ntsuid=sum:0001",
      range,
      60,
    );
    expect(path).toBe("api/query");
    expect(params.getAll("m")).toEqual(["avg:1m-avg:cpu{host=*}", "sum:mem"]);
    expect(params.getAll("tsuid")).toEqual(["sum:0001"]);
    expect([params.get("start"), params.get("end"), params.get("arrays")]).toEqual(["1000000", "4600123", "true"]);
  });
  it("reads points as pairs and as objects, in seconds and milliseconds", () => {
    const result = opentsdbResult([
      {
        metric: "cpu",
        tags: { host: "a" },
        aggregateTags: ["core"],
        dps: [
          [1_600_000_000_500, 1],
          [1_600_000_001_500, null],
          [1_600_000_002_500, "NaN"],
        ],
      },
      { metric: "mem", tags: {}, dps: { "1600000000": 2 } },
      { statsSummary: {} },
    ]);
    expect(result.series).toEqual([
      {
        name: "cpu",
        labels: { host: "a", core: "(all)" },
        times: [1_600_000_000_500, 1_600_000_001_500, 1_600_000_002_500],
        values: [1, null, null],
      },
      { name: "mem", labels: {}, times: [1_600_000_000_000], values: [2] },
    ]);
    expect(() => opentsdbResult({})).toThrow(Failure);
  });
});

describe("influxql", () => {
  it("puts in the range and the interval", () => {
    const { path, params } = influxqlRequest("SELECT a FROM b WHERE $timeFilter GROUP BY time($__interval)", range, 10);
    expect(path).toBe("query");
    expect(params.get("q")).toBe("SELECT a FROM b WHERE (time >= 1000000ms AND time <= 4600123ms) GROUP BY time(10s)");
    expect(influxqlNotes("SELECT a FROM b")).toHaveLength(1);
    expect(influxqlNotes("SHOW DATABASES")).toHaveLength(0);
  });
  it("makes a series of each column of numbers, in order of time", () => {
    const result = influxqlResult({
      results: [
        {
          messages: [{ level: "warning", text: "careful" }],
          series: [
            {
              name: "cpu",
              tags: { host: "a" },
              columns: ["time", "mean", "word", "max"],
              values: [
                [2, 5, "x", null],
                [1, null, "y", 7],
              ],
            },
          ],
        },
        { series: [{ name: "databases", columns: ["name"], values: [["a"], ["b"]] }] },
      ],
    });
    expect(result.series).toEqual([
      { name: "cpu.mean", labels: { host: "a" }, times: [2], values: [5] },
      { name: "cpu.max", labels: { host: "a" }, times: [1], values: [7] },
    ]);
    expect(result.tables).toEqual([{ title: "databases", columns: ["name"], rows: [["a"], ["b"]] }]);
    expect(result.notes).toEqual(["careful"]);
  });
  it("leaves out windows without points, and knows what is missing for long", () => {
    const values = [0, 10, 20, 30, 40, 50, 150, 160].map((time) => [time, time % 20 === 10 ? null : 1]);
    const result = influxqlResult({ results: [{ series: [{ name: "a", columns: ["time", "x"], values }] }] });
    expect(result.series).toEqual([
      { name: "a.x", labels: {}, times: [0, 20, 40, 160], values: [1, 1, 1, 1], stepMs: 40 },
    ]);
  });
  it("throws the errors of statements, with their place", () => {
    expect(() => influxqlResult({ results: [{ error: "no" }] })).toThrow("no");
    expect(influxqlFailure("error parsing query: found EOF at line 1, char 8")).toMatchObject({ line: 1, column: 8 });
  });
});

describe("dialects", () => {
  it("select what is clicked", () => {
    const tags = { host: 'a"b', "odd tag": "x" };
    expect(dialectOf("promql").select("cpu", tags)).toBe('cpu{host="a\\"b", "odd tag"="x"}');
    expect(dialectOf("promql").select("mem.free", {})).toBe('{"mem.free"}');
    expect(dialectOf("opentsdb").select("cpu", { host: "a|b" })).toBe("none:cpu{host=literal_or(a|b)}");
    expect(dialectOf("influxql").select("cpu", { _field: "idle", host: "it's" })).toBe(
      `SELECT mean("idle") FROM "cpu" WHERE $timeFilter AND "host" = 'it\\'s' GROUP BY time($__interval), * fill(none)`,
    );
  });
  it("are those that the server and the page know", () => {
    expect(knownDialects(["influxql", "sql", "promql"])).toEqual(["promql", "influxql"]);
    for (const name of dialectNames) {
      expect(dialectOf(name).name).toBe(name);
    }
  });
  it("reads numbers and writes names", () => {
    expect(["1.5", 2, "NaN", "-Inf", "", null, "x"].map(asNumber)).toEqual([1.5, 2, null, -Infinity, null, null, null]);
    expect(seriesName({ name: "", labels: {} })).toBe("{}");
    expect(seriesName({ name: "up", labels: { a: "b" } })).toBe('up{a="b"}');
  });
});

describe("labels", () => {
  const of = (labels: Record<string, string>) => ({ name: "m", labels, times: [1], values: [1] });
  it("are told once where all series have them alike", () => {
    const { common, series } = apart([
      of({ a: "1", b: "x", c: "" }),
      of({ b: "y", a: "1" }),
      of({ a: "1", b: "x", c: "2" }),
    ]);
    expect(common).toEqual({ a: "1" });
    expect(series.map(seriesName)).toEqual(['m{b="x", c=""}', 'm{b="y"}', 'm{b="x", c="2"}']);
  });
  it("stay where there is one series, or none is alike", () => {
    for (const all of [[], [of({ a: "1" })], [of({ a: "1" }), of({ a: "2" })]]) {
      expect(apart(all)).toEqual({ common: {}, series: all });
    }
  });
});

describe("what the book of queries tells", () => {
  const { promql, opentsdb, influxql } = Object.fromEntries(dialectNames.map((name) => [name, dialectOf(name)])) as {
    [name in (typeof dialectNames)[number]]: ReturnType<typeof dialectOf>;
  };
  const lately = { fromMs: 1_795_295_052_603, toMs: 1_795_298_652_603 };
  it("is asked again as the page asked it", () => {
    const influx = 'SELECT mean("v") FROM "m" WHERE $timeFilter AND "a" = \'$&\' GROUP BY time(10s)';
    const asked = influxqlRequest(influx, lately, 10).params.get("q") ?? "";
    expect(influxql.reopened(asked)).toEqual({ text: influx, range: lately });
    const lines = "sum:1m-avg:cpu{host=literal_or(a|b)}\nnone:rate{counter,,1}:x.y{k=v&w,z=*}\ntsuid=sum:0102";
    const request = `/api/query?${decodeURIComponent(opentsdbRequest(lines, lately, 10).params.toString())}`;
    expect(opentsdb.reopened(request)?.range).toEqual(lately);
    expect(opentsdb.reopened(request)?.text.split("\n").sort()).toEqual(lines.split("\n").sort());
    expect(promql.reopened("up")).toEqual({ text: "up" });
  });
  it("is left as it is where something else asked", () => {
    expect(influxql.reopened("SHOW DATABASES")).toEqual({ text: "SHOW DATABASES" });
    expect(opentsdb.reopened("/api/query?start=1h-ago&m=sum:x")).toEqual({ text: "sum:x" });
    for (const told of [
      "/api/query",
      '/api/query {"start":1}',
      '/api/query?ms&m=sum:x {"start":1}',
      "/api/search/lookup?m=x",
      "sum:x",
    ]) {
      expect(opentsdb.reopened(told)).toBeNull();
    }
  });
});
