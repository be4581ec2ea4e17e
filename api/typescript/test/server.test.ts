import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { randomUUID } from "node:crypto";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import {
  absent,
  Client,
  equal,
  isIn,
  type Matcher,
  matches,
  notEqual,
  notIn,
  notMatches,
  present,
  type Sample,
  type Selector,
  Series,
  TIME_MS_MAX,
  TickmeshError,
  WriteError,
} from "tickmesh";
import { run, Standalone } from "./binary.js";

const whole = { fromMs: -TIME_MS_MAX, toMs: TIME_MS_MAX };

/** Returns what a selector finds: values by time, by key of the series. Throws where a time comes twice. */
async function contents(client: Client, selector: Selector): Promise<Map<string, Map<number, number>>> {
  const found = new Map<string, Map<number, number>>();
  for await (const { series, timesMs, values } of client.query({ selector, ...whole })) {
    const samples = found.get(series.key) ?? new Map<number, number>();
    found.set(series.key, samples);
    timesMs.forEach((time, i) => {
      assert(!samples.has(time), `${series} has ${time} twice`);
      samples.set(time, values[i] ?? Number.NaN);
    });
  }
  return found;
}

async function collect<T>(all: AsyncIterable<T>): Promise<T[]> {
  const found: T[] = [];
  for await (const one of all) {
    found.push(one);
  }
  return found;
}

const ofKind = (kind: string) => (error: unknown) => error instanceof TickmeshError && error.kind === kind;

