package harness

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net/netip"
	"os"
	"strings"
)

// stateListen is how /proc/net/tcp writes that a socket listens.
const stateListen = "0A"

// ListeningPorts returns the addresses of IPv4 at which a process of this machine accepts
// connections over TCP. Sockets that take IPv6 as well are told with the address 0.0.0.0.
func ListeningPorts(pid int) ([]netip.AddrPort, error) {
	own := map[string]bool{}
	folder := fmt.Sprintf("/proc/%d/fd/", pid)
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	for _, entry := range entries {
		if target, err := os.Readlink(folder + entry.Name()); err == nil {
			own[target] = true
		}
	}
	var all []netip.AddrPort
	for _, name := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		table, err := os.ReadFile(name)
		if os.IsNotExist(err) {
			continue // a kernel without IPv6
		}
		if err != nil {
			return nil, err
		}
		for line := range bytes.Lines(table) {
			fields := strings.Fields(string(line))
			if len(fields) < 10 || fields[3] != stateListen || !own["socket:["+fields[9]+"]"] {
				continue
			}
			address, err := parseHexAddress(fields[1])
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			all = append(all, address)
		}
	}
	return all, nil
}

// parseHexAddress reads an address as the kernel writes it; see hexAddress.
func parseHexAddress(text string) (netip.AddrPort, error) {
	host, port, _ := strings.Cut(text, ":")
	words, err := hex.DecodeString(host + port)
	if err != nil || len(words) != 6 && len(words) != 18 {
		return netip.AddrPort{}, fmt.Errorf("%q is no address", text)
	}
	ip := netip.IPv4Unspecified()
	if len(words) == 6 {
		var b [4]byte
		binary.NativeEndian.PutUint32(b[:], binary.BigEndian.Uint32(words))
		ip = netip.AddrFrom4(b)
	}
	return netip.AddrPortFrom(ip, binary.BigEndian.Uint16(words[len(words)-2:])), nil
}
