package target

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"time"

	"github.com/tickmesh/tickmesh/e2e/bench/load"
	"github.com/tickmesh/tickmesh/e2e/harness"
)

// askBytesMax bounds the answer to a query outside of measured runs.
const askBytesMax = 1 << 28

// Options of a start.
type Options struct {
	Dir   string // holds the data folder and the log
	CPUs  harness.CPUSet
	Group *harness.MemoryGroup
	// MemoryLimitBytes is the group's limit, for servers that have to be told.
	MemoryLimitBytes int64
	ReadyTimeout     time.Duration // 0: two minutes
}

// Server is a running target.
type Server struct {
	Target
	*harness.Process
	Addresses Addresses
	options   Options
	client    *http.Client
	// behind are further processes that the server's work costs; nil: none.
	behind func() []*harness.Process
}

// Usage reads the costs of the server, with those of all processes behind it.
func (s *Server) Usage() (harness.Usage, error) {
	sum, err := s.Process.Usage()
	if err != nil || s.behind == nil {
		return sum, err
	}
	for _, process := range s.behind() {
		usage, err := process.Usage()
		if err != nil {
			return sum, err
		}
		sum.CPU += usage.CPU
		sum.RSSBytes += usage.RSSBytes
		sum.RSSAnonBytes += usage.RSSAnonBytes
		sum.RSSFileBytes += usage.RSSFileBytes
		sum.RSSMaxBytes += usage.RSSMaxBytes
		sum.WrittenBytes += usage.WrittenBytes
		sum.WrittenCallsBytes += usage.WrittenCallsBytes
		sum.ReadBytes += usage.ReadBytes
	}
	return sum, nil
}

// Start runs a target on an empty or a used folder and waits until it serves.
func Start(ctx context.Context, target Target, options Options, first bool) (*Server, error) {
	free, err := harness.FreeAddresses(3)
	if err != nil {
		return nil, err
	}
	addresses := Addresses{HTTP: free[0], Put: free[1], Line: free[2]}
	if options.ReadyTimeout == 0 {
		options.ReadyTimeout = 2 * time.Minute
	}
	command, err := target.Command(filepath.Join(options.Dir, "data"), addresses, options.MemoryLimitBytes)
	if err != nil {
		return nil, err
	}
	command.CPUs, command.Group = options.CPUs, options.Group
	command.LogPath = filepath.Join(options.Dir, "log")
	process, err := harness.StartProcess(command)
	if err != nil {
		return nil, err
	}
	server := &Server{
		Target: target, Process: process, Addresses: addresses, options: options,
		client: &http.Client{Timeout: 5 * time.Minute},
	}
	ready, cancel := context.WithTimeout(ctx, options.ReadyTimeout)
	defer cancel()
	err = harness.WaitReady(ready, process, "http://"+addresses.HTTP+target.ReadyPath())
	if err == nil && first {
		err = target.Prepare(ctx, server)
	}
	if err != nil {
		process.Kill()
		return nil, fmt.Errorf("start %s: %w\nlast output:\n%s", target.Name(), err, process.LogTail(2048))
	}
	return server, nil
}

// DataDir is the folder whose size counts.
func (s *Server) DataDir() string { return filepath.Join(s.options.Dir, "data") }

// Get asks for a path over HTTP and returns the body of an answer 200 or 204.
func (s *Server) Get(ctx context.Context, path string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.Addresses.HTTP+path, nil)
	if err != nil {
		return nil, err
	}
	response, err := s.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, askBytesMax))
	if err != nil {
		return nil, err
	}
	if response.StatusCode/100 != 2 {
		return nil, fmt.Errorf("%s answers %s to %s: %.500s", s.Name(), response.Status, path, body)
	}
	return body, nil
}

// Ask sends a query and reads its answer.
func (s *Server) Ask(ctx context.Context, q Query) (Answer, error) {
	body, err := s.Get(ctx, s.QueryPath(q))
	if err != nil {
		return Answer{}, err
	}
	return s.Parse(q, body)
}

// QueryRequest is the bytes of q as an HTTP request.
func (s *Server) QueryRequest(q Query) []byte {
	return load.AppendGet(nil, s.Addresses.HTTP, s.QueryPath(q))
}

// AddressOf returns where the protocol is spoken.
func (s *Server) AddressOf(protocol Protocol) string {
	switch protocol {
	case HTTPLine:
		return s.Addresses.HTTP
	case TCPPut:
		return s.Addresses.Put
	default:
		return s.Addresses.Line
	}
}

// Stop ends the server by SIGTERM, within two minutes.
func (s *Server) Stop() error {
	if s.Exited() {
		return fmt.Errorf("%s has ended by itself: %v\nlast output:\n%s", s.Name(), s.Err(), s.LogTail(2048))
	}
	err := s.Terminate(2 * time.Minute)
	if errors.Is(err, harness.ErrStopTimeout) {
		return err
	}
	return nil // some servers end with a code other than 0 on SIGTERM
}
