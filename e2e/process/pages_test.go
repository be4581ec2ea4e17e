package process

import (
	"bytes"
	"context"
	"net"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/tickmesh/tickmesh/e2e/harness"
	"github.com/tickmesh/tickmesh/hack/recipes"
)

// pages are those whose examples and names are tested.
var pages = []string{"README.md", "GUIDE.md"}

func blocksOf(t *testing.T, page string) []recipes.Block {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	blocks, err := recipes.Blocks(string(text))
	if err != nil {
		t.Fatalf("%s: %v", page, err)
	}
	return blocks
}

// TestPageExamples runs the commands of each page in their order against a server of
// its own. Those that only ask are asked again until the answer is as shown, as
// points sent by TCP are silent on their way.
func TestPageExamples(t *testing.T) {
	t.Parallel()
	if _, err := harness.Install(t.Context(), "curl", "curl"); err != nil {
		t.Fatal(err)
	}
	for _, page := range pages {
		t.Run(page, func(t *testing.T) {
			t.Parallel()
			s := startServer(t, t.TempDir())
			place := placer(t, s)
			count := 0
			for _, b := range blocksOf(t, page) {
				if b.Language != "console" {
					continue
				}
				examples, err := b.Examples()
				if err != nil {
					t.Fatalf("%s: %v", page, err)
				}
				for _, e := range examples {
					count++
					runExample(t, page, &e, place(e.Command))
				}
			}
			if count < 7 {
				t.Errorf("only %d examples", count)
			}
		})
	}
}

// placer returns a function that puts a server's addresses in the place of the
// default ones.
func placer(t *testing.T, s *testServer) func(string) string {
	t.Helper()
	var pairs []string
	for port, usual := range map[string]string{"http": "6182", "put": "6181", "line": "6180"} {
		host, number, err := net.SplitHostPort(s.addr[port])
		if err != nil {
			t.Fatal(err)
		}
		pairs = append(pairs, "localhost:"+usual, s.addr[port], "/dev/tcp/localhost/"+usual, "/dev/tcp/"+host+"/"+number)
	}
	return strings.NewReplacer(pairs...).Replace
}

func runExample(t *testing.T, page string, e *recipes.Example, command string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), waitMax)
	defer cancel()
	for asks := strings.Contains(command, "query"); ; {
		shell := exec.CommandContext(ctx, "bash", "-c", command)
		var answer, complaint bytes.Buffer
		shell.Stdout, shell.Stderr = &answer, &complaint
		if err := shell.Run(); err != nil {
			t.Fatalf("%s:%d: %s: %v\n%s", page, e.Line, command, err, complaint.String())
		}
		if e.Matches(answer.String()) {
			return
		}
		if !asks || ctx.Err() != nil {
			t.Fatalf("%s:%d: %s\nanswers %s\nwant    %s", page, e.Line, command, answer.String(), e.Answer)
		}
		select {
		case <-ctx.Done():
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// TestPageSettings starts a server with the file of settings that the guide shows.
func TestPageSettings(t *testing.T) {
	found := false
	for _, b := range blocksOf(t, "GUIDE.md") {
		if b.Language != "yaml" || !strings.Contains(b.Text, "data-dir:") {
			continue
		}
		found = true
		startServer(t, t.TempDir(), "--config", writeText(t, b.Text))
	}
	if !found {
		t.Error("there is none")
	}
}

// brokersOf returns the file of brokers that the guide shows, with one that is not there.
func brokersOf(t *testing.T) string {
	t.Helper()
	for _, b := range blocksOf(t, "GUIDE.md") {
		if b.Language == "yaml" && strings.Contains(b.Text, "mqtt://localhost") {
			return strings.Replace(b.Text, "mqtt://localhost", "mqtt://127.0.0.1:1", 1)
		}
	}
	t.Fatal("there is none")
	return ""
}

// TestPageNames holds that the metrics that the pages name, and the files and headings that
// they link to, exist.
func TestPageNames(t *testing.T) {
	t.Parallel()
	var text []byte
	for _, page := range append([]string{"TUTORIAL.md"}, pages...) {
		content, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		text = append(text, content...)
	}
	_, metrics := get(t, startServer(t, t.TempDir(), "--rules-file", writeText(t, "groups: []\n"), "--mqtt-file", writeText(t, brokersOf(t))).url("/metrics"))
	_, ofCluster := get(t, startServer(t, t.TempDir(), "--nodes", "2", "--shards", "4").url("/metrics"))
	metrics += ofCluster
	for _, match := range regexp.MustCompile("`((?:tickmesh|process)_[a-z_]+)`").FindAllSubmatch(text, -1) {
		if !strings.Contains(metrics, "\n# TYPE "+string(match[1])+" ") {
			t.Errorf("there is no metric %s", match[1])
		}
	}
	for _, match := range regexp.MustCompile(`\]\(([^):#]+)(#[^)]*)?\)`).FindAllSubmatch(text, -1) {
		if _, err := os.Stat(string(match[1])); err != nil {
			t.Error(err)
		}
	}
	for _, match := range regexp.MustCompile(`\]\((?:GUIDE\.md)?#([^)]+)\)`).FindAllSubmatch(text, -1) {
		heading := regexp.MustCompile(`(?mi)^#+ ` + strings.ReplaceAll(string(match[1]), "-", "[ -]") + `$`)
		if !heading.Match([]byte(strings.ReplaceAll(string(text), ",", ""))) {
			t.Errorf("there is no heading %s", match[1])
		}
	}
}
