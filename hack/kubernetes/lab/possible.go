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

// Possible says why the lab cannot run on this machine, or nil. It changes nothing.
func Possible(f Folders) error {
	if os.Geteuid() != 0 {
		return errors.New("only root can make the namespaces of machines")
	}
	for _, hidden := range hiddenFolders {
		if strings.HasPrefix(f.Run+"/", hidden+"/") {
			return fmt.Errorf("the checkout must not be below %s", hidden)
		}
	}
	if _, err := f.socket(); err != nil {
		return err
	}
	for program, pack := range neededPrograms {
		if _, err := exec.LookPath(program); err != nil {
			return fmt.Errorf("%s is missing: install the package %s (make prepare)", program, pack)
		}
	}
	if _, err := os.Stat(filepath.Join(pluginFolder, "bridge")); err != nil {
		return errors.New("the network plugins are missing: install the package containernetworking-plugins (make prepare)")
	}
	if err := f.cgroups().check(); err != nil {
		return err
	}
	probe := exec.Command("true")
	probe.SysProcAttr = &syscall.SysProcAttr{Cloneflags: namespaces}
	if err := probe.Run(); err != nil {
		return fmt.Errorf("namespaces cannot be made here: %w", err)
	}
	return nil
}
