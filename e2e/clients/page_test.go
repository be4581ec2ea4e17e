package clients

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tickmesh/tickmesh/e2e/harness"
	"github.com/tickmesh/tickmesh/hack/recipes"
)

// readExamples returns the examples of a page in their order.
func readExamples(t *testing.T, path string) []recipes.Example {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	blocks, err := recipes.Blocks(string(text))
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	var all []recipes.Example
	for _, b := range blocks {
		if b.Language != "console" {
			continue
		}
		examples, err := b.Examples()
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		all = append(all, examples...)
	}
	return all
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
		"../../router/query/opentsdb/README.md": 9, "../../router/ingest/README.md": 10, "../../router/query/influxql/README.md": 12,
	} {
		t.Run(filepath.Base(filepath.Dir(path)), func(t *testing.T) {
			s := newServer(t)
			place := placer(t, s)
			examples := readExamples(t, path)
			if len(examples) < examplesMin {
				t.Errorf("only %d examples", len(examples))
			}
			for _, e := range examples {
				runExample(t, path, &e, place.Replace(e.Command))
			}
		})
	}
}

func runExample(t *testing.T, path string, e *recipes.Example, command string) {
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
		if e.Matches(answer.String()) {
			return ""
		}
		return fmt.Sprintf("%s:%d: %s\nanswers %s\nwant    %s", path, e.Line, command, answer.String(), e.Answer)
	})
}
