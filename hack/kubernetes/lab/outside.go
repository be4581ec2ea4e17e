package lab

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sync/errgroup"
)

// ErrNotRunning reports that there is no lab. Up starts one.
var ErrNotRunning = errors.New("the lab does not run")

// A Rack is a running lab as it is seen from outside.
type Rack struct {
	Folders Folders
	pid     int
	control *http.Client
}

// Find finds the lab that runs in the folders; [ErrNotRunning] if none does.
func Find(f Folders) (*Rack, error) {
	owner, err := readOwner(f.owner())
	if errors.Is(err, fs.ErrNotExist) || err == nil && !owner.alive() {
		return nil, ErrNotRunning
	}
	if err != nil {
		return nil, err
	}
	socket, err := f.socket()
	if err != nil {
		return nil, err
	}
	return &Rack{Folders: f, pid: owner.pid, control: controlClient(socket)}, nil
}

// network is the path that stands for the rack's network.
func (r *Rack) network() string { return networkOf(r.pid) }

// Kubeconfig is the path of the administrator's configuration; its server is reached
// from the rack's network only.
func (r *Rack) Kubeconfig() string { return r.Folders.pki("admin.kubeconfig") }

// Command makes a command that runs in the rack's network, with the lab's kubectl and
// helm in its path and the administrator's configuration. The caller runs it.
func (r *Rack) Command(ctx context.Context, name string, args ...string) *exec.Cmd {
	if own := r.Folders.program(name); !strings.Contains(name, "/") && exists(own) {
		name = own
	}
	cmd := exec.CommandContext(ctx, "nsenter", append([]string{"--net=" + r.network(), "--", name}, args...)...)
	cmd.Env = append(os.Environ(), r.environment()...)
	return cmd
}

func (r *Rack) environment() []string {
	return []string{
		"KUBECONFIG=" + r.Kubeconfig(),
		"PATH=" + r.Folders.Bin + string(os.PathListSeparator) + os.Getenv("PATH"),
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// Kubectl runs kubectl as the administrator and returns what it wrote to its standard
// output. An error holds what it wrote to its standard error.
func (r *Rack) Kubectl(ctx context.Context, args ...string) (string, error) {
	return r.output(r.Command(ctx, "kubectl", args...))
}

// Apply creates or changes the objects of a manifest.
func (r *Rack) Apply(ctx context.Context, manifest string) error {
	cmd := r.Command(ctx, "kubectl", "apply", "--filename=-")
	cmd.Stdin = strings.NewReader(manifest)
	_, err := r.output(cmd)
	return err
}

func (r *Rack) output(cmd *exec.Cmd) (string, error) {
	var failure strings.Builder
	cmd.Stderr = &failure
	output, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("%s: %w: %s", strings.Join(cmd.Args[3:], " "), err, strings.TrimSpace(failure.String()))
	}
	return string(output), err
}

// Enter moves this process into the rack's network, by running its program again with
// the same arguments. It returns nil if it is there already. Nothing may have begun
// that the program would do twice.
func (r *Rack) Enter() error {
	inside, err := sameFile("/proc/self/ns/net", r.network())
	if inside || err != nil {
		return err
	}
	nsenter, err := exec.LookPath("nsenter")
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	argv := append([]string{"nsenter", "--net=" + r.network(), "--", self}, os.Args[1:]...)
	return syscall.Exec(nsenter, argv, append(os.Environ(), r.environment()...))
}

func sameFile(a, b string) (bool, error) {
	first, err := os.Stat(a)
	if err != nil {
		return false, err
	}
	second, err := os.Stat(b)
	return err == nil && os.SameFile(first, second), err
}

// Resolver asks the cluster's own name service. It is of use inside the rack's network.
func (r *Rack) Resolver() *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, net.JoinHostPort(dnsService, "53"))
	}}
}

// LoadImage imports an archive of images (an OCI layout or what docker save writes)
// into all machines: now where they are on, else when they start.
func (r *Rack) LoadImage(ctx context.Context, archive string) error {
	archive, err := filepath.Abs(archive)
	if err != nil {
		return err
	}
	kept := filepath.Join(r.Folders.loaded(), filepath.Base(archive))
	if err := replaceFile(archive, kept); err != nil {
		return err
	}
	// A machine that starts now must not believe that it has the new archive.
	marks, err := filepath.Glob(filepath.Join(r.Folders.Run, "node*", "images", filepath.Base(archive)+".done"))
	if err != nil {
		return err
	}
	for _, mark := range marks {
		if err := os.Remove(mark); err != nil {
			return err
		}
	}
	machines, err := r.Machines(ctx)
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	for _, m := range machines {
		if !m.On {
			continue
		}
		group.Go(func() error {
			if _, err := r.ask(ctx, http.MethodPost, "/machines/"+m.Name+"/load", url.Values{"archive": {kept}}); err != nil {
				return fmt.Errorf("loading %s into %s: %w", archive, m.Name, err)
			}
			return nil
		})
	}
	return group.Wait()
}

// replaceFile makes target hold the same as source; whoever reads target sees the old
// or the new, and never a part.
func replaceFile(source, target string) error {
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		return err
	}
	content, err := os.ReadFile(source)
	if err != nil {
		return err
	}
	if err := os.WriteFile(target+".new", content, 0o644); err != nil {
		return err
	}
	return os.Rename(target+".new", target)
}
