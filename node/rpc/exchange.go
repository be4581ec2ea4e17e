package rpc

import (
	"google.golang.org/grpc"

	"github.com/tickmesh/tickmesh/api/handshake"
	"github.com/tickmesh/tickmesh/api/transport"
	"github.com/tickmesh/tickmesh/api/wire"
	nodev1 "github.com/tickmesh/tickmesh/proto/tickmesh/node/v1"
)

// Exchange takes envelopes of another node.
func (s *Server) Exchange(stream grpc.BidiStreamingServer[nodev1.ExchangeRequest, nodev1.ExchangeResponse]) error {
	hello, err := caller(stream.Context())
	if err != nil {
		return err
	}
	from, err := s.links.open(hello)
	if err != nil {
		s.options.Logger.Warn("a node is refused", "peer", hello.Node, "incarnation", hello.Incarnation, "error", err)
		return wire.Status(err)
	}
	defer s.links.close(from)
	if err := stream.Send(&nodev1.ExchangeResponse{}); err != nil {
		return err
	}
	var message nodev1.ExchangeRequest
	for {
		received := transport.Message{Keep: true} // the envelopes belong to the node
		if err := stream.RecvMsg(&received); err != nil {
			return err
		}
		if err := readExchange(received.Bytes, &message); err != nil {
			return wire.Status(err)
		}
		if err := s.links.heard(from); err != nil {
			return wire.Status(err)
		}
		if message.ClockMs != nil {
			s.node.HeardClock(hello.Node, message.GetClockMs())
			s.node.HeardEntries(hello.Node, handshake.Entries{
				Forgets: handshake.Knowledge(message.GetForgets()), Thins: handshake.Knowledge(message.GetThins()), Hours: handshake.Knowledge(message.GetHours()), Exemplars: handshake.Knowledge(message.GetExemplars()),
			})
		}
		if len(message.Envelopes) == 0 {
			received.Free()
			continue
		}
		err := s.node.Receive(hello.Node, message.Envelopes)
		received.Free() // the node's bound counts them now
		if err != nil {
			s.options.Logger.Warn("a node's envelope is not usable; its stream is closed", "peer", hello.Node, "error", err)
			return wire.Status(err)
		}
	}
}
