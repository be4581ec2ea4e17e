import { Batch, checkSample, type Delivered } from "./batch.js";
import type { Ended } from "./calls.js";
import { TickmeshError } from "./errors.js";
import type { Sample, Series } from "./model.js";
import type { WriterOptions } from "./options.js";
import { type RefusedSeries, WriteError } from "./writeerror.js";

/** Bounds the errors that wait to be told. */
const causesMax = 16;

/** Bounds the appends that wait for room at once: more are of a caller that does not await them. */
const waitingMax = 1_024;

const done = Promise.resolve();

/** Writes a batch within its time; it never rejects. */
type Deliver = (batch: Batch, signal: AbortSignal) => Promise<Delivered>;

interface Waiting {
  readonly sample: Sample;
  readonly resolve: () => void;
  readonly reject: (error: TickmeshError) => void;
}

/**
 * Gathers samples into batches and sends them one after the other, so that of two samples with one series and time the
 * later one counts. Client.writer makes it.
 */
export class Writer {
  readonly #options: Required<WriterOptions>;
  readonly #deliver: Deliver;
  readonly #givesUp = new AbortController();
  #gathered = new Batch();
  #timer: NodeJS.Timeout | undefined; // submits what is gathered when that is batchDelayMs old
  readonly #queue: Batch[] = [];
  readonly #waiting: Waiting[] = []; // appends, in order
  #points = 0; // held: gathered, in the queue, on their way
  #submitted = 0; // batches, ever
  #ended = 0; // of them, written or given up
  #active = false; // whether send runs
  #sending: Promise<void> = done;
  #changed = done;
  #announce = (): void => undefined;
  #closed = false;
  #lost: { points: number; causes: (RefusedSeries | TickmeshError)[]; total: number } = noneLost();

  /** @internal */
  constructor(options: Required<WriterOptions>, deliver: Deliver) {
    this.#options = options;
    this.#deliver = deliver;
    this.#renew();
  }

  /** The number of samples that the writer holds. */
  get buffered(): number {
    return this.#points;
  }

  /**
   * Takes a sample. The promise waits while the buffer is full; await it. It rejects with "invalid", "closed", and
   * "buffer_full" where the writer may not wait, or 1,024 appends wait already. What becomes of the sample is told by
   * flush and close.
   */
  append(series: Series, timeMs: number, value: number): Promise<void> {
    const sample = { series, timeMs, value };
    try {
      checkSample(sample);
      if (this.#closed) {
        throw new TickmeshError("closed", "the writer is closed");
      }
    } catch (error) {
      return Promise.reject(error);
    }
    if (this.#points < this.#options.bufferPoints && this.#waiting.length === 0) {
      this.#add(sample);
      return done;
    }
    this.#submit();
    if (this.#options.failWhenFull || this.#waiting.length >= waitingMax) {
      return Promise.reject(new TickmeshError("buffer_full", `${this.#points} samples wait to be written`));
    }
    return new Promise((resolve, reject) => this.#waiting.push({ sample, resolve, reject }));
  }

  #add(sample: Sample): void {
    if (this.#gathered.points > 0 && this.#gathered.bytesWith(sample.series) > this.#options.batchBytes) {
      this.#submit();
    }
    this.#gathered.add(sample);
    this.#points++;
    if (this.#gathered.points >= this.#options.batchPoints) {
      this.#submit();
    } else if (this.#gathered.points === 1) {
      this.#timer = setTimeout(() => this.#submit(), this.#options.batchDelayMs);
    }
  }

  /** Hands what is gathered to the sender. */
  #submit(): void {
    clearTimeout(this.#timer);
    if (this.#gathered.points === 0) {
      return;
    }
    this.#queue.push(this.#gathered);
    this.#gathered = new Batch();
    this.#submitted++;
    if (!this.#active) {
      this.#sending = this.#send();
    }
  }

  /** Sends batches until there is none; it never rejects. */
  async #send(): Promise<void> {
    this.#active = true;
    for (let batch = this.#queue.shift(); batch !== undefined; batch = this.#queue.shift()) {
      const { refused, failed } = await this.#deliver(batch, this.#givesUp.signal);
      for (const r of refused) {
        this.#lose(r.points, r);
      }
      if (failed !== undefined) {
        this.#lose(failed.points, failed.error);
      }
      this.#points -= batch.points;
      this.#ended++;
      while (this.#points < this.#options.bufferPoints) {
        const next = this.#waiting.shift();
        if (next === undefined) {
          break;
        }
        this.#add(next.sample);
        next.resolve();
      }
      this.#announce();
      this.#renew();
    }
    this.#active = false;
  }

  #renew(): void {
    this.#changed = new Promise((resolve) => {
      this.#announce = resolve;
    });
  }

  #lose(points: number, cause: RefusedSeries | TickmeshError): void {
    this.#lost.points += points;
    this.#lost.total++;
    if (this.#lost.causes.length < causesMax) {
      this.#lost.causes.push(cause);
    }
  }

  /** Throws what was lost since it was told last. */
  #tell(): void {
    const { points, causes, total } = this.#lost;
    if (total > 0) {
      this.#lost = noneLost();
      throw new WriteError(points, causes, total);
    }
  }

  /**
   * Sends what is gathered and waits until every sample that was taken before is written or given up. Rejects with a
   * WriteError when some were given up since the last flush, and with the signal's reason.
   */
  async flush({ signal }: Ended = {}): Promise<void> {
    signal?.throwIfAborted();
    this.#submit();
    const target = this.#submitted;
    const aborted = abortedOf(signal);
    try {
      while (this.#ended < target) {
        await Promise.race([this.#changed, aborted.promise]);
        signal?.throwIfAborted();
      }
    } finally {
      aborted.end();
    }
    this.#tell();
  }

  /**
   * Takes no more samples, sends what it holds and waits for that, each batch for at most the client's writeTimeoutMs;
   * when the signal ends, it gives up the rest. Rejects with a WriteError as flush does. A second call waits, too.
   */
  async close({ signal }: Ended = {}): Promise<void> {
    this.#submit();
    this.#closed = true;
    for (const { reject } of this.#waiting.splice(0)) {
      reject(new TickmeshError("closed", "the writer is closed"));
    }
    const giveUp = (): void =>
      this.#givesUp.abort(new TickmeshError("deadline", "the writer was closed before it was written"));
    if (signal?.aborted) {
      giveUp();
    }
    signal?.addEventListener("abort", giveUp, { once: true });
    await this.#sending;
    signal?.removeEventListener("abort", giveUp);
    this.#tell();
  }
}

function noneLost(): { points: number; causes: (RefusedSeries | TickmeshError)[]; total: number } {
  return { points: 0, causes: [], total: 0 };
}

/** Returns a promise that resolves when a signal ends, and what takes its listener away. */
function abortedOf(signal: AbortSignal | undefined): { promise: Promise<void>; end: () => void } {
  let end = (): void => undefined;
  const promise = new Promise<void>((resolve) => {
    const listener = (): void => resolve();
    signal?.addEventListener("abort", listener, { once: true });
    end = () => signal?.removeEventListener("abort", listener);
  });
  return { promise, end };
}
