package kubernetes

import (
	"context"
	"net"
	"net/http"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
)

// bucket is the one of the S3-compatible storage.
const bucket = "backups"

// startStorage serves S3-compatible storage, in memory, where pods can reach it: at this
// process's address in the lab's network. It ends with the test.
func (s *stage) startStorage(ctx context.Context) (endpoint string, err error) {
	machines, err := s.rack.Machines(ctx)
	if err != nil {
		return "", err
	}
	// Whoever would send something to a machine would do it from that address.
	route, err := net.Dial("udp", net.JoinHostPort(machines[0].Address, "9"))
	if err != nil {
		return "", err
	}
	defer route.Close()
	address, _, err := net.SplitHostPort(route.LocalAddr().String())
	if err != nil {
		return "", err
	}
	memory := s3mem.New()
	if err := memory.CreateBucket(bucket); err != nil {
		return "", err
	}
	listener, err := net.Listen("tcp", net.JoinHostPort(address, "0"))
	if err != nil {
		return "", err
	}
	server := &http.Server{Handler: gofakes3.New(memory, gofakes3.WithLogger(gofakes3.DiscardLog())).Server()}
	go func() { _ = server.Serve(listener) }() // ends with an error always
	s.Cleanup(func() { _ = server.Close() })
	return "http://" + listener.Addr().String(), nil
}
