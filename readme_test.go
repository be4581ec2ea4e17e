package main

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

	"github.com/spf13/pflag"

	"github.com/tickmesh/tickmesh/e2e/harness"
)

// block is one fenced block of README.md.
type block struct {
	language, text string
	line           int // of its first line
}

func readmeBlocks(t *testing.T) []block {
	t.Helper()
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	var blocks []block
	var open *block
	for i, line := range strings.Split(string(text), "\n") {
		fence, isFence := strings.CutPrefix(line, "```")
		switch {
		case isFence && open == nil:
			open = &block{language: fence, line: i + 2}
		case isFence:
			blocks = append(blocks, *open)
			open = nil
		case open != nil:
			open.text += line + "\n"
		}
	}
	if open != nil {
		t.Fatalf("README.md:%d: the block is not closed", open.line)
	}
	return blocks
}

// example is a command of a block, and the standard output that stands below it.
type example struct {
	command, want string
	line          int
}

// examples gives the commands of a console block: lines that begin with "$ ".
func (b *block) examples(t *testing.T) []example {
	t.Helper()
	var all []example
	for i, line := range strings.Split(strings.TrimSuffix(b.text, "\n"), "\n") {
		if command, ok := strings.CutPrefix(line, "$ "); ok {
			all = append(all, example{command: command, line: b.line + i})
		} else if len(all) == 0 {
			t.Fatalf("README.md:%d: an answer without a command", b.line+i)
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

// TestReadmeExamples runs the commands of README.md in their order against one
// server. Those that only ask are asked again until the answer is as shown, as
// points sent by TCP are silent on their way.
func TestReadmeExamples(t *testing.T) {
	t.Parallel()
	if _, err := harness.Install(t.Context(), "curl", "curl"); err != nil {
		t.Fatal(err)
	}
	s := startServer(t, t.TempDir())
	place := placer(t, s)
	count := 0
	for _, b := range readmeBlocks(t) {
		if b.language != "console" {
			continue
		}
		for _, e := range b.examples(t) {
			count++
			runExample(t, &e, place(e.command))
		}
	}
	if count < 10 {
		t.Errorf("only %d examples", count)
	}
}

// placer gives a function that puts a server's addresses in the place of the
// default ones.
func placer(t *testing.T, s *server) func(string) string {
	t.Helper()
	var pairs []string
	_, flags := newFlags()
	for _, port := range []string{"http", "put", "line"} {
		host, number, err := net.SplitHostPort(s.addr[port])
		if err != nil {
			t.Fatal(err)
		}
		usual := strings.TrimPrefix(flags.Lookup(port+"-addr").DefValue, ":")
		pairs = append(pairs, "localhost:"+usual, s.addr[port], "/dev/tcp/localhost/"+usual, "/dev/tcp/"+host+"/"+number)
	}
	return strings.NewReplacer(pairs...).Replace
}

func runExample(t *testing.T, e *example, command string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for asks := strings.Contains(command, "/api/query"); ; {
		shell := exec.CommandContext(ctx, "bash", "-c", command)
		var answer, complaint bytes.Buffer
		shell.Stdout, shell.Stderr = &answer, &complaint
		if err := shell.Run(); err != nil {
			t.Fatalf("README.md:%d: %s: %v\n%s", e.line, command, err, complaint.String())
		}
		if e.matches(answer.String()) {
			return
		}
		if !asks || ctx.Err() != nil {
			t.Fatalf("README.md:%d: %s\nanswers %s\nwant    %s", e.line, command, answer.String(), e.want)
		}
		select {
		case <-ctx.Done():
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// TestReadmeSettings loads the file of settings that README.md shows.
func TestReadmeSettings(t *testing.T) {
	found := false
	for _, b := range readmeBlocks(t) {
		if b.language != "yaml" || !strings.Contains(b.text, "data-dir:") {
			continue
		}
		found = true
		s, flags := newFlags()
		if err := loadSettingsFile(flags, writeFile(t, b.text)); err != nil {
			t.Errorf("README.md:%d: %v", b.line, err)
		}
		if err := s.validate(); err != nil {
			t.Errorf("README.md:%d: %v", b.line, err)
		}
	}
	if !found {
		t.Error("there is none")
	}
}

// TestReadmeNames holds that the metrics and flags that README.md names, and the
// files that it links to, are there.
func TestReadmeNames(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, metrics := get(t, startServer(t, t.TempDir()).url("/metrics"))
	_, ofCluster := get(t, startServer(t, t.TempDir(), "--nodes", "2", "--shards", "4").url("/metrics"))
	metrics += ofCluster
	for _, match := range regexp.MustCompile("`((?:tickmesh|process)_[a-z_]+)`").FindAllSubmatch(text, -1) {
		if !strings.Contains(metrics, "\n# TYPE "+string(match[1])+" ") {
			t.Errorf("there is no metric %s", match[1])
		}
	}
	known := map[string]bool{flagHelp: true}
	for commands := newRootCommand().Commands(); len(commands) > 0; commands = commands[1:] {
		commands[0].Flags().VisitAll(func(f *pflag.Flag) { known[f.Name] = true })
		commands = append(commands, commands[0].Commands()...)
	}
	own := regexp.MustCompile("(?:helm|kubectl) [^\n`]*").ReplaceAll(text, nil) // other programs have flags, too
	for _, match := range regexp.MustCompile(`--([a-z][a-z-]+)`).FindAllSubmatch(own, -1) {
		if name := string(match[1]); !known[name] {
			t.Errorf("there is no flag --%s", name)
		}
	}
	for _, match := range regexp.MustCompile(`\]\(([^):#]+)\)`).FindAllSubmatch(text, -1) {
		if _, err := os.Stat(string(match[1])); err != nil {
			t.Error(err)
		}
	}
}
