import { randomBytes } from "node:crypto";
import { errorOfMessage, TickmeshError } from "./errors.js";
import type { BatchId, Batch as BatchMessage, WriteLevel, WriteResult } from "./generated/tickmesh/v1/write.js";
import { type Sample, type Series, TIME_MS_MAX } from "./model.js";
import type { RefusedSeries } from "./writeerror.js";

/** Bounds of a batch, which fits a message. */
export const BATCH_POINTS_MAX = 50_000;
export const BATCH_BYTES_MAX = 3 << 20;

/** Bytes of a sample: its value, handle and time, at most. */
const sampleBytes = 8 + 4 + 10;

/** Throws "invalid" for what no batch can hold. */
export function checkSample({ series, timeMs, value }: Sample): void {
  if (!Number.isInteger(timeMs) || Math.abs(timeMs) > TIME_MS_MAX) {
    throw new TickmeshError(
      "invalid",
      `the time of a sample of ${series} is ${timeMs}: it is a whole number, at most ${TIME_MS_MAX}`,
    );
  }
  if (typeof value !== "number") {
    throw new TickmeshError("invalid", `the value of a sample of ${series} is a ${typeof value}, not a number`);
  }
}

/** What became of a batch: what a server refused, and the points of which nobody knows whether they were written. */
export interface Delivered {
  readonly refused: readonly RefusedSeries[];
  readonly failed?: { readonly points: number; readonly error: TickmeshError };
}

/** Samples that are sent together, under one id. */
export class Batch {
  readonly #handles = new Map<string, number>(); // by key of the series
  readonly #series: Series[] = []; // by handle
  readonly #ofSample: number[] = []; // handles
  readonly #timesMs: number[] = [];
  readonly #values: number[] = [];
  #bytes = 0;

  get points(): number {
    return this.#values.length;
  }

  /** About how many bytes the message would have with another sample, at most. */
  bytesWith(series: Series): number {
    return this.#bytes + sampleBytes + (this.#handles.has(series.key) ? 0 : series.messageBytes);
  }

  add({ series, timeMs, value }: Sample): void {
    this.#bytes = this.bytesWith(series);
    let handle = this.#handles.get(series.key);
    if (handle === undefined) {
      handle = this.#series.push(series) - 1;
      this.#handles.set(series.key, handle);
    }
    this.#ofSample.push(handle);
    this.#timesMs.push(timeMs);
    this.#values.push(value);
  }

  toMessage(batchId: BatchId, level: WriteLevel): BatchMessage {
    return {
      batchId,
      level,
      definitions: this.#series.map((series, handle) => ({ handle, series: series.toMessage() })),
      handles: this.#ofSample,
      timeDeltasMs: this.#timesMs.map((time, i) => time - (this.#timesMs[i - 1] ?? 0)),
      values: this.#values,
      hours: false,
    };
  }

  /**
   * Returns what a server has refused for now, to be sent again as a batch of its own, with why; and what it has
   * refused for ever.
   */
  refusals(result: WriteResult): { again?: { batch: Batch; why: TickmeshError }; refused: RefusedSeries[] } {
    if (result.refused.length === 0) {
      return { refused: [] };
    }
    const errors = new Map(result.refused.map((r) => [r.handle, errorOfMessage(r.error)]));
    const batch = new Batch();
    const lost = new Map<number, number>(); // points by handle
    let why: TickmeshError | undefined;
    this.#ofSample.forEach((handle, i) => {
      const error = errors.get(handle);
      if (error !== undefined && error.retryAfterMs > 0) {
        batch.add(this.#sample(i));
        why = error;
      } else if (error !== undefined) {
        lost.set(handle, (lost.get(handle) ?? 0) + 1);
      }
    });
    const refused = [...lost].map(([handle, points]) => ({
      series: this.#series[handle] as Series,
      points,
      error: errors.get(handle) as TickmeshError,
    }));
    return why === undefined ? { refused } : { again: { batch, why }, refused };
  }

  #sample(i: number): Sample {
    return {
      series: this.#series[this.#ofSample[i] as number] as Series,
      timeMs: this.#timesMs[i] as number,
      value: this.#values[i] as number,
    };
  }
}

/** Counters of batches without an answer are less far apart than this: a server remembers 128 of a session. */
const counterWindow = 128;

/** Numbers the batches of one session, which is drawn once, so that their repetitions are known as such. */
export class Session {
  /** As random as a number can be exactly; never 0. */
  readonly number = Number(randomBytes(8).readBigUInt64LE() >> 11n) || 1;
  #last = 0;
  readonly #open = new Set<number>(); // counters without an answer, the oldest first
  #answered = Promise.resolve();
  #announce = (): void => undefined;

  constructor() {
    this.#renew();
  }

  #renew(): void {
    this.#answered = new Promise((resolve) => {
      this.#announce = resolve;
    });
  }

  /** Reports whether the next counter is near enough to the oldest one without an answer. */
  get mayTake(): boolean {
    const [oldest = this.#last + 1] = this.#open;
    return this.#last + 1 - oldest < counterWindow;
  }

  /** Returns the next id, once it is near enough to the oldest one without an answer. */
  async take(): Promise<BatchId> {
    while (!this.mayTake) {
      await this.#answered;
    }
    this.#last++;
    this.#open.add(this.#last);
    return { session: this.number, counter: this.#last };
  }

  /** Notes that a batch has its answer, or is given up. */
  give({ counter }: BatchId): void {
    this.#open.delete(counter);
    this.#announce();
    this.#renew();
  }
}
