package attack

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/tickmesh/tickmesh/e2e/harness"
)

// addressFlag is a flag of the help that says where to listen.
var addressFlag = regexp.MustCompile(`(?m)^ +--([a-z-]+-addr) host:port`)

// checkListeners fails where a process was not told to listen on all that its command can listen on, so that a port
// that is off by default is not forgotten by the attacks.
func checkListeners(t *testing.T, p *harness.Process) {
	t.Helper()
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.PID()))
	if err != nil {
		t.Fatal(err)
	}
	arguments := strings.Split(string(bytes.TrimSuffix(line, []byte{0})), "\x00")
	help, err := exec.CommandContext(t.Context(), program(t), arguments[1], "--help").Output()
	if err != nil {
		t.Fatal(err)
	}
	flags := addressFlag.FindAllSubmatch(help, -1)
	if len(flags) == 0 {
		t.Fatalf("the help of %s names no address", arguments[1])
	}
	said := map[string]string{} // the last value counts
	for at, argument := range arguments[:len(arguments)-1] {
		said[argument] = arguments[at+1]
	}
	for _, flag := range flags {
		if name := "--" + string(flag[1]); said[name] == "" {
			t.Errorf("%s can listen at %s, and is not attacked there", arguments[1], name)
		}
	}
}
