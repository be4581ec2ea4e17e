package api_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/tickmesh/tickmesh/api/auth"
	"github.com/tickmesh/tickmesh/api/client"
	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/secret"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/api/tenancy"
	"github.com/tickmesh/tickmesh/api/transport"
	"github.com/tickmesh/tickmesh/api/wire"
	tickmeshv1 "github.com/tickmesh/tickmesh/proto/tickmesh/v1"
	"github.com/tickmesh/tickmesh/router/api"
	"github.com/tickmesh/tickmesh/router/api/apitest"
	"github.com/tickmesh/tickmesh/router/tenant"
)

// guarded returns options with users whose tokens are their names.
func guarded(t *testing.T, storage *apitest.Storage) (api.Options, *atomic.Pointer[auth.Rules]) {
	t.Helper()
	rules := &atomic.Pointer[auth.Rules]{}
	rules.Store(users(t, map[string]string{"reader": "a: read", "writer": "a: write, default: write", "admin": "'*': admin", "owner": "a: admin"}))
	o := apitest.Options(storage)
	o.Authenticator = auth.New(auth.Options{Current: rules.Load})
	return o, rules
}

func users(t *testing.T, rights map[string]string) *auth.Rules {
	t.Helper()
	text := "users:\n"
	for name, right := range rights {
		text += fmt.Sprintf("  - {name: %s, tokens: [%s], rights: {%s}}\n", name, secret.DigestOf(name).String(), right)
	}
	r, err := auth.Parse("auth.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func as(ctx context.Context, user string) context.Context {
	return metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+user)
}

// call makes a call of any method with an empty message, and returns how it ended.
func call(ctx context.Context, conn *grpc.ClientConn, method protoreflect.MethodDescriptor) error {
	name := fmt.Sprintf("/%s/%s", method.Parent().FullName(), method.Name())
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: method.IsStreamingClient(), ServerStreams: method.IsStreamingServer()}, name)
	if err != nil {
		return err
	}
	if err := stream.SendMsg(dynamicpb.NewMessage(method.Input())); err != nil && !errors.Is(err, io.EOF) { // how it ended is told by RecvMsg
		return err
	}
	if err := stream.CloseSend(); err != nil {
		return err
	}
	return stream.RecvMsg(dynamicpb.NewMessage(method.Output()))
}

// Nobody who is not known gets any answer but that, from any method.
func TestEveryMethodWantsToKnowWhoCalls(t *testing.T) {
	o, _ := guarded(t, apitest.NewStorage(4))
	conn, _ := dial(t, o)
	methods := 0
	for _, file := range []protoreflect.FileDescriptor{tickmeshv1.File_tickmesh_v1_write_proto, tickmeshv1.File_tickmesh_v1_query_proto, tickmeshv1.File_tickmesh_v1_cluster_proto} {
		for i := range file.Services().Len() {
			service := file.Services().Get(i)
			for j := range service.Methods().Len() {
				method := service.Methods().Get(j)
				methods++
				for what, ctx := range map[string]context.Context{
					"nothing": background(t), "a wrong token": as(background(t), "eve"),
					"an empty one": metadata.AppendToOutgoingContext(background(t), "authorization", ""),
					"two of them":  as(as(background(t), "admin"), "admin"),
				} {
					if err := call(ctx, conn, method); status.Code(err) != codes.Unauthenticated || !errors.Is(wire.FromStatus(err), wire.ErrUnauthenticated) {
						t.Errorf("%s with %s: %v", method.FullName(), what, err)
					}
				}
				if err := call(as(background(t), "admin"), conn, method); status.Code(err) == codes.Unauthenticated || status.Code(err) == codes.PermissionDenied {
					t.Errorf("%s by an admin: %v", method.FullName(), err)
				}
				ofTheWhole := slices.Contains([]string{"Drain", "Undrain", "Recover", "GetStatus", "Forecast", "CreateToken", "ListTokens", "RevokeToken"}, string(method.Name()))
				if err := call(as(background(t), "owner"), conn, method); (status.Code(err) == codes.PermissionDenied) != ofTheWhole &&
					method.Parent().Name() == "ClusterService" {
					t.Errorf("%s by who has rights on one database only: %v", method.FullName(), err)
				}
			}
		}
	}
	if methods < 12 {
		t.Errorf("only %d methods", methods)
	}
}

