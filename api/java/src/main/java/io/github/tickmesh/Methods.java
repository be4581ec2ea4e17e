package io.github.tickmesh;

import com.google.protobuf.Message;
import io.grpc.MethodDescriptor;
import io.grpc.MethodDescriptor.MethodType;
import io.grpc.protobuf.ProtoUtils;
import tickmesh.v1.Cluster.GetServerInfoRequest;
import tickmesh.v1.Cluster.GetServerInfoResponse;
import tickmesh.v1.Query.DeleteRequest;
import tickmesh.v1.Query.DeleteResponse;
import tickmesh.v1.Query.LastRequest;
import tickmesh.v1.Query.LastResponse;
import tickmesh.v1.Query.ListNamesRequest;
import tickmesh.v1.Query.ListNamesResponse;
import tickmesh.v1.Query.ListSeriesRequest;
import tickmesh.v1.Query.ListSeriesResponse;
import tickmesh.v1.Query.ScanRequest;
import tickmesh.v1.Query.ScanResponse;
import tickmesh.v1.Write.WriteRequest;
import tickmesh.v1.Write.WriteResponse;

/**
 * The methods that this client calls. They are described here, and not by gRPC's generator, as that
 * is a program for few platforms, and stubs would add nothing.
 */
final class Methods {
  static final MethodDescriptor<GetServerInfoRequest, GetServerInfoResponse> GET_SERVER_INFO =
      method(
          MethodType.UNARY,
          "ClusterService/GetServerInfo",
          GetServerInfoRequest.getDefaultInstance(),
          GetServerInfoResponse.getDefaultInstance());
  static final MethodDescriptor<WriteRequest, WriteResponse> WRITE =
      method(
          MethodType.UNARY,
          "WriteService/Write",
          WriteRequest.getDefaultInstance(),
          WriteResponse.getDefaultInstance());
  static final MethodDescriptor<ScanRequest, ScanResponse> SCAN =
      method(
          MethodType.SERVER_STREAMING,
          "QueryService/Scan",
          ScanRequest.getDefaultInstance(),
          ScanResponse.getDefaultInstance());
  static final MethodDescriptor<LastRequest, LastResponse> LAST =
      method(
          MethodType.SERVER_STREAMING,
          "QueryService/Last",
          LastRequest.getDefaultInstance(),
          LastResponse.getDefaultInstance());
  static final MethodDescriptor<ListSeriesRequest, ListSeriesResponse> LIST_SERIES =
      method(
          MethodType.SERVER_STREAMING,
          "QueryService/ListSeries",
          ListSeriesRequest.getDefaultInstance(),
          ListSeriesResponse.getDefaultInstance());
  static final MethodDescriptor<ListNamesRequest, ListNamesResponse> LIST_NAMES =
      method(
          MethodType.SERVER_STREAMING,
          "QueryService/ListNames",
          ListNamesRequest.getDefaultInstance(),
          ListNamesResponse.getDefaultInstance());
  static final MethodDescriptor<DeleteRequest, DeleteResponse> DELETE =
      method(
          MethodType.UNARY,
          "QueryService/Delete",
          DeleteRequest.getDefaultInstance(),
          DeleteResponse.getDefaultInstance());

  private Methods() {}

  private static <Q extends Message, R extends Message> MethodDescriptor<Q, R> method(
      MethodType type, String name, Q request, R response) {
    return MethodDescriptor.<Q, R>newBuilder()
        .setType(type)
        .setFullMethodName("tickmesh.v1." + name)
        .setRequestMarshaller(ProtoUtils.marshaller(request))
        .setResponseMarshaller(ProtoUtils.marshaller(response))
        .build();
  }
}
