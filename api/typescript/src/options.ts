import { BlockList, isIP } from "node:net";
import { ChannelCredentials } from "@grpc/grpc-js";
import type { Backoff } from "./backoff.js";
import { BATCH_BYTES_MAX, BATCH_POINTS_MAX } from "./batch.js";
import { TickmeshError } from "./errors.js";

/** PEM texts. Without ca, the CAs of Node.js count; cert and key, together, are shown to servers that ask. */
export interface TLS {
  readonly ca?: string | Buffer;
  readonly cert?: string | Buffer;
  readonly key?: string | Buffer;
}

/** Options of a client. Times are in milliseconds. */
export interface ClientOptions {
  /** The addresses, host:port, of the gRPC ports of routers, or of one standalone server. */
  readonly endpoints: readonly string[];
  readonly tls?: TLS;
  /** Says who calls: a token, or what returns it at each call, for one that is rotated. */
  readonly token?: string | (() => string);
  /** Or user and password do. */
  readonly user?: string;
  readonly password?: string;
  /** Lets a token or password cross the network without TLS, for everybody on the way to read. */
  readonly insecureCredentials?: boolean;
  /** Identifies the caller, for the server's logs; default "tickmesh-typescript". */
  readonly name?: string;
  /** Bounds one attempt; default 10 s. */
  readonly attemptTimeoutMs?: number;
  /** Bounds all attempts to write one batch; default 60 s. */
  readonly writeTimeoutMs?: number;
  /** Bounds all attempts of other calls; of a query, those until it begins to be answered; default 30 s. */
  readonly callTimeoutMs?: number;
  /** Waits between attempts grow from the first to the second; default 20 ms and 2 s. */
  readonly retryDelayMinMs?: number;
  readonly retryDelayMaxMs?: number;
  /**
   * Waits for every full voter of a shard, not only for a majority. A batch that one of them does not have within
   * writeTimeoutMs ends with "unavailable", though it is written and will not be undone.
   */
  readonly writeLevelAll?: boolean;
}

/** Options of a writer. */
export interface WriterOptions {
  /** A batch is sent when it has so many samples; default 10,000. */
  readonly batchPoints?: number;
  /** Or about so many bytes; default 1 MiB. */
  readonly batchBytes?: number;
  /** Or is so old; default 1 s. */
  readonly batchDelayMs?: number;
  /** Bounds the samples that the writer holds, those on their way too; default ten batches. */
  readonly bufferPoints?: number;
  /** Makes append reject with "buffer_full" instead of waiting for room. */
  readonly failWhenFull?: boolean;
}

/** The options of a client with their defaults. */
export interface Settings {
  readonly name: string;
  readonly attemptTimeoutMs: number;
  readonly writeTimeoutMs: number;
  readonly callTimeoutMs: number;
  readonly backoff: Backoff;
  readonly writeLevelAll: boolean;
  readonly credentials: ChannelCredentials;
  /** Returns the metadata that says who calls; undefined: nothing does. */
  readonly authorization: (() => string) | undefined;
}

function refuse(message: string): never {
  throw new TickmeshError("options", message);
}

/** @internal Throws "options" for what cannot work, or would be readable for everybody. */
export function settingsOf(o: ClientOptions): Settings {
  if (o.endpoints.length === 0 || o.endpoints.includes("")) {
    refuse("no endpoints, or one without an address");
  }
  const authorization = authorizationOf(o);
  if (authorization !== undefined && o.tls === undefined && !o.insecureCredentials) {
    const far = o.endpoints.find((address) => !onLoopback(address));
    if (far !== undefined) {
      refuse(
        `a token or password would cross the network to ${far} for everybody to read: use tls, or allow it with insecureCredentials`,
      );
    }
  }
  const settings = {
    name: o.name ?? "tickmesh-typescript",
    attemptTimeoutMs: o.attemptTimeoutMs ?? 10_000,
    writeTimeoutMs: o.writeTimeoutMs ?? 60_000,
    callTimeoutMs: o.callTimeoutMs ?? 30_000,
    backoff: { minMs: o.retryDelayMinMs ?? 20, maxMs: o.retryDelayMaxMs ?? 2_000 },
    writeLevelAll: o.writeLevelAll ?? false,
    credentials: credentialsOf(o.tls),
    authorization,
  };
  const { attemptTimeoutMs, writeTimeoutMs, callTimeoutMs, backoff } = settings;
  for (const ms of [attemptTimeoutMs, writeTimeoutMs, callTimeoutMs, backoff.minMs, backoff.maxMs]) {
    if (!(ms > 0)) {
      refuse(`a time of ${ms} ms`);
    }
  }
  if (backoff.minMs > backoff.maxMs) {
    refuse("retryDelayMinMs is longer than retryDelayMaxMs");
  }
  return settings;
}

