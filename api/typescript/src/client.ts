import { BATCH_BYTES_MAX, BATCH_POINTS_MAX, Batch, checkSample, type Delivered, Session } from "./batch.js";
import { Calls, type Ended, Waits } from "./calls.js";
import { errorOfCall, PartialError, TickmeshError } from "./errors.js";
import { type ListNamesRequest, NameKind, type ScanRequest } from "./generated/tickmesh/v1/query.js";
import { WriteLevel, type WriteRequest, type WriteResult } from "./generated/tickmesh/v1/write.js";
import {
  type Chunk,
  chunkOf,
  type Sample,
  type Selector,
  Series,
  selectorMessage,
  type Windows,
  windowsMessage,
} from "./model.js";
import { type ClientOptions, type Settings, settingsOf, type WriterOptions, writerSettingsOf } from "./options.js";
import { decode, encode } from "./text.js";
import { type RefusedSeries, WriteError } from "./writeerror.js";
import { Writer } from "./writer.js";

/** How an answer may be made. */
export interface Read extends Ended {
  /** Lets any full copy answer that is at most so far behind. Without it the answer has every write that was answered. */
  readonly stalenessMaxMs?: number;
  /** Lets shards be missing that nobody answers for. The last thing of such an answer is a PartialError. */
  readonly allowPartial?: boolean;
}

/** Asks for samples from fromMs to toMs, both inclusive. */
export interface Query extends Read {
  readonly selector: Selector;
  readonly fromMs: number;
  readonly toMs: number;
  /** Windows instead of samples. */
  readonly windows?: Windows;
  /** What the query may cost; without them the server's own bounds count. */
  readonly limits?: { readonly series?: number; readonly samples?: number; readonly bytes?: number };
}

/** Restricts names. */
export interface Names extends Ended {
  readonly database?: string;
  /** Only names that start so. */
  readonly prefix?: string;
  /** At most so many, the first in order of their bytes. */
  readonly limit?: number;
}

/** A connection to a cluster. It connects when something is asked. */
export class Client {
  readonly #settings: Settings;
  readonly #calls: Calls;
  readonly #session = new Session(); // of write

  /** Throws "options". */
  constructor(options: ClientOptions) {
    this.#settings = settingsOf(options);
    this.#calls = new Calls(options.endpoints, this.#settings);
  }

  /** Ends calls that run, with "closed", and the connections. Close writers before. */
  close(): void {
    this.#calls.close();
  }

  /**
   * Writes samples and waits for the answer; of equal series and time the last one counts. They go in batches that a
   * message can hold, one after the other, each repeated with its id until writeTimeoutMs or the signal. Rejects with
   * what the first batch that failed ended with: those before it are written, those behind are not sent. WriteError
   * where the server refused series.
   */
  async write(samples: Iterable<Sample>, { signal }: Ended = {}): Promise<void> {
    this.#calls.check(signal);
    const refused: RefusedSeries[] = [];
    for (const batch of batchesOf(samples)) {
      const delivered = await this.#deliver(batch, this.#session, signal);
      refused.push(...delivered.refused);
      if (delivered.failed !== undefined) {
        signal?.throwIfAborted();
        throw refused.length === 0 ? delivered.failed.error : writeErrorOf(refused, delivered.failed);
      }
    }
    if (refused.length > 0) {
      throw writeErrorOf(refused);
    }
  }

  /** Returns a Writer, which gathers samples into batches and sends them one after the other. Throws "options". */
  writer(options: WriterOptions = {}): Writer {
    this.#calls.check();
    const session = new Session();
    return new Writer(writerSettingsOf(options), (batch, signal) => this.#deliver(batch, session, signal));
  }

  /**
   * Writes a batch, repeated with its id; what is refused for now follows in batches of its own. It never rejects.
   */
  async #deliver(batch: Batch, session: Session, signal: AbortSignal | undefined): Promise<Delivered> {
    const refused: RefusedSeries[] = [];
    let rest = batch; // not yet answered for good
    try {
      await this.#calls.within(signal, async (signal) => {
        const until = performance.now() + this.#settings.writeTimeoutMs;
        const waits = new Waits(this.#settings, until, signal);
        for (;;) {
          const answer = rest.refusals(await this.#writeBatch(rest, session, until, signal));
          refused.push(...answer.refused);
          if (answer.again === undefined) {
            return;
          }
          rest = answer.again.batch;
          await waits.next(answer.again.why);
        }
      });
    } catch (error) {
      return { refused, failed: { points: rest.points, error: errorOfCall(error) } };
    }
    return { refused };
  }