describe("a running server", () => {
  const server = new Standalone("--wal-sync", "interval");
  let client: Client;
  before(async () => {
    await server.start();
    client = new Client({ endpoints: [server.address] });
  });
  after(async () => {
    client.close();
    await server.remove();
  });

  it("returns what was written, of any name and value", async () => {
    const database = randomUUID();
    const names = [
      "a",
      "ä",
      "\\",
      ",",
      " ",
      "=",
      '"',
      "\n",
      "\udcff",
      "\ufeff",
      "😀",
      "__proto__",
      "7",
      "x".repeat(100),
    ];
    const values = [0, -0, 0.1, 5e-324, Number.MAX_VALUE, Infinity, -Infinity, NaN, 1e15 + 1];
    const times = [0, 1, -1, 1_700_000_000_000, TIME_MS_MAX, -TIME_MS_MAX];
    const samples: Sample[] = [];
    const want = new Map<string, Map<number, number>>();
    names.forEach((name, n) => {
      const other = names[(n * 5 + 3) % names.length] ?? "";
      const series = new Series(name, n % 3 === 0 ? {} : { [other]: name, [`${name}2`]: other }, database);
      const of = new Map<number, number>();
      times.forEach((timeMs, t) => {
        const value = values[(n + t) % values.length] ?? 0;
        samples.push({ series, timeMs, value });
        of.set(timeMs, value);
      });
      want.set(series.key, of);
    });
    await client.write(samples);
    assert.deepEqual(await contents(client, { database }), want);
  });

  it("answers questions as it answers others", async () => {
    const database = randomUUID();
    const a = new Series("cpu", { host: "a", zone: "x" }, database);
    const b = new Series("cpu", { host: "b" }, database);
    const seconds = Array.from({ length: 10 }, (_, t) => t);
    await client.write(seconds.flatMap((t) => [{ series: a, timeMs: t * 1000, value: t }]));
    await client.write(seconds.flatMap((t) => [{ series: b, timeMs: t * 1000, value: t + 100 }]));
    const hosts = async (...matchers: Matcher[]) =>
      (await collect(client.series({ metric: "cpu", matchers, database }))).map((s) => s.tags.host).sort();
    assert.deepEqual(await hosts(), ["a", "b"]);
    assert.deepEqual(await hosts(equal("host", "a")), ["a"]);
    assert.deepEqual(await hosts(notEqual("host", "a")), ["b"]);
    assert.deepEqual(await hosts(isIn("host", ["a", "b", "c"])), ["a", "b"]);
    assert.deepEqual(await hosts(notIn("host", ["b"])), ["a"]);
    assert.deepEqual(await hosts(matches("host", "[bc]")), ["b"]);
    assert.deepEqual(await hosts(notMatches("host", "[bc]")), ["a"]);
    assert.deepEqual(await hosts(present("zone")), ["a"]);
    assert.deepEqual(await hosts(absent("zone")), ["b"]);
    assert.equal((await collect(client.series({ metric: "cpu", database }, 1))).length, 1);

    const selector = { metric: "cpu", matchers: [equal("host", "a")], database };
    const aggregates = ["sum", "count", "min", "max", "first", "last"] as const;
    const windows = { widthMs: 5000, aggregates };
    const chunks = await collect(client.query({ selector, fromMs: 1000, toMs: 9000, windows }));
    const columns = ["timesMs", "sums", "counts", "mins", "maxs", "firsts", "lasts", "values"] as const;
    assert.deepEqual(
      columns.map((name) => chunks.flatMap((c) => c[name])),
      [[0, 5000], [10, 35], [4, 5], [1, 5], [4, 9], [1, 5], [4, 9], []],
    );

    const newest = await collect(client.last({ metric: "cpu", database }, 0));
    assert.deepEqual(newest.map((s) => [s.series.key, s.timeMs, s.value]).sort(), [
      [a.key, 9000, 9],
      [b.key, 9000, 109],
    ]);
    assert.deepEqual(await client.metrics({ database }), ["cpu"]);
    assert.deepEqual(await client.tagNames("cpu", { database }), ["host", "zone"]);
    assert.deepEqual(await client.tagValues("cpu", "host", { database, prefix: "b" }), ["b"]);
    assert.deepEqual(await client.databases({ prefix: database }), [database]);

    // Over HTTP, by another encoder.
    const url = `http://${server.http}/api/query?db=${database}&start=8&end=9&m=sum:cpu{host=b}`;
    const [answer] = (await (await fetch(url)).json()) as { dps: Record<string, number> }[];
    assert.deepEqual(answer?.dps, { 8: 108, 9: 109 });

    assert.equal(await client.delete({ metric: "cpu", matchers: [equal("host", "b")], database }, 0, 9000), 1);
    assert.deepEqual([...(await contents(client, { database })).keys()], [a.key]);
  });

  it("refuses with kinds that say why", async () => {
    const database = randomUUID();
    const series = new Series("m", {}, database);
    const sample = { series, timeMs: 1, value: 2 };
    await client.write([sample, { ...sample, timeMs: 2 }, { ...sample, timeMs: 3 }]);
    const q = { selector: { metric: "m", database }, ...whole };
    await assert.rejects(collect(client.query({ ...q, limits: { samples: 2 } })), (error) => {
      assert(error instanceof TickmeshError && error.kind === "query_limit");
      assert.deepEqual({ ...error.limit }, { what: "samples", limit: 2 });
      return true;
    });
    const wrong = { metric: "m", matchers: [matches("a", "(")], database };
    await assert.rejects(collect(client.query({ selector: wrong, ...whole })), ofKind("invalid"));
    for (const timeMs of [2 ** 52, 0.5, Number.NaN]) {
      await assert.rejects(client.write([{ ...sample, timeMs }]), ofKind("invalid"));
    }
    assert.throws(() => new Series(""), ofKind("invalid"));
    assert.throws(() => new Series("a", { b: "" }), ofKind("invalid"));
    assert.throws(() => new Series("\ud800"), ofKind("invalid"));
    const long = new Series("m", { t: "x".repeat(10_000) }, database);
    await assert.rejects(
      client.write([sample, { series: long, timeMs: 1, value: 1 }, { series: long, timeMs: 2, value: 1 }]),
      (error) => {
        assert(error instanceof WriteError && error.kind === "invalid");
        assert.equal(error.points, 2);
        assert.equal((error.causes[0] as { series: Series }).series, long);
        return true;
      },
    );
  });

  it("keeps the order of a writer, whose batches are small", async () => {
    const database = randomUUID();
    const writer = client.writer({ batchPoints: 7, batchBytes: 500, bufferPoints: 20 });
    const want = new Map<string, Map<number, number>>();
    for (let i = 0; i < 2000; i++) {
      const series = new Series("m", { n: String(i % 5) }, database);
      await writer.append(series, (i * 7) % 20, i);
      assert(writer.buffered <= 20);
      want.set(series.key, (want.get(series.key) ?? new Map()).set((i * 7) % 20, i));
      if (i % 500 === 0) {
        await writer.flush();
        assert.equal(writer.buffered, 0);
      }
    }
    await writer.close();
    assert.deepEqual(await contents(client, { database }), want);
    await assert.rejects(writer.append(new Series("m"), 1, 1), ofKind("closed"));
    await writer.close();
  });

  it("takes appends that nobody awaits up to a bound", async () => {
    const series = new Series("m", {}, randomUUID());
    const writer = client.writer({ batchPoints: 3, bufferPoints: 10 });
    const appends = Array.from({ length: 10 + 1024 + 5 }, (_, i) => writer.append(series, i, i));
    const outcomes = await Promise.allSettled(appends);
    const failed = outcomes.flatMap((o) => (o.status === "rejected" ? [o.reason.kind] : []));
    assert.deepEqual(failed, Array(5).fill("buffer_full"));
    await writer.close();
    const [samples] = (await contents(client, { database: series.database })).values();
    assert.equal(samples?.size, 1034);
  });

  it("gets a batch that is old", async () => {
    const series = new Series("m", {}, randomUUID());
    const writer = client.writer({ batchDelayMs: 1 });
    await writer.append(series, 1, 1);
    while (writer.buffered > 0) {
      await new Promise(setImmediate);
    }
    assert.equal((await contents(client, { database: series.database })).size, 1);
    await writer.close();
  });

  it("is left by a query that its caller stops, or ends", async () => {
    const series = new Series("m", {}, randomUUID());
    await client.write(Array.from({ length: 300_000 }, (_, timeMs) => ({ series, timeMs, value: timeMs / 3 })));
    const q = { selector: { metric: "m", database: series.database }, ...whole };
    for await (const chunk of client.query(q)) {
      assert(chunk.values.length > 0);
      break;
    }
    const reason = new Error("enough");
    await assert.rejects(collect(client.query({ ...q, signal: AbortSignal.abort(reason) })), reason);
    const controller = new AbortController();
    await assert.rejects(async () => {
      for await (const _ of client.query({ ...q, signal: controller.signal })) {
        controller.abort(reason);
      }
    }, reason);
  });

  it("is found beside addresses that do not answer", async () => {
    const several = new Client({ endpoints: ["127.0.0.1:1", server.address, "127.0.0.1:2"] });
    const series = new Series("m", {}, randomUUID());
    for (let i = 0; i < 10; i++) {
      await several.write([{ series, timeMs: i, value: i }]);
    }
    const [samples] = (await contents(several, { database: series.database })).values();
    assert.equal(samples?.size, 10);
    several.close();
    await assert.rejects(several.metrics(), ofKind("closed"));
    await assert.rejects(several.write([]), ofKind("closed"));
  });

  it("runs the example, which the README shows", async () => {
    const example = new URL("../examples/quickstart.js", import.meta.url).pathname;
    const env = { ...process.env, TICKMESH_ENDPOINTS: server.address };
    assert.equal(
      execFileSync(process.execPath, [example], { env, encoding: "utf8" }),
      "100000 points of cpu{host=a}\n",
    );
    const root = new URL("../../", import.meta.url);
    const source = readFileSync(new URL("examples/quickstart.ts", root), "utf8");
    assert(readFileSync(new URL("README.md", root), "utf8").includes(`\`\`\`ts\n${source}\`\`\``));
  });
});

