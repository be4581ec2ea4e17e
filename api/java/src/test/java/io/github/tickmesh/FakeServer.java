package io.github.tickmesh;

import com.google.protobuf.Any;
import io.grpc.Metadata;
import io.grpc.Server;
import io.grpc.ServerServiceDefinition;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.grpc.netty.shaded.io.grpc.netty.NettyServerBuilder;
import io.grpc.stub.ServerCalls;
import io.grpc.stub.ServerCalls.UnaryMethod;
import java.io.IOException;
import java.net.InetSocketAddress;
import tickmesh.v1.Cluster.GetServerInfoResponse;
import tickmesh.v1.ErrorOuterClass;
import tickmesh.v1.Write.WriteRequest;
import tickmesh.v1.Write.WriteResponse;

/** A server that answers writes as a test says, on a free port of the loopback. */
final class FakeServer implements AutoCloseable {
  private final String host;
  private final Server server;

  FakeServer(UnaryMethod<WriteRequest, WriteResponse> write) throws IOException {
    this("127.0.0.1", write);
  }

  FakeServer(String host, UnaryMethod<WriteRequest, WriteResponse> write) throws IOException {
    this.host = host;
    server =
        NettyServerBuilder.forAddress(new InetSocketAddress(host, 0))
            .addService(
                ServerServiceDefinition.builder("tickmesh.v1.ClusterService")
                    .addMethod(
                        Methods.GET_SERVER_INFO,
                        ServerCalls.asyncUnaryCall(
                            (request, answer) -> {
                              answer.onNext(
                                  GetServerInfoResponse.newBuilder().setApiLevel(1).build());
                              answer.onCompleted();
                            }))
                    .build())
            .addService(
                ServerServiceDefinition.builder("tickmesh.v1.WriteService")
                    .addMethod(Methods.WRITE, ServerCalls.asyncUnaryCall(write))
                    .build())
            .build()
            .start();
  }

  String address() {
    return host + ":" + server.getPort();
  }

  /**
   * Returns a status with an Error of ours among its details. Its code is UNKNOWN: clients go by
   * the Error.
   */
  static StatusRuntimeException statusOf(ErrorOuterClass.Error error) {
    var status =
        com.google.rpc.Status.newBuilder()
            .setCode(Status.Code.UNKNOWN.value())
            .addDetails(Any.pack(error))
            .build();
    Metadata trailers = new Metadata();
    trailers.put(
        Metadata.Key.of("grpc-status-details-bin", Metadata.BINARY_BYTE_MARSHALLER),
        status.toByteArray());
    return Status.UNKNOWN.withDescription(error.getMessage()).asRuntimeException(trailers);
  }

  @Override
  public void close() {
    server.shutdownNow();
  }
}
