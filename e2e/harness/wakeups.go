package harness

import (
	"fmt"
	"os"
	"path/filepath"
)

// VoluntarySwitches is how often the present threads of the process went to sleep by
// themselves. In a process at rest it counts how often it was woken.
func (p *Process) VoluntarySwitches() (sum int64, err error) {
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", p.PID()))
	if err != nil {
		return 0, err
	}
	for _, file := range files {
		status, err := os.ReadFile(file)
		if os.IsNotExist(err) {
			continue // the thread has ended
		}
		if err != nil {
			return 0, err
		}
		sum += parseFields(status)["voluntary_ctxt_switches"]
	}
	return sum, nil
}
