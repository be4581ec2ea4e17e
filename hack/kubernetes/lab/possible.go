package lab

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// neededPrograms are those of the system that the lab runs, with the Debian packages
// that they are in.
var neededPrograms = map[string]string{
	"containerd": "containerd", "ctr": "containerd", "runc": "runc", "ip": "iproute2", "iptables": "iptables",
	"nsenter": "util-linux", "conntrack": "conntrack", "busybox": "busybox-static", "mount": "mount",
}

// hiddenFolders are those of which machines see their own, so that the lab's files
// cannot be there.
var hiddenFolders = []string{"/proc", "/run", "/sys", "/var/lib", "/var/log"}

// ErrMachine marks what a machine lacks and no package can give it.
var ErrMachine = errors.New("this machine cannot carry the lab")

// probes are what the first process of new namespaces has to be able to do, each with
// what is missing where it cannot.
var probes = []struct{ script, missing string }{
	{"true", "namespaces of processes, networks, mounts, names and IPC"},
	{"mount -t tmpfs tmpfs /mnt && mkdir /mnt/a /mnt/b /mnt/c /mnt/d && mount -t overlay overlay -o lowerdir=/mnt/a,upperdir=/mnt/b,workdir=/mnt/c /mnt/d", "the file system overlay"},
	{"ip link add name rack type bridge", "network bridges"},
	{"ip link add name one type veth peer name two", "pairs of network devices (veth)"},
	{"iptables --table nat --list-rules && iptables --append FORWARD --match conntrack --ctstate ESTABLISHED --jump ACCEPT", "the kernel's packet filter with NAT and connection tracking"},
}

// Possible reports why the lab cannot run on this machine, or nil. It changes nothing.
// Errors: ErrMachine for what no package can give it.
func Possible(f Folders) error {
	if os.Geteuid() != 0 {
		return fmt.Errorf("%w: only root can make the namespaces of machines", ErrMachine)
	}
	for _, hidden := range hiddenFolders {
		if strings.HasPrefix(f.Run+"/", hidden+"/") {
			return fmt.Errorf("the checkout must not be below %s", hidden)
		}
	}
	if _, err := f.socket(); err != nil {
		return err
	}
	if err := f.cgroups().check(); err != nil {
		return fmt.Errorf("%w: %w", ErrMachine, err)
	}
	for program, pack := range neededPrograms {
		if _, err := exec.LookPath(program); err != nil {
			return fmt.Errorf("%s is missing: install the package %s (make prepare)", program, pack)
		}
	}
	if _, err := os.Stat(filepath.Join(pluginFolder, "bridge")); err != nil {
		return errors.New("the network plugins are missing: install the package containernetworking-plugins (make prepare)")
	}
	for _, probe := range probes {
		// No mount of the probe is to be seen outside.
		cmd := exec.Command("sh", "-c", "mount --make-rprivate / && "+probe.script)
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: namespaces}
		if output, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%w: it lacks %s: %w: %s", ErrMachine, probe.missing, err, lastLines(output, 1))
		}
	}
	return nil
}
