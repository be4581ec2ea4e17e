package harness

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net/netip"
	"os"
	"strings"
)

// connectionOwner returns which process has opened a TCP connection of IPv4 from one
// address to the other on this machine. It asks the kernel for the socket's inode,
// and looks for it among the open files of the processes.
func connectionOwner(from, to netip.AddrPort, pids []int) (pid int, ok bool) {
	table, err := os.ReadFile("/proc/net/tcp")
	if err != nil {
		return 0, false
	}
	inode, ok := socketInode(table, from, to)
	if !ok {
		return 0, false
	}
	wanted := "socket:[" + inode + "]"
	for _, pid := range pids {
		folder := fmt.Sprintf("/proc/%d/fd/", pid)
		entries, err := os.ReadDir(folder)
		if err != nil {
			continue // it has ended
		}
		for _, entry := range entries {
			if target, err := os.Readlink(folder + entry.Name()); err == nil && target == wanted {
				return pid, true
			}
		}
	}
	return 0, false
}

// socketInode finds the socket with the local address from and the remote address
// to in a table of the form of /proc/net/tcp.
func socketInode(table []byte, from, to netip.AddrPort) (inode string, ok bool) {
	wanted := hexAddress(from) + " " + hexAddress(to) + " "
	for line := range bytes.Lines(table) {
		if !bytes.Contains(line, []byte(wanted)) {
			continue
		}
		// sl local remote state queues timer retransmits uid timeout inode
		fields := strings.Fields(string(line))
		if len(fields) > 9 && fields[9] != "0" {
			return fields[9], true
		}
	}
	return "", false
}

// hexAddress writes an address as the kernel does: four bytes in the machine's
// order, and the port.
func hexAddress(a netip.AddrPort) string {
	ip := a.Addr().Unmap().As4()
	return fmt.Sprintf("%08X:%04X", binary.NativeEndian.Uint32(ip[:]), a.Port())
}
