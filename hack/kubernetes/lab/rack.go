package lab

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// rack is the lab from the inside: its first process.
type rack struct {
	folders Folders
	log     *slog.Logger
	tree    *tree
	cgroups cgroups
	mu      struct {
		sync.Mutex
		power map[node]powered // of machines that are on
	}
}

// powered is a machine that is on: its first process.
type powered struct {
	pid   int
	ended <-chan syscall.WaitStatus
}

// RunRack is the first process of the lab: a command of the lab's program that only Up
// runs. It starts the control plane and so many machines, and then serves the control
// socket until it is killed. It returns errors only.
func RunRack(folders Folders, machines int) error {
	if err := passGate(); err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	r := &rack{folders: folders, log: log, tree: newTree(log), cgroups: folders.cgroups()}
	r.mu.power = map[node]powered{}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	if err := unix.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		return err
	}
	if err := r.connect(); err != nil {
		return err
	}
	if err := writePKI(folders.pki(""), time.Now()); err != nil {
		return err
	}
	plane := plane{folders, r.tree}
	if err := plane.start(); err != nil {
		return err
	}
	for n := node(1); int(n) <= machines; n++ {
		if err := r.powerOn(n); err != nil {
			return err
		}
	}
	return r.serve()
}

// connect makes the network of the rack: a bridge that the machines are plugged into.
func (r *rack) connect() error {
	commands := [][]string{
		{"link", "set", "lo", "up"},
		{"link", "add", bridgeName, "type", "bridge"},
		{"address", "add", rackAddress + "/24", "dev", bridgeName},
		{"link", "set", bridgeName, "up"},
		// Packets to services are sent elsewhere by the proxy's rules; but without a route
		// they would not come that far.
		{"route", "add", serviceNetwork, "dev", bridgeName},
	}
	for _, n := range allNodes() {
		commands = append(commands, []string{"route", "add", n.pods(), "via", n.address()})
	}
	for _, args := range commands {
		if _, err := r.tree.run("ip", args...); err != nil {
			return err
		}
	}
	return forwardPackets()
}

// serve answers the control socket.
func (r *rack) serve() error {
	path, err := r.folders.socket()
	if err != nil {
		return err
	}
	listener, err := net.Listen("unix", path)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: r.routes(), ReadHeaderTimeout: 10 * time.Second}
	return server.Serve(listener)
}

// powerOn starts a machine: one that was lost with what is on its disk, or a new one.
func (r *rack) powerOn(n node) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, on := r.mu.power[n]; on {
		return fmt.Errorf("%s is on", n.name())
	}
	if err := r.cgroups.create(n); err != nil {
		return err
	}
	dir := filepath.Join(r.folders.Run, n.name())
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	log, err := os.OpenFile(filepath.Join(dir, "machine.log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd, gate, err := gated(log, "machine", n.name())
	if err != nil {
		return err
	}
	ended, err := r.tree.start(cmd)
	if err != nil {
		return errors.Join(err, gate.Close())
	}
	r.mu.power[n] = powered{cmd.Process.Pid, ended}
	if err := r.plug(n, cmd.Process.Pid); err != nil {
		return errors.Join(err, gate.Close(), r.powerOffLocked(n))
	}
	return openGate(gate)
}

// plug gives the machine with the first process pid its cable. The kernel removes the
// cable of a lost machine some time after it; the new one need not wait for that.
func (r *rack) plug(n node, pid int) error {
	if _, err := net.InterfaceByName(n.link()); err == nil {
		if _, err := r.tree.run("ip", "link", "delete", n.link()); err != nil {
			return err
		}
	}
	_, err := r.tree.run("ip", "link", "add", n.link(), "type", "veth", "peer", "name", "eth0", "netns", strconv.Itoa(pid))
	if err == nil {
		_, err = r.tree.run("ip", "link", "set", n.link(), "master", bridgeName, "up")
	}
	return err
}

// powerOff is the loss of power: nothing of the machine is asked or waits, and nobody hears of
// it.
func (r *rack) powerOff(n node) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.powerOffLocked(n)
}

func (r *rack) powerOffLocked(n node) error {
	p, on := r.mu.power[n]
	if !on {
		return fmt.Errorf("%s is off", n.name())
	}
	// Without its cable first, the machine's kernel would still tell all peers that its processes
	// have ended, as no machine can that has lost its power.
	if _, err := net.InterfaceByName(n.link()); err == nil {
		if err := r.setCable(n, "down"); err != nil {
			return err
		}
	}
	if err := syscall.Kill(p.pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		return err
	}
	<-p.ended // the kernel has ended all processes of its namespace before
	delete(r.mu.power, n)
	return nil
}

// setCable cuts a machine off from all others, or mends it. Its processes go on.
func (r *rack) setCable(n node, state string) error {
	_, err := r.tree.run("ip", "link", "set", n.link(), state)
	return err
}

// refuseAPI adds or deletes, by iptables' word for it, the rule that refuses all packets to the API
// server, of its own machine's controllers, too.
func (r *rack) refuseAPI(word string) error {
	_, err := r.tree.run("iptables", "--wait", word, "INPUT", "--protocol", "tcp", "--destination-port", strconv.Itoa(apiPort),
		"--jump", "REJECT", "--reject-with", "tcp-reset")
	return err
}

// load imports an archive of images into a machine that is on.
func (r *rack) load(n node, archive string) error {
	return r.runOn(n, append([]string{"ctr"}, importArguments(archive)...)...)
}

// runOn runs a short program on a machine that is on.
func (r *rack) runOn(n node, command ...string) error {
	r.mu.Lock()
	p, on := r.mu.power[n]
	r.mu.Unlock()
	if !on {
		return fmt.Errorf("%s is off", n.name())
	}
	_, err := r.tree.run("nsenter", append([]string{"--target", strconv.Itoa(p.pid), "--mount", "--net", "--pid", "--"}, command...)...)
	return err
}

// filler is the file that takes what is free of a machine's second disk.
func (r *rack) filler(n node) string {
	return filepath.Join(r.folders.Run, n.name(), smallDisk, "filler")
}

// fill writes a file until the disk takes no more.
func (r *rack) fill(n node) error {
	return r.runOn(n, "sh", "-c", `cat /dev/zero >"$1" 2>/dev/null; test -s "$1"`, "fill", r.filler(n))
}

func (r *rack) free(n node) error { return r.runOn(n, "rm", r.filler(n)) }

// ready waits for the API server.
func (r *rack) ready(ctx context.Context) error { return plane{r.folders, r.tree}.waitReady(ctx) }