describe("a server that is killed again and again", () => {
  it("has what was acknowledged, once", async () => {
    const server = new Standalone("--wal-sync", "always");
    await server.start();
    const client = new Client({ endpoints: [server.address], writeTimeoutMs: 600_000, retryDelayMaxMs: 100 });
    try {
      const series = [1, 2, 3].map((n) => new Series("m", { n: String(n) }));
      const writer = client.writer({ batchPoints: 50, bufferPoints: 500, batchDelayMs: 5 });
      const want = new Map(series.map((s) => [s.key, new Map<number, number>()]));
      let last = 0;
      const append = async (count: number) => {
        for (let i = 0; i < count; i++, last++) {
          const s = series[last % 3] as Series;
          await writer.append(s, last, last / 7);
          want.get(s.key)?.set(last, last / 7);
        }
      };
      const acknowledged: Sample[] = [];
      const single = new Series("single");
      for (let kill = 0; kill < 3; kill++) {
        const appending = append(2_000); // is waiting for room when the server dies
        const value = kill + 0.5;
        await client.write([{ series: single, timeMs: kill, value }]);
        acknowledged.push({ series: single, timeMs: kill, value });
        await server.kill();
        assert.equal(writer.buffered > 0, true);
        const down = client.write([{ series: single, timeMs: 100 + kill, value }]);
        await server.start();
        await down;
        acknowledged.push({ series: single, timeMs: 100 + kill, value });
        await appending;
      }
      await writer.close();
      want.set(single.key, new Map(acknowledged.map((s) => [s.timeMs, s.value])));
      assert.deepEqual(await contents(client, {}), want);

      // A sample of another value at the same time would show that a repetition was written after what came later.
      const points = [...want.values()].reduce((sum, samples) => sum + samples.size, 0);
      const windows = { widthMs: 1_000_000, aggregates: ["count"] as const };
      const counts = await collect(client.query({ selector: {}, ...whole, windows }));
      assert.equal(
        counts.flatMap((c) => c.counts).reduce((a, b) => a + b),
        points,
      );
    } finally {
      client.close();
      await server.remove();
    }
  });

  it("does not write a repetition over what came after it", async () => {
    const server = new Standalone("--wal-sync", "always");
    await server.start();
    const client = new Client({ endpoints: [server.address], writeTimeoutMs: 600_000, retryDelayMaxMs: 50 });
    try {
      const series = new Series("m");
      for (let kill = 0; kill < 3; kill++) {
        const writer = client.writer({ batchPoints: 1, bufferPoints: 100 });
        const appends = Array.from({ length: 100 }, (_, i) => writer.append(series, kill, i));
        await server.kill();
        await server.start();
        await Promise.all(appends);
        await writer.close();
      }
      const [samples] = (await contents(client, {})).values();
      assert.deepEqual(
        [...(samples ?? [])],
        [0, 1, 2].map((kill) => [kill, 99]),
      );
    } finally {
      client.close();
      await server.remove();
    }
  });
});

