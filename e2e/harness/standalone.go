package harness

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"time"
)

// ErrExited is returned when a server ended before it was ready.
var ErrExited = errors.New("the server ended before it was ready")

// StandaloneOptions describes how to run `tickmesh standalone`.
type StandaloneOptions struct {
	Binary  string // path, from Build
	DataDir string
	WALSync string   // always, interval or off; "" leaves the default
	Extra   []string // further flags
	Env     []string
	CPUs    CPUSet
	Group   *MemoryGroup
	// LogPath gets the server's output; "" is DataDir + ".log".
	LogPath string
	// ReadyTimeout bounds the wait for /readyz; 0 is one minute.
	ReadyTimeout time.Duration
}

// Standalone is a running `tickmesh standalone`.
type Standalone struct {
	*Process
	HTTPAddr string
	PutAddr  string
	LineAddr string
}

// StandaloneAddresses are the addresses that a server listens on. Keep them to
// restart a server where its clients look for it.
type StandaloneAddresses struct {
	HTTP, Put, Line, Graphite, OTLP string
}

// NewStandaloneAddresses finds free addresses on the loopback interface.
func NewStandaloneAddresses() (StandaloneAddresses, error) {
	free, err := FreeAddresses(5)
	if err != nil {
		return StandaloneAddresses{}, err
	}
	return StandaloneAddresses{HTTP: free[0], Put: free[1], Line: free[2], Graphite: free[3], OTLP: free[4]}, nil
}

// LaunchStandalone starts the server and does not wait until it is ready.
func LaunchStandalone(options StandaloneOptions, addresses StandaloneAddresses) (*Standalone, error) {
	if options.LogPath == "" {
		options.LogPath = filepath.Clean(options.DataDir) + ".log"
	}
	if err := os.MkdirAll(filepath.Dir(options.LogPath), 0o755); err != nil {
		return nil, err
	}
	args := []string{
		"standalone", "--data-dir", options.DataDir,
		"--http-addr", addresses.HTTP, "--put-addr", addresses.Put, "--line-addr", addresses.Line,
		"--graphite-addr", addresses.Graphite, "--otlp-grpc-addr", addresses.OTLP, "--grpc-addr", "",
	}
	if options.WALSync != "" {
		args = append(args, "--wal-sync", options.WALSync)
	}
	process, err := StartProcess(ProcessOptions{
		Path: options.Binary, Args: append(args, options.Extra...), Env: options.Env,
		CPUs: options.CPUs, Group: options.Group, LogPath: options.LogPath,
	})
	if err != nil {
		return nil, err
	}
	return &Standalone{Process: process, HTTPAddr: addresses.HTTP, PutAddr: addresses.Put, LineAddr: addresses.Line}, nil
}

// StartStandalone starts the server and waits until it is ready. On an error
// nothing is left running; ErrExited means that the server ended by itself.
func StartStandalone(ctx context.Context, options StandaloneOptions, addresses StandaloneAddresses) (*Standalone, error) {
	if options.ReadyTimeout == 0 {
		options.ReadyTimeout = time.Minute
	}
	server, err := LaunchStandalone(options, addresses)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, options.ReadyTimeout)
	defer cancel()
	if err := WaitReady(ctx, server.Process, "http://"+server.HTTPAddr+"/readyz"); err != nil {
		server.Kill()
		return nil, fmt.Errorf("%w\nlast output:\n%s", err, server.LogTail(4096))
	}
	return server, nil
}

// WaitReady asks url until it answers 200 or 204, the process ends (ErrExited) or
// the context does.
func WaitReady(ctx context.Context, process *Process, url string) error {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 5 * time.Second}
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	last := errors.New("no answer yet")
	for {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		response, err := client.Do(request)
		if err == nil {
			_, _ = io.Copy(io.Discard, io.LimitReader(response.Body, 1<<20))
			response.Body.Close()
			if response.StatusCode == http.StatusOK || response.StatusCode == http.StatusNoContent {
				return nil
			}
			err = fmt.Errorf("%s answers %s", url, response.Status)
		}
		if ctx.Err() == nil {
			last = err
		}
		select {
		case <-process.Done():
			return fmt.Errorf("%w: %v", ErrExited, process.Err())
		case <-ctx.Done():
			return fmt.Errorf("not ready: %w (last: %w)", ctx.Err(), last)
		case <-ticker.C:
		}
	}
}
