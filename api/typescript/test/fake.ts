import {
  Metadata,
  Server,
  ServerCredentials,
  type ServerUnaryCall,
  type ServiceError,
  type sendUnaryData,
  status,
  type UntypedServiceImplementation,
} from "@grpc/grpc-js";
import {
  ClusterServiceService,
  type GetServerInfoRequest,
  GetServerInfoResponse,
} from "../src/generated/tickmesh/v1/cluster.js";
import { ErrorKind, Error as ErrorMessage } from "../src/generated/tickmesh/v1/error.js";
import { type WriteRequest, type WriteResponse, WriteServiceService } from "../src/generated/tickmesh/v1/write.js";

type Call<Q, R> = [ServerUnaryCall<Q, R>, sendUnaryData<R>];

/** A server that answers as a test says, on a free port of the loopback. */
export class FakeServer {
  readonly #server = new Server();
  port = 0;

  /** Answers writes; the metadata of each call is looked at first, by check. */
  constructor(write: (...call: Call<WriteRequest, WriteResponse>) => void, check = (_: Metadata): boolean => true) {
    const denied = { code: status.UNAUTHENTICATED, details: "authentication failed" };
    this.#server.addService(ClusterServiceService as never as UntypedServiceDefinition, {
      getServerInfo: (...[call, answer]: Call<GetServerInfoRequest, GetServerInfoResponse>) =>
        check(call.metadata) ? answer(null, GetServerInfoResponse.fromPartial({ apiLevel: 1 })) : answer(denied),
    });
    this.#server.addService(
      WriteServiceService as never as UntypedServiceDefinition,
      {
        write: (...[call, answer]: Call<WriteRequest, WriteResponse>) =>
          check(call.metadata) ? write(call, answer) : answer(denied),
      } as UntypedServiceImplementation,
    );
  }

  async listen(credentials = ServerCredentials.createInsecure()): Promise<string> {
    this.port = await new Promise<number>((resolve, reject) =>
      this.#server.bindAsync("127.0.0.1:0", credentials, (error, port) => (error ? reject(error) : resolve(port))),
    );
    return `127.0.0.1:${this.port}`;
  }

  close(): void {
    this.#server.forceShutdown();
  }
}

type UntypedServiceDefinition = Parameters<Server["addService"]>[0];

/** Returns a status with an Error of ours among its details. Its code is UNKNOWN: clients go by the Error. */
export function statusOf(kind: string, retryAfterMs = 0): Partial<ServiceError> {
  const error = ErrorMessage.encode(
    ErrorMessage.fromPartial({ kind: ErrorKind[kind as keyof typeof ErrorKind], message: kind, retryAfterMs }),
  ).finish();
  const any = Buffer.concat([field(1, Buffer.from("type.googleapis.com/tickmesh.v1.Error")), field(2, error)]);
  const metadata = new Metadata();
  metadata.set("grpc-status-details-bin", field(3, any)); // of a google.rpc.Status
  return { code: status.UNKNOWN, details: kind, metadata };
}

/** Returns the encoded field of a message; it has less than 128 bytes. */
function field(number: number, bytes: Uint8Array): Buffer {
  return Buffer.concat([Buffer.of((number << 3) | 2, bytes.length), bytes]);
}