  /** Writes a batch under one id. */
  async #writeBatch(batch: Batch, session: Session, until: number, signal: AbortSignal): Promise<WriteResult> {
    const level = this.#settings.writeLevelAll ? WriteLevel.ALL : WriteLevel.UNSPECIFIED;
    const id = await session.take();
    try {
      const request: WriteRequest = { batch: batch.toMessage(id, level) };
      const { result } = await this.#calls.retry(until, signal, (e, end) =>
        this.#calls.unary(e, e.write.write.bind(e.write), request, end, signal),
      );
      if (result === undefined || result.level !== level) {
        throw new TickmeshError(
          "version",
          "the server does not know the level of the write; a majority has written it",
        );
      }
      return result;
    } finally {
      session.give(id);
    }
  }

  /**
   * Yields the chunks of an answer as they arrive; those of one series come in order of time, without another series
   * between. An answer that ended without an error is complete. Leaving the loop early ends the query. Until its first
   * chunk it is tried again elsewhere, up to callTimeoutMs.
   */
  async *query(q: Query): AsyncGenerator<Chunk, void, void> {
    const request: ScanRequest = {
      ...readOf(q),
      selector: selectorMessage(q.selector),
      fromMs: q.fromMs,
      toMs: q.toMs,
      windows: windowsMessage(q.windows),
      limits: { seriesMax: q.limits?.series ?? 0, samplesMax: q.limits?.samples ?? 0, bytesMax: q.limits?.bytes ?? 0 },
      snapshot: "",
    };
    let series: Series | undefined;
    for await (const m of this.#calls.stream(q.signal, (e) => e.query.scan(request, e.metadata()))) {
      for (const chunk of m.chunks) {
        series = chunk.series === undefined ? series : Series.ofMessage(chunk.series);
        if (series === undefined || chunk.columns === undefined) {
          throw new TickmeshError("internal", "a chunk without a series or columns");
        }
        yield chunkOf(series, chunk.columns);
      }
      checkWhole(m.shardsMissing);
    }
  }

  /** Yields the newest sample, from fromMs on, of each series that matches, in no order. */
  async *last(selector: Selector, fromMs: number, read: Read = {}): AsyncGenerator<Sample, void, void> {
    const request = { ...readOf(read), selector: selectorMessage(selector), fromMs, limits: undefined };
    for await (const m of this.#calls.stream(read.signal, (e) => e.query.last(request, e.metadata()))) {
      for (const { series, timeMs, value } of m.points) {
        if (series === undefined) {
          throw new TickmeshError("internal", "a sample without a series");
        }
        yield { series: Series.ofMessage(series), timeMs, value };
      }
      checkWhole(m.shardsMissing);
    }
  }

  /** Yields the series that match, at most limit of them (0: all), in no order. */
  async *series(selector: Selector, limit = 0, read: Read = {}): AsyncGenerator<Series, void, void> {
    const request = { ...readOf(read), selector: selectorMessage(selector), limit };
    for await (const m of this.#calls.stream(read.signal, (e) => e.query.listSeries(request, e.metadata()))) {
      yield* m.series.map(Series.ofMessage);
      checkWhole(m.shardsMissing);
    }
  }

  /** Returns the databases that have series and that the caller may read. */
  databases(names: Omit<Names, "database"> = {}): Promise<string[]> {
    return this.#names(NameKind.DATABASE, names);
  }

  /** Returns the metrics of a database. */
  metrics(names: Names = {}): Promise<string[]> {
    return this.#names(NameKind.METRIC, names);
  }

  /** Returns the names of the tags of a metric; "": of all metrics. */
  tagNames(metric: string, names: Names = {}): Promise<string[]> {
    return this.#names(NameKind.TAG_NAME, names, metric);
  }

  /** Returns the values of a tag; an empty metric means all metrics, an empty tag all tags. */
  tagValues(metric: string, tag: string, names: Names = {}): Promise<string[]> {
    return this.#names(NameKind.TAG_VALUE, names, metric, tag);
  }

  async #names(kind: NameKind, names: Names, metric = "", tag = ""): Promise<string[]> {
    const request: ListNamesRequest = {
      kind,
      database: encode(names.database ?? ""),
      metric: encode(metric),
      tagName: encode(tag),
      prefix: encode(names.prefix ?? ""),
      limit: names.limit ?? 0,
      freshness: { stalenessMaxMs: 0 },
      snapshot: "",
    };
    const found: string[] = [];
    for await (const m of this.#calls.stream(names.signal, (e) => e.query.listNames(request, e.metadata()))) {
      for (const name of m.names) {
        found.push(decode(name));
      }
    }
    return found;
  }

  /**
   * Hides the samples from fromMs to toMs, both inclusive, that were written before it. Returns the number of series
   * that had some, or may have had.
   */
  async delete(selector: Selector, fromMs: number, toMs: number, { signal }: Ended = {}): Promise<number> {
    const request = { selector: selectorMessage(selector), fromMs, toMs };
    return this.#calls.within(signal, async (signal) => {
      const until = performance.now() + this.#settings.callTimeoutMs;
      const { seriesTouched } = await this.#calls.retry(until, signal, (e, end) =>
        this.#calls.unary(e, e.query.delete.bind(e.query), request, end, signal),
      );
      return seriesTouched;
    });
  }
}

/** Yields samples in batches that a message can hold. Throws "invalid". */
function* batchesOf(samples: Iterable<Sample>): Generator<Batch, void, void> {
  let batch = new Batch();
  for (const sample of samples) {
    checkSample(sample);
    if (batch.points >= BATCH_POINTS_MAX || (batch.points > 0 && batch.bytesWith(sample.series) > BATCH_BYTES_MAX)) {
      yield batch;
      batch = new Batch();
    }
    batch.add(sample);
  }
  if (batch.points > 0) {
    yield batch;
  }
}

function writeErrorOf(refused: readonly RefusedSeries[], failed?: Delivered["failed"]): WriteError {
  const causes = failed === undefined ? refused : [failed.error, ...refused];
  const points = refused.reduce((sum, r) => sum + r.points, failed?.points ?? 0);
  return new WriteError(points, causes, causes.length);
}

function readOf(r: Read): { freshness: { stalenessMaxMs: number }; allowPartial: boolean } {
  return { freshness: { stalenessMaxMs: r.stalenessMaxMs ?? 0 }, allowPartial: r.allowPartial ?? false };
}

function checkWhole(shardsMissing: number[]): void {
  if (shardsMissing.length > 0) {
    throw new PartialError(shardsMissing);
  }
}
