package handshake

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	"github.com/tickmesh/tickmesh/api/wire"
	nodev1 "github.com/tickmesh/tickmesh/proto/tickmesh/node/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func identity(digit string) string { return strings.Repeat(digit, 32) }

func TestCheck(t *testing.T) {
	self := New("home", identity("c"), "a", identity("a"), 1)
	other := New("home", identity("c"), "b", identity("b"), 2)
	for _, test := range []struct {
		name   string
		change func(self, other *Hello)
		want   error
	}{
		{"as they are", func(_, _ *Hello) {}, nil},
		{"other is newer and still understands", func(_, o *Hello) { o.Protocol = 9 }, nil},
		{"other is newer", func(_, o *Hello) { o.Protocol, o.ProtocolMin = 9, 3 }, wire.ErrVersion},
		{"other is older", func(s, _ *Hello) { s.Protocol, s.ProtocolMin = 9, 3 }, wire.ErrVersion},
		{"self is newer and still understands", func(s, _ *Hello) { s.Protocol = 9 }, nil},
		{"name", func(_, o *Hello) { o.Cluster = "work" }, wire.ErrWrongCluster},
		{"identity", func(_, o *Hello) { o.ClusterID = identity("d") }, wire.ErrWrongCluster},
		{"self has no identity yet", func(s, _ *Hello) { s.ClusterID = "" }, nil},
		{"node", func(_, o *Hello) { *o = o.To("x", "") }, wire.ErrWrongNode},
		{"folder", func(_, o *Hello) { *o = o.To("a", identity("e")) }, wire.ErrWrongNode},
		{"meant", func(_, o *Hello) { *o = o.To("a", identity("a")) }, nil},
		{"itself", func(s, o *Hello) { *o = *s }, nil},
		{"twin", func(s, o *Hello) { *o = *s; o.Process = 3 }, wire.ErrTwin},
		{"forgotten series are not understood", func(s, _ *Hello) { s.Forgets = Kept }, wire.ErrVersion},
		{"forgotten series are understood", func(s, o *Hello) { s.Forgets, o.Forgets = Kept, Understood }, nil},
		{"thinned hours are not understood", func(s, _ *Hello) { s.Thins = Kept }, wire.ErrVersion},
		{"thinned hours of the other are not understood", func(s, o *Hello) { s.Forgets, o.Forgets, o.Thins = Kept, Kept, Kept }, wire.ErrVersion},
		{"thinned hours are understood", func(s, o *Hello) { s.Thins, o.Thins = Kept, Understood }, nil},
		{"exemplars are not understood", func(s, _ *Hello) { s.Exemplars = Understood }, nil},
		{"thinned hours may come", func(s, _ *Hello) { s.Thins = Understood }, nil},
		{"hours are not understood", func(s, _ *Hello) { s.Hours = Kept }, wire.ErrVersion},
		{"hours are understood", func(s, o *Hello) { s.Hours, o.Hours = Kept, Understood }, nil},
		{"a router has no entries", func(s, o *Hello) { s.Thins, s.Forgets, o.Node, o.Incarnation = Kept, Kept, "", "" }, nil},
		{"two routers", func(s, o *Hello) { s.Node, s.Incarnation, o.Node, o.Incarnation = "", "", "", "" }, nil},
	} {
		s, o := self, other
		test.change(&s, &o)
		if err := Check(s, o); !errors.Is(err, test.want) || (err == nil) != (test.want == nil) {
			t.Errorf("%s: got %v", test.name, err)
		}
	}
}

// careless is a node that lets everybody in and says it is someone.
type careless struct {
	nodev1.UnimplementedNodeServiceServer
	answer metadata.MD
}

func (c *careless) Handshake(ctx context.Context, _ *nodev1.HandshakeRequest) (*nodev1.HandshakeResponse, error) {
	return &nodev1.HandshakeResponse{}, grpc.SetHeader(ctx, c.answer)
}

