import { setTimeout as sleep } from "node:timers/promises";
import type { CallOptions, ClientReadableStream, ClientUnaryCall, Metadata, ServiceError } from "@grpc/grpc-js";
import { delayMs } from "./backoff.js";
import { type Endpoint, Endpoints } from "./endpoint.js";
import { errorOfCall, TickmeshError } from "./errors.js";
import type { Settings } from "./options.js";

/** What ends a call early: AbortSignal.timeout(ms), for one. */
export interface Ended {
  readonly signal?: AbortSignal;
}

/** A method of a stub that is answered once. */
type Unary<Request, Response> = (
  request: Request,
  metadata: Metadata,
  options: Partial<CallOptions>,
  callback: (error: ServiceError | null, response: Response) => void,
) => ClientUnaryCall;

/** Makes calls: attempts, each with another endpoint, and what ends them. Times are of performance.now()'s clock. */
export class Calls {
  readonly #endpoints: Endpoints;
  readonly #settings: Settings;
  readonly #running = new Set<AbortController>();
  #closed = false;

  constructor(addresses: readonly string[], settings: Settings) {
    this.#endpoints = new Endpoints(addresses, settings);
    this.#settings = settings;
  }

  /** Ends calls that run, with "closed", and the connections. */
  close(): void {
    this.#closed = true;
    for (const controller of this.#running) {
      controller.abort(new TickmeshError("closed", "the client is closed"));
    }
    this.#endpoints.close();
  }

  /** Throws "closed" for a client that is, and the reason of a signal that has ended. */
  check(signal?: AbortSignal): void {
    if (this.#closed) {
      throw new TickmeshError("closed", "the client is closed");
    }
    signal?.throwIfAborted();
  }

  /** Runs something that also ends with the client, by its signal. Rejects with the reason of the signal that ended. */
  async within<T>(signal: AbortSignal | undefined, run: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const { controller, end } = this.begin(signal);
    try {
      return await run(controller.signal);
    } finally {
      end();
    }
  }

  /** Begins what within runs, for what lasts longer than a promise. */
  begin(signal: AbortSignal | undefined): { controller: AbortController; end: () => void } {
    this.check(signal);
    const controller = new AbortController();
    const abort = (): void => controller.abort(signal?.reason);
    signal?.addEventListener("abort", abort, { once: true });
    this.#running.add(controller);
    return {
      controller,
      end: () => {
        signal?.removeEventListener("abort", abort);
        this.#running.delete(controller);
      },
    };
  }

  /**
   * Makes attempts until one succeeds, one fails in a way that stays, or the time is over. An attempt is told when it
   * ends at the latest.
   */
  async retry<T>(until: number, signal: AbortSignal, attempt: (e: Endpoint, until: number) => Promise<T>): Promise<T> {
    const waits = new Waits(this.#settings, until, signal);
    for (;;) {
      const endpoint = this.#endpoints.pick();
      try {
        const end = Math.min(performance.now() + this.#settings.attemptTimeoutMs, until);
        if (!endpoint.known) {
          const hello = endpoint.hello(this.#settings.name);
          await this.unary(endpoint, endpoint.cluster.getServerInfo.bind(endpoint.cluster), hello, end, signal);
          endpoint.known = true;
        }
        const result = await attempt(endpoint, end);
        endpoint.told();
        return result;
      } catch (cause) {
        signal.throwIfAborted();
        const error = errorOfCall(cause);
        endpoint.told(error);
        if (!error.mayPass) {
          throw error;
        }
        await waits.next(error);
      }
    }
  }

  /** Makes one attempt of a call that is answered once. */
  async unary<Q, R>(e: Endpoint, method: Unary<Q, R>, request: Q, until: number, signal: AbortSignal): Promise<R> {
    signal.throwIfAborted();
    const metadata = e.metadata();
    let call: ClientUnaryCall | undefined;
    const cancel = (): void => call?.cancel();
    signal.addEventListener("abort", cancel, { once: true });
    try {
      return await new Promise<R>((resolve, reject) => {
        call = method(request, metadata, { deadline: deadlineOf(until) }, (error, response) =>
          error === null ? resolve(response) : reject(error),
        );
      });
    } finally {
      signal.removeEventListener("abort", cancel);
    }
  }

  /**
   * Yields the messages of an answer. Until the first one it is tried again elsewhere, as long as attempts begin within
   * callTimeoutMs. How long an answer may take is the signal's and the server's to say.
   */
  async *stream<M>(signal: AbortSignal | undefined, open: (e: Endpoint) => ClientReadableStream<M>): AsyncGenerator<M> {
    const { controller, end } = this.begin(signal);
    let stream: ClientReadableStream<M> | undefined;
    const cancel = (): void => stream?.cancel();
    controller.signal.addEventListener("abort", cancel, { once: true });
    try {
      const until = performance.now() + this.#settings.callTimeoutMs;
      const { messages, first } = await this.retry(until, controller.signal, async (endpoint) => {
        stream = open(endpoint);
        stream.on("error", () => undefined); // of one that nobody reads any more
        const messages: AsyncIterator<M> = stream[Symbol.asyncIterator]();
        return { messages, first: await messages.next() };
      });
      for (let message = first; !message.done; message = await messages.next()) {
        yield message.value;
      }
    } catch (cause) {
      controller.signal.throwIfAborted();
      throw errorOfCall(cause);
    } finally {
      stream?.cancel();
      end();
    }
  }
}

function deadlineOf(until: number): Date {
  return new Date(Date.now() + Math.max(0, until - performance.now()));
}

/** The waits between the attempts of one call, and what these failed for. */
export class Waits {
  readonly #settings: Settings;
  readonly #until: number;
  readonly #signal: AbortSignal;
  #failures = 0;
  #reason: TickmeshError | undefined; // of the last attempt that failed for more than that its time was over

  constructor(settings: Settings, until: number, signal: AbortSignal) {
    this.#settings = settings;
    this.#until = until;
    this.#signal = signal;
  }

  /** Waits after an attempt that has failed. Rejects with why attempts failed when the time would be over. */
  async next(error: TickmeshError): Promise<void> {
    this.#failures++;
    if (error.kind !== "deadline" || this.#reason === undefined) {
      this.#reason = error;
    }
    const delay = delayMs(this.#settings.backoff, this.#failures, error.retryAfterMs);
    if (performance.now() + delay > this.#until) {
      throw this.#reason;
    }
    await sleep(delay, undefined, { signal: this.#signal }).catch(() => this.#signal.throwIfAborted());
  }
}