describe("no server", () => {
  const client = new Client({ endpoints: ["127.0.0.1:1"], writeTimeoutMs: 200, callTimeoutMs: 200 });
  const series = new Series("m");
  after(() => client.close());

  it("is told when the time is over", async () => {
    await assert.rejects(client.write([{ series, timeMs: 1, value: 1 }]), ofKind("unavailable"));
    await assert.rejects(client.metrics(), ofKind("unavailable"));
  });

  it("fills the buffer of a writer, which tells what it lost", async () => {
    const writer = client.writer({ batchPoints: 1, bufferPoints: 1, failWhenFull: true });
    await writer.append(series, 1, 1);
    await assert.rejects(writer.append(series, 2, 1), ofKind("buffer_full"));
    await assert.rejects(writer.close(), (error) => error instanceof WriteError && error.points === 1);
    await writer.close(); // told once
  });

  it("is given up when its caller wants that", async () => {
    const patient = new Client({ endpoints: ["127.0.0.1:1"] });
    const reason = new Error("enough");
    const controller = new AbortController();
    const write = patient.write([{ series, timeMs: 1, value: 1 }], { signal: controller.signal });
    const writer = patient.writer({ batchPoints: 1 });
    await writer.append(series, 1, 1);
    await writer.append(series, 2, 1);
    const flush = writer.flush({ signal: controller.signal });
    controller.abort(reason);
    await assert.rejects(write, reason);
    await assert.rejects(flush, reason);
    await assert.rejects(writer.close({ signal: AbortSignal.timeout(50) }), (error) => {
      assert(error instanceof WriteError && error.points === 2 && error.total === 2, String(error));
      return true;
    });
    const last = patient.write([{ series, timeMs: 1, value: 1 }]);
    patient.close();
    await assert.rejects(last, ofKind("closed"));
    assert.throws(() => patient.writer(), ofKind("closed"));
  });
});

