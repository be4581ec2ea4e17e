package transport

import (
	"slices"

	"google.golang.org/grpc"
)

// Streamed returns a service whose unary methods are served as streams of one message each
// way, which are the same on the wire. gRPC reads the message of a unary method before any
// interceptor is asked; of a stream it is read by the handler, so that interceptors know who
// calls before anything of the message is kept.
func Streamed(d *grpc.ServiceDesc) *grpc.ServiceDesc {
	s := *d
	s.Methods, s.Streams = nil, slices.Clone(d.Streams)
	for _, m := range d.Methods {
		s.Streams = append(s.Streams, grpc.StreamDesc{
			StreamName:    m.MethodName,
			ServerStreams: true, // or gRPC asks no interceptor of streams
			Handler: func(service any, stream grpc.ServerStream) error {
				response, err := m.Handler(service, stream.Context(), stream.RecvMsg, nil)
				if err != nil {
					return err
				}
				return stream.SendMsg(response)
			},
		})
	}
	return &s
}
