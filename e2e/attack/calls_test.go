package attack

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	collectorpb "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	metricspb "go.opentelemetry.io/proto/otlp/metrics/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/dynamicpb"

	_ "github.com/tickmesh/tickmesh/proto/tickmesh/node/v1" // registers its messages
	tickmeshv1 "github.com/tickmesh/tickmesh/proto/tickmesh/v1"
	_ "google.golang.org/grpc/health/grpc_health_v1" // the same
	_ "google.golang.org/grpc/reflection/grpc_reflection_v1"
	_ "google.golang.org/grpc/reflection/grpc_reflection_v1alpha"
)

// methodOf finds a method by its path, "/package.Service/Method".
func methodOf(t *testing.T, path string) protoreflect.MethodDescriptor {
	t.Helper()
	service, method, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	found, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(service))
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return found.(protoreflect.ServiceDescriptor).Methods().ByName(protoreflect.Name(method))
}

// requestOf fills the message of a method so that it is about the victim's database.
func requestOf(m protoreflect.MessageDescriptor, database string, depth int) *dynamicpb.Message {
	message := dynamicpb.NewMessage(m)
	for i := range m.Fields().Len() {
		field := m.Fields().Get(i)
		switch {
		case field.Kind() == protoreflect.BytesKind && !field.IsList() && field.Name() == "database":
			message.Set(field, protoreflect.ValueOfBytes([]byte(database)))
		case field.Kind() == protoreflect.BytesKind && !field.IsList() && field.Name() == "metric":
			message.Set(field, protoreflect.ValueOfBytes([]byte("canary")))
		case field.Kind() == protoreflect.StringKind && !field.IsList() && field.Name() == "database":
			message.Set(field, protoreflect.ValueOfString(database))
		case field.Kind() == protoreflect.Int64Kind && field.Name() == "to_ms":
			message.Set(field, protoreflect.ValueOfInt64(1<<52))
		case field.Kind() == protoreflect.MessageKind && !field.IsMap() && field.ContainingOneof() == nil && depth > 0 && strings.Contains(string(field.Name()), "selector"):
			inner := requestOf(field.Message(), database, depth-1)
			if field.IsList() {
				list := message.Mutable(field).List()
				list.Append(protoreflect.ValueOfMessage(inner))
			} else {
				message.Set(field, protoreflect.ValueOfMessage(inner))
			}
		}
	}
	return message
}

// invoke calls a method and returns the bytes of up to three answers.
func invoke(ctx context.Context, conn *grpc.ClientConn, path string, method protoreflect.MethodDescriptor, request proto.Message) (received []byte, err error) {
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, path)
	if err != nil {
		return nil, err
	}
	_ = stream.SendMsg(request) // how the call ends says why
	_ = stream.CloseSend()
	for range 3 {
		answer := dynamicpb.NewMessage(method.Output())
		if err := stream.RecvMsg(answer); err != nil {
			if errors.Is(err, io.EOF) {
				return received, nil
			}
			return append(received, err.Error()...), err
		}
		encoded, _ := proto.Marshal(answer)
		received = append(received, encoded...)
	}
	return received, nil
}

// unwanted are samples that would change the victim's data.
func (g *ground) unwanted() *tickmeshv1.Batch {
	return &tickmeshv1.Batch{
		Definitions: []*tickmeshv1.SeriesHandle{{Series: &tickmeshv1.Series{Database: []byte(g.vault()), Metric: []byte("canary")}}},
		Handles:     []uint32{0}, TimeDeltasMs: []int64{time.Now().UnixMilli()}, Values: []float64{1e6},
	}
}

// unwantedMetrics are those samples as OpenTelemetry has them.
func unwantedMetrics() proto.Message {
	points := []*metricspb.NumberDataPoint{{TimeUnixNano: uint64(time.Now().UnixNano()), Value: &metricspb.NumberDataPoint_AsDouble{AsDouble: 1e6}}}
	return &collectorpb.ExportMetricsServiceRequest{ResourceMetrics: []*metricspb.ResourceMetrics{{ScopeMetrics: []*metricspb.ScopeMetrics{{
		Metrics: []*metricspb.Metric{{Name: "canary", Data: &metricspb.Metric_Gauge{Gauge: &metricspb.Gauge{DataPoints: points}}}},
	}}}}}
}

// dial connects without TLS, or with it.
func dial(t *testing.T, address string, c credentials.TransportCredentials) *grpc.ClientConn {
	t.Helper()
	if c == nil {
		c = insecure.NewCredentials()
	}
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(c))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// tryCalls calls every method of the public API as everybody.
func (g *ground) tryCalls(t *testing.T) {
	conns := map[string]*grpc.ClientConn{"grpc": dial(t, g.grpc, nil), "otlp": dial(t, g.at.OTLP, nil)}
	for _, e := range expectations(t) {
		conn := conns[e.port]
		if conn == nil {
			continue
		}
		method := methodOf(t, e.path)
		for _, user := range []string{"", userOther, userReader, userWriter} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			if user != "" {
				ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token(user))
			}
			if e.port == "otlp" {
				ctx = metadata.AppendToOutgoingContext(ctx, "x-scope-orgid", g.vault())
			}
			request := proto.Message(requestOf(method.Input(), g.vault(), 2))
			switch {
			case user == userWriter: // may change the data, but not those that are compared
			case method.Input().Name() == "WriteRequest":
				request = &tickmeshv1.WriteRequest{Batch: g.unwanted()}
			case method.Input().Name() == "WriteStreamRequest":
				request = &tickmeshv1.WriteStreamRequest{Batch: g.unwanted()}
			case method.Input().Name() == "ExportMetricsServiceRequest":
				request = unwantedMetrics()
			}
			received, err := invoke(ctx, conn, e.path, method, request)
			cancel()
			code := status.Code(err)
			if user == "" || user == userOther {
				sent := ""
				if err != nil || e.right == "write" {
					sent = g.vault() // who is refused is told what was asked for; a write is refused by its series
				}
				g.spy.see("call of "+e.path+" as "+user, sent, received)
			}
			switch {
			case code == codes.Internal || code == codes.Unknown:
				t.Errorf("%s as %q: %v", e.path, user, err)
			case user == "" && e.right != "open" && code != codes.Unauthenticated:
				t.Errorf("%s as nobody: %v", e.path, err)
			case has(user, e.right) && code == codes.Unauthenticated, has(user, e.right) && e.right != "known" && code == codes.PermissionDenied:
				t.Errorf("%s as %q is refused: %v", e.path, user, err)
			case user != "" && !has(user, e.right) && e.right != "write" && err == nil && len(received) > 0: // writes are looked for below
				t.Errorf("%s as %q is served", e.path, user)
			}
		}
	}
	g.checkVault(t)
}
