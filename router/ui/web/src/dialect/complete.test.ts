import { describe, expect, it } from "vitest";
import { applied, contextAt, proposals } from "./complete";
import { type DialectName, dialectNames } from "./dialect";

/** at gives the context at the mark | of a text. */
function at(dialect: DialectName, marked: string) {
  const cursor = marked.indexOf("|");
  return contextAt(dialect, marked.slice(0, cursor) + marked.slice(cursor + 1), cursor);
}

describe("promql", () => {
  it.each([
    ["cp|", "metric", "cp", "", ""],
    ["sum(rate(http_|", "metric", "http_", "", ""],
    ["cpu{|}", "tag", "", "cpu", ""],
    ['cpu{host="a",zo|', "tag", "zo", "cpu", ""],
    ['cpu{host="a|', "value", "a", "cpu", "host"],
    ['cpu{host=~"|"}', "value", "", "cpu", "host"],
    ['{"mem.free", host="x|"}', "value", "x", "mem.free", "host"],
    ['{"mem.|', "metric", "mem.", "", ""],
    ["sum by (ho|) (cpu{a='b'})", "tag", "ho", "cpu", ""],
    ['cpu{host="a\\"{|', "value", 'a\\"{', "cpu", "host"],
    ["cpu[5|", "none", "", "", ""],
    ["cpu offset 5m|", "none", "", "", ""],
    ['cpu{host="a"|', "none", "", "", ""],
    ['label_replace(cpu, "x|', "none", "", "", ""],
  ])("%s", (text, kind, prefix, metric, tag) =>
    expect(at("promql", text)).toMatchObject({ kind, prefix, metric, tag }));
});

describe("opentsdb", () => {
  it.each([
    ["av|", "none", "av", "", ""],
    ["avg:cp|", "metric", "cp", "", ""],
    ["avg:1m-avg:cp|", "metric", "cp", "", ""],
    ["avg:cpu{ho|", "tag", "ho", "cpu", ""],
    ["avg:cpu{host=a,zo|", "tag", "zo", "cpu", ""],
    ["avg:cpu{host=we|", "value", "we", "cpu", "host"],
    ["avg:cpu{host=literal_or(a|", "value", "a", "cpu", "host"],
    ["avg:cpu{host=literal_or(a,b),z|", "tag", "z", "cpu", ""],
    ["avg:cpu{host=a}\nsum:me|", "metric", "me", "", ""],
    ["avg:cpu{host=a}|", "none", "", "", ""],
  ])("%s", (text, kind, prefix, metric, tag) =>
    expect(at("opentsdb", text)).toMatchObject({ kind, prefix, metric, tag }));
});

describe("influxql", () => {
  it.each([
    ["SEL|", "none", "SEL", "", ""],
    ["SELECT mean(va|", "field", "va", "", ""],
    ['SELECT "va|" FROM "cpu"', "field", "va", "cpu", ""],
    ["SELECT a FROM cp|", "metric", "cp", "cp", ""],
    ['SELECT a FROM "cp|', "metric", "cp", "", ""],
    ["SELECT a FROM cpu WHERE ho|", "tag", "ho", "cpu", ""],
    ["SELECT a FROM cpu WHERE host = 'w|", "value", "w", "cpu", "host"],
    ["SELECT a FROM cpu WHERE \"host\" = '|'", "value", "", "cpu", "host"],
    ["SELECT a FROM cpu WHERE host = 'a' AND zo|", "tag", "zo", "cpu", ""],
    ["SELECT a FROM cpu GROUP BY ho|", "tag", "ho", "cpu", ""],
    ["SELECT a FROM cpu GROUP BY time(1m), ho|", "tag", "ho", "cpu", ""],
    ["SELECT a FROM cpu LIMIT |", "none", "", "cpu", ""],
    ["SELECT a FROM cpu; SELECT b FROM |", "metric", "", "cpu", ""],
  ])("%s", (text, kind, prefix, metric, tag) =>
    expect(at("influxql", text)).toMatchObject({ kind, prefix, metric, tag }));
});

describe("proposals", () => {
  it("puts names before words, and quotes what needs it", () => {
    const context = at("promql", "su|");
    expect(proposals(context, ["su.m", "sun"]).map((p) => p.insert)).toEqual([
      '{"su.m"}',
      "sun",
      "sum(",
      "sum by (",
      "sum_over_time(",
    ]);
    expect(proposals(at("promql", "|"), ["a"]).map((p) => p.label)).toEqual(["a"]);
    expect(
      proposals(
        context,
        Array.from({ length: 99 }, (_, i) => `su${i}`),
      ),
    ).toHaveLength(50);
  });
  it("replaces what was typed, with its quotes", () => {
    const text = 'cpu{host="we"} + 1';
    const context = contextAt("promql", text, 12);
    expect(applied(text, 12, context, '"web-1"')).toEqual({ text: 'cpu{host="web-1"} + 1', cursor: 16 });
    const sum = contextAt("promql", "su", 2);
    expect(applied("su", 2, sum, "sum(")).toEqual({ text: "sum(", cursor: 4 });
  });
  it("stands any text and cursor", () => {
    const parts = [
      "cpu",
      "{",
      "}",
      "(",
      ")",
      '"',
      "'",
      "\\",
      ",",
      "=",
      "=~",
      " ",
      "\n",
      ":",
      "by",
      "from ",
      "where ",
      "|",
      "é",
      "5m",
      "[",
    ];
    let seed = 7;
    for (let round = 0; round < 3000; round++) {
      let text = "";
      for (let i = 0; i < round % 12; i++) {
        seed = (seed * 48271) % 2147483647;
        text += parts[seed % parts.length] ?? "";
      }
      for (const dialect of dialectNames) {
        const cursor = seed % (text.length + 1);
        const context = contextAt(dialect, text, cursor);
        expect(context.from).toBeGreaterThanOrEqual(0);
        expect(context.from).toBeLessThanOrEqual(cursor);
        expect(applied(text, cursor, context, "x").text.startsWith(text.slice(0, context.from))).toBe(true);
      }
    }
  });
});
