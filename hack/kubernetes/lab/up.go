package lab

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// upTime bounds how long a lab may take to be ready; endTime, to be gone.
const (
	upTime  = 5 * time.Minute
	endTime = time.Minute
)

// Options are what Up starts.
type Options struct {
	Machines int    // 1 to 9
	CPUs     string // processors for all of the lab, as taskset takes them; empty for all
	// Report is called after each phase.
	Report func(phase string, took time.Duration)
}

// Up ends what a lab before has left, and starts a new one of what Prepare has made. It
// returns when all machines, the name service and the provisioner of volumes are ready.
// If it fails it leaves the lab as it is, for a look at its logs; Down removes it.
func Up(ctx context.Context, f Folders, o Options) (*Rack, error) {
	if err := Possible(f); err != nil {
		return nil, err
	}
	if o.Machines < 1 || o.Machines > nodesMax {
		return nil, fmt.Errorf("%d machines: there can be 1 to %d", o.Machines, nodesMax)
	}
	ctx, cancel := context.WithTimeout(ctx, upTime)
	defer cancel()
	if err := Down(ctx, f); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(f.Run, 0o755); err != nil {
		return nil, err
	}
	if err := (settings{"/proc/sys"}).save(f.settings()); err != nil {
		return nil, err
	}
	phase := func(name string, do func() error) error {
		start := time.Now()
		if err := do(); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		o.Report(name, time.Since(start))
		return nil
	}
	if err := startRack(f, o); err != nil {
		return nil, err
	}
	r, err := Find(f)
	if err != nil {
		return nil, err
	}
	if err := phase("API server ready", func() error { return r.waitControl(ctx) }); err != nil {
		return nil, err
	}
	text, err := manifests(f)
	if err != nil {
		return nil, err
	}
	if err := phase("manifests applied", func() error { return r.Apply(ctx, text) }); err != nil {
		return nil, err
	}
	if err := phase("machines ready", func() error { return r.WaitNodes(ctx, o.Machines) }); err != nil {
		return nil, err
	}
	return r, phase("names and volumes ready", func() error {
		return errors.Join(
			r.WaitOutput(ctx, strconv.Itoa(o.Machines), "--namespace=kube-system", "get", "daemonset/coredns", "--output=jsonpath={.status.numberReady}"),
			r.WaitOutput(ctx, "1", "--namespace=local-path-storage", "get", "deployment/local-path-provisioner", "--output=jsonpath={.status.readyReplicas}"),
		)
	})
}

// startRack starts the first process and writes down who it is, before it may go on.
func startRack(f Folders, o Options) error {
	log, err := os.OpenFile(filepath.Join(f.Run, "rack.log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd, gate, err := gated(log, "rack", strconv.Itoa(o.Machines))
	if err != nil {
		return err
	}
	cmd.Path, cmd.Dir = f.program("lab"), f.Checkout
	if o.CPUs != "" {
		taskset, err := exec.LookPath("taskset")
		if err != nil {
			return errors.Join(err, gate.Close())
		}
		cmd.Args = append([]string{"taskset", "--cpu-list", o.CPUs, cmd.Path}, cmd.Args[1:]...)
		cmd.Path = taskset
	}
	if err := cmd.Start(); err != nil {
		return errors.Join(err, gate.Close())
	}
	first, err := ownerOf(cmd.Process.Pid)
	if err == nil {
		err = first.write(f.owner())
	}
	if err != nil {
		return errors.Join(err, gate.Close())
	}
	return errors.Join(openGate(gate), cmd.Process.Release())
}

// waitControl waits until the rack answers and says that the API server is ready.
func (r *Rack) waitControl(ctx context.Context) error {
	return Wait(ctx, func() (bool, error) {
		_, err := r.ask(ctx, http.MethodGet, "/ready", nil)
		if _, lost := Find(r.Folders); lost != nil {
			return true, fmt.Errorf("%w; see %s", lost, filepath.Join(r.Folders.Run, "rack.log"))
		}
		return err == nil, err
	})
}

// Down ends the lab and removes all that it has left, whether it runs, has crashed or
// was never there. It ends what others have started in the lab's network, too, but not
// the process that calls it.
func Down(ctx context.Context, f Folders) error {
	ctx, cancel := context.WithTimeout(ctx, endTime)
	defer cancel()
	o, err := readOwner(f.owner())
	if err == nil {
		err = errors.Join(o.killGuests(), o.kill(ctx))
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := errors.Join(
		f.cgroups().remove(),
		(settings{"/proc/sys"}).restore(f.settings()),
		mountsBelow(f.Run),
	); err != nil {
		return err
	}
	return os.RemoveAll(f.Run)
}

// mountsBelow fails if something is mounted below a folder: then its files are not the
// lab's to remove. All mounts of the lab end with its namespaces.
func mountsBelow(dir string) error {
	table, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	if mount, found := findMount(string(table), dir); found {
		return fmt.Errorf("%s is mounted; nothing of the lab should be", mount)
	}
	return nil
}

// findMount finds a mount below a folder in a table as proc(5) describes mountinfo: the
// fifth field is where it is mounted.
func findMount(table, dir string) (mount string, found bool) {
	for line := range strings.Lines(table) {
		if fields := strings.Fields(line); len(fields) > 4 && strings.HasPrefix(fields[4], dir+"/") {
			return fields[4], true
		}
	}
	return "", false
}