function credentialsOf(tls: TLS | undefined): ChannelCredentials {
  if (tls === undefined) {
    return ChannelCredentials.createInsecure();
  }
  if ((tls.cert === undefined) !== (tls.key === undefined)) {
    refuse("of tls, cert and key go together");
  }
  const pem = (text: string | Buffer | undefined): Buffer | null => (text === undefined ? null : Buffer.from(text));
  try {
    return ChannelCredentials.createSsl(pem(tls.ca), pem(tls.key), pem(tls.cert));
  } catch (error) {
    throw new TickmeshError("options", `tls: ${error}`, 0, undefined, { cause: error });
  }
}

function authorizationOf({ token, user, password }: ClientOptions): (() => string) | undefined {
  if (token !== undefined && user !== undefined) {
    refuse("token and user: there can be one");
  }
  if (password !== undefined && user === undefined) {
    refuse("a password without a user");
  }
  if (typeof token === "function") {
    return () => `Bearer ${token().trim()}`;
  }
  if (token !== undefined) {
    if (token === "" || /\s/.test(token)) {
      refuse("the token is empty, or has spaces");
    }
    return () => `Bearer ${token}`;
  }
  if (user === undefined) {
    return undefined;
  }
  if (user.includes(":")) {
    refuse("the user's name has a colon");
  }
  const basic = `Basic ${Buffer.from(`${user}:${password ?? ""}`).toString("base64")}`;
  return () => basic;
}

const loopback = new BlockList();
loopback.addSubnet("127.0.0.0", 8);
loopback.addAddress("::1", "ipv6");

/** @internal Reports whether an address, host:port, is of this machine alone. No name but localhost is. */
export function onLoopback(address: string): boolean {
  const host = /^(?:\[(.*)\]|([^:]*))(?::\d+)?$/.exec(address);
  const name = host?.[1] ?? host?.[2] ?? address;
  const family = isIP(name);
  return name.toLowerCase() === "localhost" || (family !== 0 && loopback.check(name, family === 4 ? "ipv4" : "ipv6"));
}

/** @internal Throws "options". */
export function writerSettingsOf(o: WriterOptions): Required<WriterOptions> {
  const batchPoints = o.batchPoints ?? 10_000;
  const settings = {
    batchPoints,
    batchBytes: o.batchBytes ?? 1 << 20,
    batchDelayMs: o.batchDelayMs ?? 1_000,
    bufferPoints: o.bufferPoints ?? 10 * batchPoints,
    failWhenFull: o.failWhenFull ?? false,
  };
  for (const [name, max] of [
    ["batchPoints", BATCH_POINTS_MAX],
    ["batchBytes", BATCH_BYTES_MAX],
    ["bufferPoints", Number.MAX_SAFE_INTEGER],
  ] as const) {
    if (!Number.isInteger(settings[name]) || settings[name] < 1 || settings[name] > max) {
      refuse(`${name} is ${settings[name]}, want 1 to ${max}`);
    }
  }
  if (!(settings.batchDelayMs >= 0 && settings.batchDelayMs < 2 ** 31)) {
    refuse(`batchDelayMs is ${settings.batchDelayMs}, want 0 to ${2 ** 31 - 1}`);
  }
  return settings;
}
