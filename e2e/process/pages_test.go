package process

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/tickmesh/tickmesh/e2e/harness"
)

// pages are those whose examples and names are tested.
var pages = []string{"README.md", "GUIDE.md"}

// block is one fenced block of a page.
type block struct {
	page, language, text string
	line                 int // of its first line
}

func blocksOf(t *testing.T, page string) []block {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	var blocks []block
	var open *block
	for i, line := range strings.Split(string(text), "\n") {
		fence, isFence := strings.CutPrefix(line, "```")
		switch {
		case isFence && open == nil:
			open = &block{page: page, language: fence, line: i + 2}
		case isFence:
			blocks = append(blocks, *open)
			open = nil
		case open != nil:
			open.text += line + "\n"
		}
	}
	if open != nil {
		t.Fatalf("%s:%d: the block is not closed", page, open.line)
	}
	return blocks
}

// example is a command of a block, and the standard output that stands below it.
type example struct {
	command, want string
	place         string // page and line
}

// examples returns the commands of a console block: lines that begin with "$ ".
func (b *block) examples(t *testing.T) []example {
	t.Helper()
	var all []example
	for i, line := range strings.Split(strings.TrimSuffix(b.text, "\n"), "\n") {
		if command, ok := strings.CutPrefix(line, "$ "); ok {
			all = append(all, example{command: command, place: fmt.Sprintf("%s:%d", b.page, b.line+i)})
		} else if len(all) == 0 {
			t.Fatalf("%s:%d: an answer without a command", b.page, b.line+i)
		} else {
			all[len(all)-1].want += line + "\n"
		}
	}
	return all
}

// matches compares an answer, where … in want stands for any text of one line.
func (e *example) matches(got string) bool {
	parts := strings.Split(strings.TrimSpace(e.want), "…")
	for i := range parts {
		parts[i] = regexp.QuoteMeta(parts[i])
	}
	return regexp.MustCompile("^" + strings.Join(parts, ".*") + "$").MatchString(strings.TrimSpace(got))
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
				if b.language != "console" {
					continue
				}
				for _, e := range b.examples(t) {
					count++
					runExample(t, &e, func(ctx context.Context) *exec.Cmd { return exec.CommandContext(ctx, "bash", "-c", place(e.command)) })
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

// asking matches commands that change nothing, whose answer may take a while to be as shown.
var asking = regexp.MustCompile(`query|/alerts|tickmesh status`)

func runExample(t *testing.T, e *example, newShell func(context.Context) *exec.Cmd) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), waitMax)
	defer cancel()
	for asks := asking.MatchString(e.command); ; {
		shell := newShell(ctx)
		var answer, complaint bytes.Buffer
		shell.Stdout, shell.Stderr = &answer, &complaint
		if err := shell.Run(); err != nil {
			t.Fatalf("%s: %s: %v\n%s", e.place, e.command, err, complaint.String())
		}
		if e.matches(answer.String()) {
			return
		}
		if !asks || ctx.Err() != nil {
			t.Fatalf("%s: %s\nanswers %s\nwant    %s", e.place, e.command, answer.String(), e.want)
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
		if b.language != "yaml" || !strings.Contains(b.text, "data-dir:") {
			continue
		}
		found = true
		startServer(t, t.TempDir(), "--config", writeText(t, b.text))
	}
	if !found {
		t.Error("there is none")
	}
}

// brokersOf returns the file of brokers that the guide shows, with one that is not there.
func brokersOf(t *testing.T) string {
	t.Helper()
	for _, b := range blocksOf(t, "GUIDE.md") {
		if b.language == "yaml" && strings.Contains(b.text, "mqtt://localhost") {
			return strings.Replace(b.text, "mqtt://localhost", "mqtt://127.0.0.1:1", 1)
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