func clientAs(t *testing.T, address, token string) *client.Client {
	t.Helper()
	c, err := client.New(client.Options{Endpoints: []string{address}, Token: token})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func TestRights(t *testing.T) {
	storage := apitest.NewStorage(4)
	o, rules := guarded(t, storage)
	_, server := dial(t, o)
	admin, reader, writer, owner := clientAs(t, server.Address, "admin"), clientAs(t, server.Address, "reader"), clientAs(t, server.Address, "writer"), clientAs(t, server.Address, "owner")
	in := func(database string) *client.Series {
		t.Helper()
		s, err := client.NewSeriesIn(database, "m")
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	write := func(c *client.Client, database string) error {
		return c.Write(background(t), client.Sample{Series: in(database), TimeMs: 1, Value: 1})
	}
	for _, database := range []string{"a", "b", ""} {
		if err := write(admin, database); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		what     string
		client   *client.Client
		database string
		want     error
	}{
		{"reader", reader, "a", client.ErrDenied}, {"writer", writer, "a", nil}, {"writer", writer, "b", client.ErrDenied},
		{"writer", writer, "default", nil}, {"writer", writer, "", nil}, {"owner", owner, "", client.ErrDenied}, {"admin", admin, "a/b\xff", nil},
	} {
		if err := write(c.client, c.database); !errors.Is(err, c.want) {
			t.Errorf("%s writes to %q: %v, want %v", c.what, c.database, err, c.want)
		}
	}
	names := func(c *client.Client) string {
		t.Helper()
		all, err := c.Databases(background(t), client.Names{})
		if err != nil {
			t.Fatal(err)
		}
		return strings.Join(all, ",")
	}
	if got := names(admin) + " " + names(reader) + " " + names(writer); got != ",a,a/b\xff,b a ,a" {
		t.Errorf("databases: %q", got)
	}
	read := func(c *client.Client, database string) error {
		_, err := c.Metrics(background(t), database, client.Names{})
		return err
	}
	if err := errors.Join(read(reader, "a"), read(writer, "default"), read(admin, "b")); err != nil {
		t.Error(err)
	}
	if err := read(reader, "b"); !errors.Is(err, client.ErrDenied) {
		t.Errorf("%v", err)
	}
	remove := func(c *client.Client, database string) error {
		_, err := c.Delete(background(t), scan.Selector{Database: database, Metric: "m"}, 0, 10)
		return err
	}
	if err := remove(writer, "a"); !errors.Is(err, client.ErrDenied) {
		t.Errorf("%v", err)
	}
	if err := remove(owner, "a"); err != nil {
		t.Error(err)
	}
	rules.Store(users(t, map[string]string{"writer": "a: read"}))
	if err := write(writer, "a"); !errors.Is(err, client.ErrDenied) {
		t.Errorf("a right that was taken back: %v", err)
	}
	if err := read(reader, "a"); !errors.Is(err, client.ErrUnauthenticated) {
		t.Errorf("a user that is gone: %v", err)
	}
}

// Who is not known may watch the health, and takes no place of those who are known by that.
func TestWatchersTakeNoPlaces(t *testing.T) {
	o, _ := guarded(t, apitest.NewStorage(1))
	o.Limits.CallsMax = 1
	a, err := api.New(o)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(a.ServerOptions(nil)...)
	healthpb.RegisterHealthServer(server, health.NewServer())
	a.Register(server)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	conn, err := grpc.NewClient(listener.Addr().String(), transport.DialOptions(nil)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	for range 3 {
		watch, err := healthpb.NewHealthClient(conn).Watch(background(t), &healthpb.HealthCheckRequest{})
		if err == nil {
			_, err = watch.Recv()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, err := tickmeshv1.NewClusterServiceClient(conn).GetServerInfo(as(background(t), "reader"), &tickmeshv1.GetServerInfoRequest{ApiLevel: api.Level}); err != nil {
		t.Error(err)
	}
}

// A stream goes on with the rights of the day.
func TestRightsOfAnOpenStream(t *testing.T) {
	storage := apitest.NewStorage(4)
	o, rules := guarded(t, storage)
	conn, _ := dial(t, o)
	stream, err := tickmeshv1.NewWriteServiceClient(conn).WriteStream(as(background(t), "writer"))
	if err != nil {
		t.Fatal(err)
	}
	send := func(counter uint64, definitions ...*tickmeshv1.SeriesHandle) *tickmeshv1.WriteStreamResponse {
		t.Helper()
		err := stream.Send(&tickmeshv1.WriteStreamRequest{Sequence: counter, Batch: &tickmeshv1.Batch{
			BatchId: &tickmeshv1.BatchId{Session: 1, Counter: counter}, Definitions: definitions, Handles: []uint32{1, 2}, TimeDeltasMs: []int64{1, 0}, Values: []float64{1, 2}}})
		if err != nil {
			t.Fatal(err)
		}
		answer, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		return answer
	}
	in := func(handle uint32, database string) *tickmeshv1.SeriesHandle {
		return &tickmeshv1.SeriesHandle{Handle: handle, Series: &tickmeshv1.Series{Database: []byte(database), Metric: []byte("m")}}
	}
	refused := func(a *tickmeshv1.WriteStreamResponse) (handles []uint32) {
		for _, r := range a.GetResult().GetRefused() {
			if r.GetError().GetKind() != tickmeshv1.ErrorKind_ERROR_KIND_DENIED {
				t.Errorf("%v", r)
			}
			handles = append(handles, r.GetHandle())
		}
		return handles
	}
	if got := refused(send(1, in(1, "a"), in(2, "b"))); !slices.Equal(got, []uint32{2}) {
		t.Errorf("%v", got)
	}
	rules.Store(users(t, map[string]string{"writer": "b: write"}))
	if got := refused(send(2)); !slices.Equal(got, []uint32{1}) {
		t.Errorf("%v", got)
	}
	rules.Store(users(t, map[string]string{"other": "b: write"}))
	if got := refused(send(3)); !slices.Equal(got, []uint32{1, 2}) {
		t.Errorf("%v", got)
	}
}

// What a database may have a second holds for all of a batch, and what is not written counts not.
func TestRates(t *testing.T) {
	storage := apitest.NewStorage(4)
	o := apitest.Options(storage)
	o.Meter = tenant.NewMeter(tenant.MeterOptions{})
	rules, err := tenancy.Parse("f", []byte("databases: {slow: {samples-per-second-max: 1}}"))
	if err != nil {
		t.Fatal(err)
	}
	o.Meter.SetRules(rules)
	conn, _ := dial(t, o)
	service := tickmeshv1.NewWriteServiceClient(conn)
	counter := uint64(0)
	write := func(databases ...string) error {
		counter++
		b := &tickmeshv1.Batch{BatchId: &tickmeshv1.BatchId{Session: 1, Counter: counter}}
		for i, database := range databases {
			b.Definitions = append(b.Definitions, &tickmeshv1.SeriesHandle{Handle: uint32(i), Series: &tickmeshv1.Series{Database: []byte(database), Metric: []byte("m")}})
			for range 1000 {
				b.Handles, b.TimeDeltasMs, b.Values = append(b.GetHandles(), uint32(i)), append(b.GetTimeDeltasMs(), 1), append(b.GetValues(), 1)
			}
		}
		_, err := service.Write(background(t), &tickmeshv1.WriteRequest{Batch: b})
		return err
	}
	if err := write("slow", "other"); err != nil { // 1000 s ahead
		t.Fatal(err)
	}
	err = write("slow", "other")
	var e *wire.Error
	if status.Code(err) != codes.ResourceExhausted || !errors.As(wire.FromStatus(err), &e) || !errors.Is(e, series.ErrOverloaded) || e.RetryAfterMs < 900_000 {
		t.Fatalf("%v", err)
	}
	if err := write("other", "third"); err != nil {
		t.Error(err)
	}
	if n := storage.Points(); n != 4000 {
		t.Errorf("%d points", n)
	}
}

// Databases that a caller may not read are left out of lists, which say so; metadata that
// names a database takes the rights on others away; where only it counts, nothing else does.
func TestDatabasesOfCallers(t *testing.T) {
	storage := apitest.NewStorage(4)
	o, _ := guarded(t, storage)
	list := func(o api.Options, user, header string) (names string, leftOut bool, err error) {
		t.Helper()
		conn, _ := dial(t, o)
		ctx := as(background(t), user)
		if header != "" {
			ctx = metadata.AppendToOutgoingContext(ctx, "x-scope-orgid", header)
		}
		stream, err := tickmeshv1.NewQueryServiceClient(conn).ListNames(ctx, &tickmeshv1.ListNamesRequest{Kind: tickmeshv1.NameKind_NAME_KIND_DATABASE})
		for err == nil {
			var m *tickmeshv1.ListNamesResponse
			if m, err = stream.Recv(); err == nil {
				leftOut = leftOut || m.GetLeftOut()
				for _, name := range m.GetNames() {
					names += "," + string(name)
				}
			}
		}
		if errors.Is(err, io.EOF) {
			err = nil
		}
		return names, leftOut, err
	}
	conn, _ := dial(t, o)
	for _, database := range []string{"a", "b"} {
		_, err := tickmeshv1.NewWriteServiceClient(conn).Write(as(background(t), "admin"), &tickmeshv1.WriteRequest{Batch: &tickmeshv1.Batch{
			Definitions: []*tickmeshv1.SeriesHandle{{Handle: 1, Series: &tickmeshv1.Series{Database: []byte(database), Metric: []byte("m")}}},
			Handles:     []uint32{1}, TimeDeltasMs: []int64{1}, Values: []float64{1},
		}})
		if err != nil {
			t.Fatal(err)
		}
	}
	fromHeader := o
	fromHeader.DatabaseFromHeader = true
	for _, c := range []struct {
		o            api.Options
		user, header string
		names        string
		leftOut      bool
	}{
		{o, "admin", "", ",a,b", false}, {o, "reader", "", ",a", true}, {o, "admin", "b", ",b", true}, {o, "reader", "b", "", true},
		{fromHeader, "admin", "", ",a,b", false}, {fromHeader, "admin", "a", ",a", true}, {fromHeader, "reader", "", ",a", true}, {fromHeader, "writer", "", "", true},
	} {
		c.o.Registerer = nil
		if names, leftOut, err := list(c.o, c.user, c.header); names != c.names || leftOut != c.leftOut || err != nil {
			t.Errorf("%s with %q, from the header only %v: %q %v %v", c.user, c.header, c.o.DatabaseFromHeader, names, leftOut, err)
		}
	}
}
