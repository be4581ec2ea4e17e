package bench

import (
	"fmt"
	"os"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// Machine describes what the figures were measured on.
type Machine struct {
	CPU         string
	Cores       int
	MemoryBytes int64
	Kernel      string
	Go          string
}

// ThisMachine reads /proc. What cannot be read is left as "unknown".
func ThisMachine() Machine {
	machine := Machine{CPU: "unknown", Kernel: "unknown", Cores: runtime.NumCPU(), Go: runtime.Version() + " " + runtime.GOARCH}
	if text, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(text)) {
			name, value, _ := strings.Cut(line, ":")
			if name = strings.TrimSpace(name); name == "model name" || name == "Model" {
				machine.CPU = strings.TrimSpace(value)
			}
		}
	}
	if text, err := os.ReadFile("/proc/meminfo"); err == nil {
		var kilobytes int64
		if _, err := fmt.Sscanf(string(text), "MemTotal: %d kB", &kilobytes); err == nil {
			machine.MemoryBytes = kilobytes * 1024
		}
	}
	var name unix.Utsname
	if err := unix.Uname(&name); err == nil {
		machine.Kernel = unix.ByteSliceToString(name.Release[:])
	}
	return machine
}
