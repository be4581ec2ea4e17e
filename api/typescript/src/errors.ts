import { BinaryReader } from "@bufbuild/protobuf/wire";
import { type ServiceError, status } from "@grpc/grpc-js";
import { ErrorKind as Code, Error as ErrorMessage } from "./generated/tickmesh/v1/error.js";

/**
 * What an error means; see proto/tickmesh/v1/error.proto. After "unavailable", "overloaded" and "deadline" nobody
 * knows whether something was written. Not of the server are "options" (of the client, that cannot work), "closed"
 * (the client or the writer), "buffer_full" (the writer's) and "partial" (an answer lacks shards, as was allowed).
 */
export type ErrorKind =
  | "unavailable"
  | "overloaded"
  | "read_only"
  | "series_limit"
  | "series_rate"
  | "batch_old"
  | "invalid"
  | "query_limit"
  | "cancelled"
  | "deadline"
  | "not_found"
  | "refused"
  | "version"
  | "internal"
  | "unauthenticated"
  | "denied"
  | "options"
  | "closed"
  | "buffer_full"
  | "partial";

/** Any error of this package. */
export class TickmeshError extends Error {
  override readonly name: string = "TickmeshError";

  /**
   * @param retryAfterMs when the server asks to try again, from now; 0: it does not say
   * @param limit of a "query_limit": so many of what may be used
   */
  constructor(
    readonly kind: ErrorKind,
    message: string,
    readonly retryAfterMs = 0,
    readonly limit?: { what: string; limit: number },
    options?: ErrorOptions,
  ) {
    super(message, options);
  }

  /** Whether the same request may succeed later. */
  get mayPass(): boolean {
    return passing.has(this.kind);
  }
}

const passing: ReadonlySet<ErrorKind> = new Set(["unavailable", "overloaded", "series_rate", "deadline"]);

/** The last thing of an answer that lacks shards; only where that was allowed. */
export class PartialError extends TickmeshError {
  override readonly name = "PartialError";

  constructor(readonly shards: readonly number[]) {
    super("partial", `the answer is not complete: ${shards.length} shards do not answer`);
  }
}

const kinds: Readonly<Partial<Record<Code, ErrorKind>>> = {
  [Code.UNAVAILABLE]: "unavailable",
  [Code.OVERLOADED]: "overloaded",
  [Code.READ_ONLY]: "read_only",
  [Code.SERIES_LIMIT]: "series_limit",
  [Code.SERIES_RATE]: "series_rate",
  [Code.BATCH_OLD]: "batch_old",
  [Code.INVALID]: "invalid",
  [Code.BATCH]: "invalid",
  [Code.KEY]: "invalid",
  [Code.QUERY_LIMIT]: "query_limit",
  [Code.CANCELLED]: "cancelled",
  [Code.DEADLINE]: "deadline",
  [Code.NOT_FOUND]: "not_found",
  [Code.REFUSED]: "refused",
  [Code.VERSION]: "version",
  [Code.UNAUTHENTICATED]: "unauthenticated",
  [Code.DENIED]: "denied",
};

/** Calls that failed in gRPC itself, or before a handler of TickMesh. */
const kindsOfStatus: Readonly<Partial<Record<status, ErrorKind>>> = {
  [status.UNAVAILABLE]: "unavailable",
  // A connection that breaks in the middle of a call ends it so, in some versions and proxies, without our details.
  // Calls that this side cancels never come here.
  [status.INTERNAL]: "unavailable",
  [status.CANCELLED]: "unavailable",
  [status.RESOURCE_EXHAUSTED]: "overloaded",
  [status.DEADLINE_EXCEEDED]: "deadline",
  [status.INVALID_ARGUMENT]: "invalid",
  [status.NOT_FOUND]: "not_found",
  [status.UNIMPLEMENTED]: "version",
  [status.FAILED_PRECONDITION]: "refused",
  [status.UNAUTHENTICATED]: "unauthenticated",
  [status.PERMISSION_DENIED]: "denied",
};

/** Returns the error of a message; unknown kinds are "internal". */
export function errorOfMessage(m: ErrorMessage | undefined): TickmeshError {
  if (m === undefined) {
    return new TickmeshError("internal", "a refusal without a reason");
  }
  return new TickmeshError(kinds[m.kind] ?? "internal", m.message, m.retryAfterMs, m.limit);
}

/** Returns what a call ended with. */
export function errorOfCall(error: unknown): TickmeshError {
  if (error instanceof TickmeshError) {
    return error;
  }
  if (!isServiceError(error)) {
    return new TickmeshError("internal", String(error), 0, undefined, { cause: error });
  }
  const [details] = error.metadata?.get("grpc-status-details-bin") ?? [];
  if (Buffer.isBuffer(details)) {
    try {
      const message = detailOf(details);
      if (message !== undefined) {
        return errorOfMessage(message);
      }
    } catch {
      // Details that are no google.rpc.Status: the code is all there is.
    }
  }
  const kind = error.details.startsWith("Response message parsing error") ? "internal" : kindsOfStatus[error.code];
  return new TickmeshError(kind ?? "internal", error.details, 0, undefined, { cause: error });
}

function isServiceError(error: unknown): error is ServiceError {
  return error instanceof Error && "code" in error && "details" in error;
}

/** Returns the tickmesh.v1.Error among the details of an encoded google.rpc.Status. Throws where the bytes are none. */
function detailOf(status: Uint8Array): ErrorMessage | undefined {
  for (const any of bytesFields(status, 3)) {
    const [type] = bytesFields(any, 1);
    const [value] = bytesFields(any, 2);
    if (type !== undefined && Buffer.from(type).toString().endsWith("/tickmesh.v1.Error")) {
      return ErrorMessage.decode(value ?? new Uint8Array());
    }
  }
  return undefined;
}

/** Returns all values of one field of bytes, strings or messages. */
function bytesFields(message: Uint8Array, number: number): Uint8Array[] {
  const reader = new BinaryReader(message);
  const found: Uint8Array[] = [];
  while (reader.pos < reader.len) {
    const [field, type] = reader.tag();
    if (field === number && type === 2) {
      found.push(reader.bytes());
    } else {
      reader.skip(type, field);
    }
  }
  return found;
}