func (c *careless) Scan(_ *nodev1.ScanRequest, stream grpc.ServerStreamingServer[nodev1.ScanResponse]) error {
	if err := stream.SetHeader(c.answer); err != nil {
		return err
	}
	for {
		if err := stream.Send(&nodev1.ScanResponse{}); err != nil { // until the client goes away
			return err
		}
	}
}

// TestClientChecksWhoAnswers: not only the node looks at whom the caller means.
func TestClientChecksWhoAnswers(t *testing.T) {
	self := New("home", "", "a", identity("a"), 1)
	node := New("home", identity("c"), "b", identity("b"), 2)
	for _, test := range []struct {
		name    string
		answers []Hello
		want    error
	}{
		{"the one meant", []Hello{node}, nil},
		{"nobody", nil, wire.ErrWrongNode},
		{"two", []Hello{node, node}, wire.ErrWrongNode},
		{"another node", []Hello{New("home", "", "x", identity("b"), 2)}, wire.ErrWrongNode},
		{"another folder", []Hello{New("home", "", "b", identity("e"), 2)}, wire.ErrWrongNode},
		{"a router", []Hello{New("home", "", "", "", 2)}, wire.ErrWrongNode},
		{"another cluster", []Hello{New("work", "", "b", identity("b"), 2)}, wire.ErrWrongCluster},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := &careless{answer: metadata.MD{}}
			for _, h := range test.answers {
				encoded, err := h.Encode()
				if err != nil {
					t.Fatal(err)
				}
				c.answer.Append(Header, encoded)
			}
			client := clientOf(t, c, self)
			if _, err := client.Handshake(t.Context(), &nodev1.HandshakeRequest{}); !errors.Is(err, test.want) {
				t.Errorf("a call gave %v", err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			stream, err := client.Scan(ctx, &nodev1.ScanRequest{})
			if err == nil {
				_, err = stream.Recv()
			}
			if !errors.Is(err, test.want) || (err == nil) != (test.want == nil) {
				t.Errorf("a stream gave %v", err)
			}
			if test.want == nil {
				return
			}
			if _, err := stream.Recv(); err == nil || errors.Is(err, io.EOF) {
				t.Errorf("the stream went on with %v", err)
			}
		})
	}
}

func clientOf(t *testing.T, c *careless, self Hello) nodev1.NodeServiceClient {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	nodev1.RegisterNodeServiceServer(server, c)
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(listener)
	}()
	options := append(DialOptions(func() Hello { return self }, "b", identity("b")), grpc.WithTransportCredentials(insecure.NewCredentials()))
	conn, err := grpc.NewClient("passthrough:///"+listener.Addr().String(), options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = conn.Close()
		server.Stop()
		<-served
	})
	return nodev1.NewNodeServiceClient(conn)
}

// FuzzDecode: what is taken for a Hello comes back as the same Hello.
func FuzzDecode(f *testing.F) {
	knows := New("home", identity("c"), "a", identity("a"), 1)
	knows.Entries = Entries{Forgets: Understood, Thins: Kept, Hours: Kept, Exemplars: Understood}
	for _, h := range []Hello{
		New("home", identity("c"), "a", identity("a"), 1),
		knows,
		New("home", "", "", "", 0).To("b", identity("b")),
	} {
		encoded, err := h.Encode()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(encoded)
	}
	f.Add("")
	f.Add("\x08\x01")
	f.Fuzz(func(t *testing.T, header string) {
		h, err := Decode(header)
		if err != nil {
			if !errors.Is(err, wire.ErrInvalid) {
				t.Fatalf("an error without a kind: %v", err)
			}
			return
		}
		encoded, err := h.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if again, err := Decode(encoded); err != nil || again != h {
			t.Fatalf("%+v came back as %+v, %v", h, again, err)
		}
		if err := CheckAnswer(h, h); err != nil && h.ToNode == "" && h.ToIncarnation == "" {
			t.Fatalf("it does not go with itself: %v", err)
		}
	})
}
