package rpc

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/tickmesh/tickmesh/api/handshake"
	"github.com/tickmesh/tickmesh/api/transport"
	"github.com/tickmesh/tickmesh/api/wire"
	nodev1 "github.com/tickmesh/tickmesh/proto/tickmesh/node/v1"
)

func TestHandshakeRefusals(t *testing.T) {
	node := &fakeNode{hello: nodeHello("a")}
	node.admit = func(h handshake.Hello) error {
		if h.Incarnation == identity("d") {
			return fmt.Errorf("%w: %s", wire.ErrRetired, h.Incarnation)
		}
		return nil
	}
	address, _ := serve(t, node, Options{})
	good := nodeHello("b")
	for _, test := range []struct {
		name   string
		change func(*handshake.Hello)
		want   error
		text   string
	}{
		{"good", func(*handshake.Hello) {}, nil, ""},
		{"router", func(h *handshake.Hello) { h.Node, h.Incarnation = "", "" }, nil, ""},
		{"before the first map", func(h *handshake.Hello) { h.ClusterID = "" }, nil, ""},
		{"wrong cluster", func(h *handshake.Hello) { h.Cluster = "work" }, wire.ErrWrongCluster, `"home"`},
		{"cluster made anew", func(h *handshake.Hello) { h.ClusterID = identity("e") }, wire.ErrWrongCluster, identity("e")},
		{"too old", func(h *handshake.Hello) { h.Protocol, h.ProtocolMin = handshake.ProtocolMin+7, handshake.Protocol+7 }, wire.ErrVersion, "speaks 9"},
		{"another node meant", func(h *handshake.Hello) { h.ToNode = "x" }, wire.ErrWrongNode, "node x"},
		{"another folder meant", func(h *handshake.Hello) { h.ToNode, h.ToIncarnation = "a", identity("f") }, wire.ErrWrongNode, identity("f")},
		{"retired", func(h *handshake.Hello) { h.Incarnation = identity("d") }, wire.ErrRetired, identity("d")},
		{"twin", func(h *handshake.Hello) { h.Node = "a" }, wire.ErrTwin, "a"},
	} {
		t.Run(test.name, func(t *testing.T) {
			hello := good
			test.change(&hello)
			client := dial(t, address, hello)
			response, err := client.Handshake(t.Context(), &nodev1.HandshakeRequest{})
			if test.want == nil {
				if err != nil || response.GetHello().GetNode() != "a" {
					t.Fatalf("got %v, %v", response, err)
				}
				return
			}
			if !errors.Is(err, test.want) || !strings.Contains(err.Error(), test.text) {
				t.Fatalf("got %v, expected %v with %q", err, test.want, test.text)
			}
			stream, err := client.Exchange(t.Context())
			if err == nil {
				_, err = stream.Recv()
			}
			if !errors.Is(err, test.want) {
				t.Fatalf("Exchange gave %v, expected %v", err, test.want)
			}
		})
	}
}

// TestHandshakeGarbage sends what no Hello is.
func TestHandshakeGarbage(t *testing.T) {
	address, _ := serve(t, &fakeNode{hello: nodeHello("a")}, Options{})
	conn, err := grpc.NewClient("passthrough:///"+address, transport.DialOptions(nil)...)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	client := nodev1.NewNodeServiceClient(conn)
	encoded, err := nodeHello("b").Encode()
	if err != nil {
		t.Fatal(err)
	}
	for name, headers := range map[string][]string{
		"none":      {},
		"two":       {encoded, encoded},
		"no proto":  {"\xff\xff\xff"},
		"empty":     {""},
		"too large": {strings.Repeat("x", 5000)},
	} {
		ctx := t.Context()
		for _, h := range headers {
			ctx = metadata.AppendToOutgoingContext(ctx, handshake.Header, h)
		}
		_, err := client.Handshake(ctx, &nodev1.HandshakeRequest{})
		if status.Code(err) != codes.InvalidArgument || !errors.Is(wire.FromStatus(err), wire.ErrInvalid) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}