describe("who calls", () => {
  const files = mkdtempSync(join(tmpdir(), "tickmesh-typescript-"));
  const [, token = "", digest = ""] = /client:\s*(\S+)\s[\s\S]*file:\s*(\S+)/.exec(run("auth", "token")) ?? [];
  const secure = new Standalone(
    ...["--auth-file", join(files, "auth.yaml"), "--tls-cert", join(files, "router-r1.crt")],
    ...["--tls-key", join(files, "router-r1.key")],
  );
  let ca: Buffer;
  let secured: string; // a name: TLS has none for addresses
  before(async () => {
    run("certs", "--dir", files, "router/r1=127.0.0.1,localhost");
    ca = readFileSync(join(files, "ca.crt"));
    writeFileSync(
      join(files, "auth.yaml"),
      `users:\n  - name: it\n    tokens: [${digest}]\n    rights: {default: read}\n`,
    );
    await secure.start();
    secured = secure.address.replace("127.0.0.1", "localhost");
  });
  after(async () => {
    await secure.remove();
    rmSync(files, { recursive: true });
  });

  it("is shown over TLS", async () => {
    for (const source of [token, () => `${token}\n`]) {
      const client = new Client({ endpoints: [secured], tls: { ca }, token: source });
      assert.deepEqual(await client.metrics(), []);
      await assert.rejects(client.write([{ series: new Series("m"), timeMs: 1, value: 1 }]), (error) => {
        assert(error instanceof TickmeshError && error.kind === "denied", String(error));
        return true;
      });
      client.close();
    }
    for (const who of [{}, { token: "x" }, { user: "ann", password: "x" }]) {
      const client = new Client({ endpoints: [secured], tls: { ca }, ...who });
      await assert.rejects(client.metrics(), ofKind("unauthenticated"));
      client.close();
    }
  });

  it("is not shown to a server that another CA vouches for", async () => {
    const client = new Client({ endpoints: [secured], tls: {}, token, callTimeoutMs: 200 });
    await assert.rejects(client.metrics(), ofKind("unavailable"));
    client.close();
  });

  it("is not sent beyond the loopback without TLS", () => {
    for (const who of [{ token: "x" }, { token: () => "x" }, { user: "a", password: "b" }]) {
      new Client({ endpoints: ["127.0.0.1:1", "[::1]:1", "localhost:1"], ...who }).close();
      const endpoints = ["127.0.0.1:1", "router:1"];
      assert.throws(() => new Client({ endpoints, ...who }), /insecureCredentials/);
      new Client({ endpoints, ...who, insecureCredentials: true }).close();
      new Client({ endpoints, ...who, tls: {} }).close();
    }
  });

  it("cannot be two, or what no header can have", () => {
    const endpoints = ["127.0.0.1:1"];
    for (const wrong of [
      { token: "x", user: "y" },
      { user: "a:b" },
      { password: "x" },
      { token: "a b" },
      { token: "" },
    ]) {
      assert.throws(() => new Client({ endpoints, ...wrong }), ofKind("options"));
    }
    for (const wrong of [
      { endpoints: [] },
      { endpoints: [""] },
      { endpoints, callTimeoutMs: 0 },
      { endpoints, tls: { key: "x" } },
    ]) {
      assert.throws(() => new Client(wrong), ofKind("options"));
    }
    const client = new Client({ endpoints });
    for (const wrong of [{ batchPoints: 0 }, { batchPoints: 50_001 }, { bufferPoints: 1.5 }, { batchDelayMs: -1 }]) {
      assert.throws(() => client.writer(wrong), ofKind("options"));
    }
    client.close();
  });
});
