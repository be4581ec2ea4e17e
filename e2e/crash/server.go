package crash

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/tickmesh/tickmesh/e2e/harness"
)

// ErrDied is returned by Start when the server was killed by a failpoint before
// it served.
var ErrDied = errors.New("the server killed itself while it started")

// Life describes how a server is started.
type Life struct {
	Failpoints string        // as failpoint.Parse reads it; "" for none
	Retention  time.Duration // 0: for ever
}

// Server is what the tester kills. All lives share one data folder.
type Server interface {
	// Start begins a life and waits until the server serves. ErrDied means that a
	// failpoint killed it first; any other error fails the test.
	Start(ctx context.Context, life Life) error
	// StartAndKill begins a life and kills it after delay, ready or not.
	StartAndKill(life Life, delay time.Duration) error
	// Kill ends the life at once. It is no error if a failpoint has done so.
	Kill() error
	// Stop ends the life cleanly.
	Stop() error
	// Done is closed when the current life has ended.
	Done() <-chan struct{}
	// HTTPAddr and PutAddr are where the current life listens.
	HTTPAddr() string
	PutAddr() string
	// Describe helps to find out what happened: the last output, the data folder.
	Describe() string
}

// Standalone is `tickmesh standalone` as a child process.
type Standalone struct {
	options harness.StandaloneOptions
	server  *harness.Standalone
}

// NewStandalone prepares a server whose lives share options.DataDir.
func NewStandalone(options harness.StandaloneOptions) *Standalone {
	if options.LogPath == "" {
		options.LogPath = filepath.Clean(options.DataDir) + ".log"
	}
	return &Standalone{options: options}
}

// launch begins a life on new addresses: an old one may meanwhile be the local
// end of a client's connection.
func (s *Standalone) launch(life Life) error {
	addresses, err := harness.NewStandaloneAddresses()
	if err != nil {
		return err
	}
	s.server, err = harness.LaunchStandalone(s.lifeOptions(life), addresses)
	return err
}

func (s *Standalone) lifeOptions(life Life) harness.StandaloneOptions {
	options := s.options
	options.Env = append([]string{}, options.Env...)
	if life.Failpoints != "" {
		options.Env = append(options.Env, "TICKMESH_FAILPOINTS="+life.Failpoints)
	}
	options.Extra = append([]string{}, options.Extra...)
	if life.Retention > 0 {
		options.Extra = append(options.Extra, "--retention", fmt.Sprintf("%ds", int64(life.Retention.Seconds())))
	}
	return options
}

// launchesMax bounds the launches of one life when ports are taken meanwhile.
const launchesMax = 5

// Start implements Server.
func (s *Standalone) Start(ctx context.Context, life Life) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for launch := 1; ; launch++ {
		if err := s.launch(life); err != nil {
			return err
		}
		err := harness.WaitReady(ctx, s.server.Process, "http://"+s.server.HTTPAddr+"/readyz")
		switch {
		case err == nil:
			return nil
		case errors.Is(err, harness.ErrExited) && s.server.KilledBy(syscall.SIGKILL) && life.Failpoints != "":
			return ErrDied
		case errors.Is(err, harness.ErrExited) && launch < launchesMax && strings.Contains(s.server.LogTail(4096), "address already in use"):
			continue
		}
		s.server.Kill()
		return err
	}
}

// StartAndKill implements Server.
func (s *Standalone) StartAndKill(life Life, delay time.Duration) error {
	if err := s.launch(life); err != nil {
		return err
	}
	select {
	case <-s.server.Done():
	case <-time.After(delay):
	}
	return s.Kill()
}

// Kill implements Server.
func (s *Standalone) Kill() error {
	s.server.Kill()
	if !s.server.KilledBy(syscall.SIGKILL) {
		return fmt.Errorf("the server ended by itself: %w", s.server.Err())
	}
	return nil
}

// Stop implements Server.
func (s *Standalone) Stop() error { return s.server.Terminate(time.Minute) }

// Done implements Server.
func (s *Standalone) Done() <-chan struct{} { return s.server.Done() }

// HTTPAddr implements Server.
func (s *Standalone) HTTPAddr() string { return s.server.HTTPAddr }

// PutAddr implements Server.
func (s *Standalone) PutAddr() string { return s.server.PutAddr }

// Describe implements Server.
func (s *Standalone) Describe() string {
	var text strings.Builder
	fmt.Fprintf(&text, "data folder: %s\n", s.options.DataDir)
	_ = filepath.WalkDir(s.options.DataDir, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return nil //nolint:nilerr // a listing that is as good as it gets
		}
		if info, err := entry.Info(); err == nil {
			fmt.Fprintf(&text, "%12d %s\n", info.Size(), path)
		}
		return nil
	})
	if s.server != nil {
		fmt.Fprintf(&text, "last output:\n%s", s.server.LogTail(8192))
	}
	return text.String()
}

// SmallFlags make the engine checkpoint, sort pages, switch files and compact all
// the time, so that kills meet these.
func SmallFlags() []string {
	return []string{
		"--shards", "8", "--checkpoint-bytes", "256KiB", "--flush-interval", "200ms",
		"--wal-file-bytes", "128KiB", "--page-file-bytes", "64KiB",
	}
}

// Failpoints asks a tickmesh binary for the names at which it can be killed.
func Failpoints(ctx context.Context, binary string) ([]string, error) {
	output, err := exec.CommandContext(ctx, binary, "failpoints").Output()
	if err != nil {
		return nil, fmt.Errorf("%s failpoints: %w", binary, err)
	}
	names := strings.Fields(string(output))
	if len(names) == 0 {
		return nil, fmt.Errorf("%s failpoints: no names", binary)
	}
	return names, nil
}
