package api

import (
	"context"
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	_ "google.golang.org/grpc/encoding/gzip" // the collector compresses what it exports
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/tickmesh/tickmesh/api/access"
	"github.com/tickmesh/tickmesh/api/budget"
	"github.com/tickmesh/tickmesh/api/series"
)

// otlpService is OpenTelemetry's MetricsService, and methodExport its method
// (opentelemetry-proto, collector/metrics/v1/metrics_service.proto).
const (
	otlpService  = "opentelemetry.proto.collector.metrics.v1.MetricsService"
	methodExport = "/" + otlpService + "/Export"
)

// OTLPMessage is an ExportMetricsServiceRequest that a caller has sent.
type OTLPMessage struct {
	Owner    budget.Owner
	Caller   access.Principal
	Database string
	Body     []byte // valid during the call
}

// rawMessage is a message that is not decoded.
type rawMessage struct {
	buffer *[]byte
}

// RegisterOTLP adds OpenTelemetry's MetricsService to a gRPC server of its own, whose messages export writes. It returns
// an ExportMetricsServiceResponse, or a status.
func (s *Server) RegisterOTLP(r grpc.ServiceRegistrar, export func(context.Context, OTLPMessage) ([]byte, error)) {
	r.RegisterService(&grpc.ServiceDesc{
		ServiceName: otlpService,
		HandlerType: (*any)(nil),
		Streams: []grpc.StreamDesc{{ // as transport.Streamed has it
			StreamName: "Export", ServerStreams: true,
			Handler: func(_ any, stream grpc.ServerStream) error { return s.export(stream, export) },
		}},
	}, nil)
}

// export takes one message of metrics.
func (s *Server) export(stream grpc.ServerStream, export func(context.Context, OTLPMessage) ([]byte, error)) error {
	ctx := stream.Context()
	database, err := s.databaseOf(ctx)
	if err != nil {
		return err
	}
	message := OTLPMessage{Caller: access.Of(ctx), Database: database}
	if err := access.May(message.Caller, database, access.Write); err != nil {
		return statusOf(err)
	}
	var raw rawMessage
	if err := stream.RecvMsg(&raw); err != nil {
		return err
	}
	defer s.buffers.Put(raw.buffer)
	if c := callOf(ctx); c != nil {
		message.Owner = c.owner
	}
	message.Body = *raw.buffer
	encoded, err := export(ctx, message)
	if err != nil {
		return err
	}
	answer := new(emptypb.Empty) // which carries the encoded fields as they are
	answer.ProtoReflect().SetUnknown(encoded)
	return stream.SendMsg(answer)
}

// databaseOf returns the database of a call whose message names none: that of the header, where only this
// counts the only one of the caller, else the default one. Errors: statuses.
func (s *Server) databaseOf(ctx context.Context) (string, error) {
	if names := metadata.ValueFromIncomingContext(ctx, access.DatabaseHeader); len(names) > 0 {
		name := access.Canonical(names[0])
		if err := series.ValidateDatabase(name); err != nil {
			return "", status.Error(codes.InvalidArgument, fmt.Sprintf("%s: %v", access.DatabaseHeader, err))
		}
		return name, nil
	}
	if !s.options.DatabaseFromHeader {
		return "", nil
	}
	if only, single := access.Only(access.Of(ctx)); single {
		return only, nil
	}
	return "", status.Error(codes.InvalidArgument, access.ErrDatabaseHeader.Error())
}

// receiveRaw reads the next message and does not decode it. What it takes is charged.
func (c *call) receiveRaw(ctx context.Context, m *rawMessage) (err error) {
	c.charged = 0
	c.receiver.Reserve = func(bytes int) error { return c.reserve(ctx, bytes) }
	if m.buffer, err = c.receiver.Receive(ctx); err != nil {
		c.release(c.takeCharge())
	}
	return err
}
