package lab

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// runtimeStartTime bounds the wait for containerd's socket.
const runtimeStartTime = 60 * time.Second

// smallDisk is the folder of a second disk of each machine, which tests fill. It is memory, and so takes none of the disk of the
// machine that carries the lab; it loses what is on it with the power.
const (
	smallDisk     = "small"
	smallDiskSize = "512m"
)

// machine is a node from the inside: its first process.
type machine struct {
	folders Folders
	node    node
	tree    *tree
}

// RunMachine is the first process of a node, in namespaces of its own: a command of the
// lab's program that only the rack runs. It waits at the gate until its cable is there,
// and returns errors only.
func RunMachine(folders Folders, name string) error {
	n, err := parseNode(name)
	if err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, nil)).With("machine", n.name())
	m := machine{folders, n, newTree(log)}
	if err := passGate(); err != nil {
		return err
	}
	for _, step := range []struct {
		name string
		do   func() error
	}{
		{"mounts", m.mount}, {"network", m.connect}, {"configuration", m.configure},
		{"container runtime", m.startRuntime}, {"images", m.importImages}, {"kubelet", m.startKubelet},
	} {
		start := time.Now()
		if err := step.do(); err != nil {
			return fmt.Errorf("%s: %s: %w", n.name(), step.name, err)
		}
		log.Info("done", "step", step.name, "took", time.Since(start).Round(time.Millisecond))
	}
	select {}
}

// dir returns a folder of the node's disk, which outlives its power.
func (m machine) dir(elements ...string) string {
	return filepath.Join(append([]string{m.folders.Run, m.node.name()}, elements...)...)
}

// mount gives the node its own /proc, an empty /run, and empty /var/lib and /var/log
// with its own disk in the places whose names are fixed in kubelet and the network
// plugins. Everything else of the machine's files is seen as it is.
func (m machine) mount() error {
	if err := unix.Sethostname([]byte(m.node.name())); err != nil {
		return err
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	if err := unix.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		return err
	}
	for _, target := range []string{"/run", "/var/lib", "/var/log"} {
		if err := unix.Mount("tmpfs", target, "tmpfs", 0, "mode=0755"); err != nil {
			return fmt.Errorf("%s: %w", target, err)
		}
	}
	for _, target := range []string{"/run/lock", "/run/netns"} {
		if err := os.MkdirAll(target, 0o755); err != nil {
			return err
		}
	}
	for target, source := range map[string]string{
		"/var/lib/kubelet": m.dir("kubelet"), "/var/lib/cni": m.dir("cni"), "/var/log": m.dir("log"),
	} {
		for _, dir := range []string{source, target} {
			if err := os.MkdirAll(dir, 0o755); err != nil {
				return err
			}
		}
		if err := unix.Mount(source, target, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("%s: %w", target, err)
		}
	}
	for _, dir := range []string{"etc/cni", "containerd", "images", "volumes", smallDisk} {
		if err := os.MkdirAll(m.dir(dir), 0o755); err != nil {
			return err
		}
	}
	if err := unix.Mount("tmpfs", m.dir(smallDisk), "tmpfs", 0, "mode=0777,size="+smallDiskSize); err != nil {
		return fmt.Errorf("%s: %w", smallDisk, err)
	}
	return unix.Mount("", "/", "", unix.MS_REC|unix.MS_SHARED, "")
}

func (m machine) connect() error {
	commands := [][]string{
		{"link", "set", "lo", "up"},
		{"address", "add", m.node.address() + "/24", "dev", "eth0"},
		{"link", "set", "eth0", "up"},
		{"route", "add", "default", "via", rackAddress},
	}
	for _, other := range allNodes() {
		if other != m.node {
			commands = append(commands, []string{"route", "add", other.pods(), "via", other.address()})
		}
	}
	for _, args := range commands {
		if _, err := m.tree.run("ip", args...); err != nil {
			return err
		}
	}
	return forwardPackets()
}

// forwardPackets lets this network namespace pass packets on, and lets the rules for
// services see packets that a bridge passes, where the kernel asks for it.
func forwardPackets() error {
	if err := os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0o644); err != nil {
		return err
	}
	const bridged = "/proc/sys/net/bridge/bridge-nf-call-iptables"
	if _, err := os.Stat(bridged); err != nil {
		return nil //nolint:nilerr // the kernel has no such module loaded
	}
	return os.WriteFile(bridged, []byte("1"), 0o644)
}

func (m machine) configure() error {
	for name, content := range map[string][]byte{
		"cni/10-lab.conflist": m.networkPlugins(),
		"containerd.toml":     m.runtimeConfiguration(),
		"kubelet.yaml":        m.kubeletConfiguration(),
		"proxy.yaml":          proxyConfiguration(m.folders, m.node, m.node.address()),
		"resolv.conf":         []byte("nameserver 127.0.0.1\n"), // of no use: there is no world to ask
	} {
		if err := os.WriteFile(m.dir("etc", name), content, 0o644); err != nil {
			return err
		}
	}
	return nil
}

func (m machine) startRuntime() error {
	if err := m.tree.keep("containerd", m.dir("log", "containerd.log"), "containerd", "--config", m.dir("etc", "containerd.toml")); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), runtimeStartTime)
	defer cancel()
	return Wait(ctx, func() (bool, error) {
		_, err := m.tree.run("ctr", "version")
		return err == nil, err
	})
}

// importImages imports those of the lab's images that the node does not have yet.
func (m machine) importImages() error {
	for _, dir := range []string{m.folders.Images, m.folders.loaded()} {
		archives, err := filepath.Glob(filepath.Join(dir, "*.tar"))
		if err != nil {
			return err
		}
		for _, archive := range archives {
			done := m.dir("images", filepath.Base(archive)+".done")
			if _, err := os.Stat(done); err == nil {
				continue
			}
			if _, err := m.tree.run("ctr", importArguments(archive)...); err != nil {
				return err
			}
			if err := os.WriteFile(done, nil, 0o644); err != nil {
				return err
			}
		}
	}
	return nil
}

// importArguments are ctr's, to import an archive for kubelet.
func importArguments(archive string) []string {
	return []string{"--namespace", "k8s.io", "images", "import", archive}
}

func (m machine) startKubelet() error {
	kubelet := []string{
		m.folders.program("kubelet"),
		"--config=" + m.dir("etc", "kubelet.yaml"), "--kubeconfig=" + m.folders.pki(m.node.name()+".kubeconfig"),
		"--hostname-override=" + m.node.name(), "--node-ip=" + m.node.address(),
		"--node-labels=topology.kubernetes.io/zone=" + m.node.zone(),
	}
	if err := m.tree.keep("kubelet", m.dir("log", "kubelet.log"), kubelet...); err != nil {
		return err
	}
	return m.tree.keep("kube-proxy", m.dir("log", "kube-proxy.log"), m.folders.program("kube-proxy"), "--config="+m.dir("etc", "proxy.yaml"))
}
