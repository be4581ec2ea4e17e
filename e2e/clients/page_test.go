package clients

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/tickmesh/tickmesh/e2e/harness"
)

// example is a command of a page's console blocks, a line that begins with "$ ", and the
// standard output that stands below it.
type example struct {
	command, want string
	line          int
}

// readExamples returns the examples of a page in their order.
func readExamples(t *testing.T, path string) []example {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var all []example
	inside, console := false, false
	for i, line := range strings.Split(string(text), "\n") {
		language, fence := strings.CutPrefix(line, "```")
		command, isCommand := strings.CutPrefix(line, "$ ")
		switch {
		case fence:
			inside = !inside
			console = inside && language == "console"
		case !console:
		case isCommand:
			all = append(all, example{command: command, line: i + 1})
		case len(all) == 0:
			t.Fatalf("%s:%d: an answer without a command", path, i+1)
		default:
			all[len(all)-1].want += line + "\n"
		}
	}
	if inside {
		t.Fatalf("%s: a block is not closed", path)
	}
	return all
}

// matches compares an answer, where … in want stands for any text.
func (e *example) matches(got string) bool {
	parts := strings.Split(strings.TrimSpace(e.want), "…")
	for i := range parts {
		parts[i] = regexp.QuoteMeta(parts[i])
	}
	return regexp.MustCompile("(?s)^" + strings.Join(parts, ".*") + "$").MatchString(strings.TrimSpace(got))
}

// placer puts a server's addresses in the place of the usual ones.
func placer(t *testing.T, s *server) *strings.Replacer {
	t.Helper()
	var pairs []string
	for usual, address := range map[string]string{"6182": s.addresses.HTTP, "6181": s.addresses.Put, "6180": s.addresses.Line, "2003": s.addresses.Graphite} {
		host, port, err := net.SplitHostPort(address)
		if err != nil {
			t.Fatal(err)
		}
		pairs = append(pairs, "localhost:"+usual, address, "/dev/tcp/localhost/"+usual, "/dev/tcp/"+host+"/"+port)
	}
	return strings.NewReplacer(pairs...)
}

// TestPages runs the commands of each page in their order against a server of its own.
// They are asked again until the answer is as shown, as points sent by TCP are silent on
// their way.
func TestPages(t *testing.T) {
	if _, err := harness.Install(t.Context(), "curl", "curl"); err != nil {
		t.Fatal(err)
	}
	for path, examplesMin := range map[string]int{
		"../../router/query/opentsdb/README.md": 12, "../../router/ingest/README.md": 10, "../../router/query/influxql/README.md": 12,
	} {
		t.Run(filepath.Base(filepath.Dir(path)), func(t *testing.T) {
			s := newServer(t)
			place := placer(t, s)
			examples := readExamples(t, path)
			if len(examples) < examplesMin {
				t.Errorf("only %d examples", len(examples))
			}
			for _, e := range examples {
				runExample(t, path, &e, place.Replace(e.command))
			}
		})
	}
}

func runExample(t *testing.T, path string, e *example, command string) {
	t.Helper()
	var answer, complaint bytes.Buffer
	eventually(t, func() string {
		answer.Reset()
		complaint.Reset()
		ctx, cancel := context.WithTimeout(t.Context(), waitMax/2)
		defer cancel()
		shell := exec.CommandContext(ctx, "bash", "-c", command)
		shell.Stdout, shell.Stderr = &answer, &complaint
		if err := shell.Run(); err != nil {
			return command + ": " + err.Error() + ": " + complaint.String()
		}
		if e.matches(answer.String()) {
			return ""
		}
		return fmt.Sprintf("%s:%d: %s\nanswers %s\nwant    %s", path, e.line, command, answer.String(), e.want)
	})
}
