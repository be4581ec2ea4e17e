import { describe, expect, it } from "vitest";
import { grouped, type Query, reopened } from "./book";

const query = (text: string, tookMs: number, beganMs: number, changes: Partial<Query> = {}): Query => ({
  id: String(beganMs),
  dialect: "promql",
  database: "default",
  text,
  user: "",
  beganMs,
  tookMs,
  series: 0,
  samples: 0,
  bytes: 0,
  error: "",
  mayCancel: false,
  ...changes,
});

describe("the book of queries", () => {
  const influx = (fromMs: number) => `SELECT "v" FROM "m" WHERE (time >= ${fromMs}ms AND time <= 9ms)`;
  const all = [
    query("up", 5, 10),
    query("up", 50, 11),
    query("up", 7, 14),
    query("up", 1000, 12, { user: "ann" }),
    query(influx(1), 20, 13, { dialect: "influxql" }),
    query(influx(2), 30, 15, { dialect: "influxql" }),
    query("tags of x", 1, 16, { dialect: "ui" }),
  ];
  const told = (order: "longest" | "newest" | "often") =>
    grouped(all, order).map((group) => `${group.times}x${group.longest.tookMs}@${group.newestMs}`);
  it("puts together what asks the same", () => {
    expect(told("longest")).toEqual(["1x1000@12", "3x50@14", "2x30@15", "1x1@16"]);
    expect(told("newest")).toEqual(["1x1@16", "2x30@15", "3x50@14", "1x1000@12"]);
    expect(told("often")).toEqual(["3x50@14", "2x30@15", "1x1@16", "1x1000@12"]);
    expect(grouped([], "newest")).toEqual([]);
  });
  it("asks again what is of a language of people", () => {
    expect(reopened(query("up", 1, 1))).toEqual({ text: "up" });
    expect(reopened(query("tags of x", 1, 1, { dialect: "ui" }))).toBeNull();
  });
});
