import { Metadata } from "@grpc/grpc-js";
import type { TickmeshError } from "./errors.js";
import { ClusterServiceClient } from "./generated/tickmesh/v1/cluster.js";
import { QueryServiceClient } from "./generated/tickmesh/v1/query.js";
import { WriteServiceClient } from "./generated/tickmesh/v1/write.js";
import type { Settings } from "./options.js";

/** The level of the API that this package is built for; see proto/README.md. */
const apiLevel = 1;

const messageBytesMax = 32 << 20;

/** Bounds of how long an endpoint that fails is left alone. */
const restMinMs = 100;
const restMaxMs = 5_000;

/** One router. */
export class Endpoint {
  readonly cluster: ClusterServiceClient;
  readonly query: QueryServiceClient;
  readonly write: WriteServiceClient;
  readonly #authorization: Settings["authorization"];
  #failures = 0; // without a success between
  /** It is left alone until then, on performance.now()'s clock. */
  restsTo = 0;
  /** Whether the server has said that it serves this client. */
  known = false;

  constructor(address: string, { credentials, authorization }: Settings) {
    this.#authorization = authorization;
    this.cluster = new ClusterServiceClient(address, credentials, {
      "grpc.max_receive_message_length": messageBytesMax,
      "grpc.max_send_message_length": messageBytesMax,
      "grpc.enable_retries": 0,
      "grpc.enable_http_proxy": 0,
      "grpc.keepalive_time_ms": 10_000,
      "grpc.keepalive_timeout_ms": 3_000,
      "grpc.initial_reconnect_backoff_ms": 50,
      "grpc.max_reconnect_backoff_ms": 1_000,
    });
    const channelOverride = this.cluster.getChannel();
    this.query = new QueryServiceClient(address, credentials, { channelOverride });
    this.write = new WriteServiceClient(address, credentials, { channelOverride });
  }

  /** Returns what goes with a call. Throws what the source of tokens throws. */
  metadata(): Metadata {
    const metadata = new Metadata();
    if (this.#authorization !== undefined) {
      metadata.set("authorization", this.#authorization());
    }
    return metadata;
  }

  /** The first question to a server, which refuses clients that it cannot serve. */
  hello(name: string): { client: string; apiLevel: number } {
    return { client: name, apiLevel };
  }

  /** Notes how a call ended. A server that answers, even with an error, is well, unless it cannot reach its nodes. */
  told(error?: TickmeshError): void {
    if (error?.kind !== "unavailable" && error?.kind !== "deadline") {
      this.#failures = 0;
      this.restsTo = 0;
      return;
    }
    this.restsTo = performance.now() + Math.min(restMinMs * 2 ** Math.min(this.#failures, 10), restMaxMs);
    this.#failures++;
  }

  close(): void {
    this.cluster.close();
  }
}

/** Takes endpoints in turn. */
export class Endpoints {
  readonly #all: readonly Endpoint[];
  #next: number;

  constructor(addresses: readonly string[], settings: Settings) {
    this.#all = addresses.map((address) => new Endpoint(address, settings));
    this.#next = Math.floor(Math.random() * addresses.length);
  }

  /** Returns the endpoint for the next call; one that rests only when all do, and then the one that rests shortest. */
  pick(): Endpoint {
    const turn = [...this.#all.slice(this.#next), ...this.#all.slice(0, this.#next)];
    this.#next = (this.#next + 1) % this.#all.length;
    const now = performance.now();
    return turn.find((e) => e.restsTo <= now) ?? turn.reduce((a, b) => (b.restsTo < a.restsTo ? b : a));
  }

  close(): void {
    for (const endpoint of this.#all) {
      endpoint.close();
    }
  }
}
