package harness

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// CPUSet is a sorted list of core numbers.
type CPUSet []int

// AvailableCPUs returns the cores that this process may use.
func AvailableCPUs() (CPUSet, error) {
	var kernel unix.CPUSet
	if err := unix.SchedGetaffinity(0, &kernel); err != nil {
		return nil, err
	}
	var set CPUSet
	for cpu := range len(kernel) * 64 {
		if kernel.IsSet(cpu) {
			set = append(set, cpu)
		}
	}
	return set, nil
}

// SplitCPUs divides the available cores: the server gets the first serverCount,
// the client the rest. When no core would be left for the client, both use all
// cores of the server and shared is true.
func SplitCPUs(available CPUSet, serverCount int) (server, client CPUSet, shared bool, err error) {
	if serverCount < 1 || serverCount > len(available) {
		return nil, nil, false, fmt.Errorf("%d cores for the server are wanted, this machine gives 1 to %d", serverCount, len(available))
	}
	server = slices.Clone(available[:serverCount])
	if serverCount == len(available) {
		return server, slices.Clone(server), true, nil
	}
	return server, slices.Clone(available[serverCount:]), false, nil
}

// PinSelf restricts all threads of this process, and those to come, to the set.
func PinSelf(set CPUSet) error {
	wanted := set.kernel()
	// A thread that another one starts meanwhile inherits the old set, so go
	// round until a pass finds no new thread.
	seen := map[int]bool{}
	for found := true; found; {
		found = false
		tasks, err := os.ReadDir("/proc/self/task")
		if err != nil {
			return err
		}
		for _, task := range tasks {
			id, err := strconv.Atoi(task.Name())
			if err != nil || seen[id] {
				continue
			}
			if err := unix.SchedSetaffinity(id, &wanted); err != nil && !errors.Is(err, unix.ESRCH) {
				return fmt.Errorf("pin thread %d to cores %s: %w", id, set, err)
			}
			seen[id], found = true, true
		}
	}
	runtime.GOMAXPROCS(len(set))
	return nil
}

// String returns the cores as taskset would: "0,1".
func (s CPUSet) String() string {
	parts := make([]string, len(s))
	for i, cpu := range s {
		parts[i] = strconv.Itoa(cpu)
	}
	return strings.Join(parts, ",")
}

func (s CPUSet) kernel() unix.CPUSet {
	var set unix.CPUSet
	for _, cpu := range s {
		set.Set(cpu)
	}
	return set
}
