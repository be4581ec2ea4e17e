import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { describe, it } from "node:test";
import { status } from "@grpc/grpc-js";
import { Client, Series, TickmeshError, WriteError } from "tickmesh";
import { delayMs } from "../src/backoff.js";
import { Session } from "../src/batch.js";
import { ErrorKind } from "../src/generated/tickmesh/v1/error.js";
import type { WriteRequest } from "../src/generated/tickmesh/v1/write.js";
import { onLoopback } from "../src/options.js";
import { decode } from "../src/text.js";
import { FakeServer, statusOf } from "./fake.js";

type Row = [metric: string, timeMs: number, value: number];
type Failure = { error: string; retry_after_ms?: number };
type Answer = Partial<Failure> & { code?: keyof typeof status; silent?: true; refused?: Record<string, Failure> };
type Outcome = { error?: string; refused?: Record<string, { points: number; error: string }> };
interface Retries {
  name: string;
  attempt_timeout_ms?: number;
  writes: Row[][];
  answers: Answer[];
  received: { counter: number; samples: Row[] }[];
  outcomes: Outcome[];
}

/** What all clients of TickMesh do alike; proto/README.md describes it. */
const vectors: {
  retries: Retries[];
  delays: Record<"min_ms" | "max_ms" | "failures" | "retry_after_ms" | "least_ms" | "most_ms", number>[];
  window: { oldest: number; last: number; may_take: boolean }[];
  loopback: Record<string, boolean>;
} = JSON.parse(readFileSync(new URL("../../../../proto/vectors/client.json", import.meta.url), "utf8"));

function rowsOf({ batch }: WriteRequest): Row[] {
  const names = new Map(batch?.definitions.map((d) => [d.handle, decode(d.series?.metric ?? Buffer.of())]));
  let time = 0;
  return (batch?.handles ?? []).map((handle, i) => {
    time += batch?.timeDeltasMs[i] ?? Number.NaN;
    return [names.get(handle) ?? "", time, batch?.values[i] ?? Number.NaN];
  });
}

/** Plays a vector's server and returns where it listens, and what it receives. */
async function play(vector: Retries) {
  const sessions = new Set<number>();
  const received: Retries["received"] = [];
  const server = new FakeServer(({ request }, answer) => {
    const next = vector.answers[received.length];
    received.push({ counter: request.batch?.batchId?.counter ?? 0, samples: rowsOf(request) });
    sessions.add(request.batch?.batchId?.session ?? 0);
    if (next === undefined) {
      answer({ code: status.DATA_LOSS, details: "an attempt too many" });
    } else if (next.code !== undefined) {
      answer({ code: status[next.code], details: "of gRPC" });
    } else if (next.error !== undefined) {
      answer(statusOf(next.error, next.retry_after_ms));
    } else if (!next.silent) {
      const handles = new Map(
        request.batch?.definitions.map((d) => [decode(d.series?.metric ?? Buffer.of()), d.handle]),
      );
      const refused = Object.entries(next.refused ?? {}).map(([metric, { error, retry_after_ms }]) => ({
        handle: handles.get(metric) ?? -1,
        error: {
          kind: ErrorKind[error as keyof typeof ErrorKind],
          message: error,
          retryAfterMs: retry_after_ms ?? 0,
          limit: undefined,
        },
      }));
      answer(null, { result: { copies: 1, level: 0, refused } });
    }
  });
  return { server, address: await server.listen(), received, sessions };
}

async function outcomeOf(write: Promise<void>): Promise<Outcome> {
  try {
    await write;
    return {};
  } catch (error) {
    assert(error instanceof TickmeshError, String(error));
    const refused: NonNullable<Outcome["refused"]> = {};
    for (const cause of error instanceof WriteError ? error.causes : [error]) {
      if (cause instanceof TickmeshError) {
        return { error: cause.kind.toUpperCase() };
      }
      refused[cause.series.metric] = { points: cause.points, error: cause.error.kind.toUpperCase() };
    }
    return { refused };
  }
}

describe("vectors of retries", () => {
  const faces: Record<string, (client: Client) => (samples: Row[]) => Promise<void>> = {
    write: (client) => (rows) =>
      client.write(rows.map(([metric, timeMs, value]) => ({ series: new Series(metric), timeMs, value }))),
    writer: (client) => {
      const writer = client.writer();
      return async (rows) => {
        for (const [metric, timeMs, value] of rows) {
          await writer.append(new Series(metric), timeMs, value);
        }
        await writer.flush();
      };
    },
  };
  for (const [face, faceOf] of Object.entries(faces)) {
    for (const vector of vectors.retries) {
      it(`${face}: ${vector.name}`, async () => {
        const { server, address, received, sessions } = await play(vector);
        const attemptTimeoutMs = vector.attempt_timeout_ms ?? 600_000;
        const client = new Client({
          endpoints: [address],
          attemptTimeoutMs,
          writeTimeoutMs: 600_000,
          retryDelayMinMs: 1,
          retryDelayMaxMs: 5,
        });
        try {
          const write = faceOf(client);
          const outcomes: Outcome[] = [];
          for (const rows of vector.writes) {
            outcomes.push(await outcomeOf(write(rows)));
          }
          assert.deepEqual(received, vector.received);
          assert.deepEqual(outcomes, vector.outcomes);
          assert.equal(sessions.size, 1);
          assert(!sessions.has(0));
        } finally {
          client.close();
          server.close();
        }
      });
    }
  }
});

it("delays follow the vectors", () => {
  for (const v of vectors.delays) {
    const backoff = { minMs: v.min_ms, maxMs: v.max_ms };
    assert.equal(delayMs(backoff, v.failures, v.retry_after_ms, 0), v.most_ms);
    assert.equal(delayMs(backoff, v.failures, v.retry_after_ms, 1), v.least_ms);
    const drawn = delayMs(backoff, v.failures, v.retry_after_ms);
    assert(drawn >= v.least_ms && drawn <= v.most_ms, `${drawn} of ${JSON.stringify(v)}`);
  }
});

it("counters stay as near to each other as the vectors say", async () => {
  for (const { oldest, last, may_take } of vectors.window) {
    const session = new Session();
    for (let counter = 1; counter <= last; counter++) {
      const id = await session.take();
      assert.equal(id.counter, counter);
      if (counter !== oldest) {
        session.give(id);
      }
    }
    assert.equal(session.mayTake, may_take, `${oldest} to ${last}`);
    let taken = false;
    const next = session.take().then(() => {
      taken = true;
    });
    await new Promise(setImmediate);
    assert.equal(taken, may_take);
    session.give({ session: session.number, counter: oldest });
    await next;
  }
});

it("the loopback is what the vectors say", () => {
  for (const [address, is] of Object.entries(vectors.loopback)) {
    assert.equal(onLoopback(address), is, address);
  }
});
