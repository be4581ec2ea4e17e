// Command skips fails when a check was skipped that allowed.yaml does not list.
//
//	go run ./hack/skips EVENTS.json…    files as `go test -json` writes them
//	go run ./hack/skips -script NAME    reports whether a script's check may be skipped
//
// A test that cannot run and says so in green is how a project comes to believe what
// nobody has checked. So each skip needs a line with its reason.
package main

import (
	"bufio"
	_ "embed"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

//go:embed allowed.yaml
var allowedFile []byte

// modulePrefix is left out of package names.
const modulePrefix = "github.com/tickmesh/tickmesh/"

func main() {
	script := flag.String("script", "", "the name of a script's check that cannot run")
	flag.Parse()
	if err := run(os.Stdout, *script, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "skips:", err)
		os.Exit(1)
	}
}

func run(out io.Writer, script string, files []string) error {
	allowed, err := parse(allowedFile)
	if err != nil {
		return err
	}
	var skipped []string
	if script != "" {
		skipped = append(skipped, "script "+script)
	}
	var total tally
	for _, name := range files {
		file, err := os.Open(name)
		if err != nil {
			return err
		}
		err = total.read(file)
		if err := errors.Join(err, file.Close()); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	err = report(out, allowed, append(skipped, total.skipped...))
	if len(files) > 0 {
		fmt.Fprintf(out, "%d passed, %d failed, %d skipped\n", total.passed, total.failed, len(total.skipped))
	}
	return err
}

// entry is a check that may be skipped.
type entry struct {
	Check  string `json:"check"`
	Reason string `json:"reason"`
	name   *regexp.Regexp
}

// parse reads the list. Every entry needs a reason.
func parse(text []byte) ([]entry, error) {
	var entries []entry
	if err := yaml.UnmarshalStrict(text, &entries); err != nil {
		return nil, fmt.Errorf("allowed.yaml: %w", err)
	}
	for i := range entries {
		e := &entries[i]
		if e.Check == "" || e.Reason == "" {
			return nil, fmt.Errorf("allowed.yaml: entry %d (%q) needs a check and a reason", i+1, e.Check)
		}
		pattern := strings.ReplaceAll(regexp.QuoteMeta(e.Check), `\*`, `.*`)
		e.name = regexp.MustCompile("^" + pattern + "$")
	}
	return entries, nil
}

// event is a line of `go test -json` (cmd/test2json).
type event struct{ Action, Package, Test string }

// tally counts the tests of a run. The skipped are named "package test", each once.
type tally struct {
	passed, failed int
	skipped        []string
}

// read adds the events of one run of go test. Packages as a whole are not counted: one
// without tests is skipped by go test itself.
func (t *tally) read(r io.Reader) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			continue // what a compiler or a panic writes between events
		}
		if e.Test == "" {
			continue
		}
		switch e.Action {
		case "pass":
			t.passed++
		case "fail":
			t.failed++
		case "skip":
			if name := strings.TrimPrefix(e.Package, modulePrefix) + " " + e.Test; !slices.Contains(t.skipped, name) {
				t.skipped = append(t.skipped, name)
			}
		}
	}
	return lines.Err()
}

// report prints what was skipped and why it may be. Errors: a skip that is not listed.
func report(out io.Writer, allowed []entry, skipped []string) error {
	var unlisted []string
	for _, name := range skipped {
		i := slices.IndexFunc(allowed, func(e entry) bool {
			return e.name.MatchString(name) || e.Check == strings.SplitN(name, " ", 2)[0]
		})
		if i < 0 {
			unlisted = append(unlisted, name)
			continue
		}
		fmt.Fprintf(out, "skipped, as listed: %s: %s\n", name, allowed[i].Reason)
	}
	if len(unlisted) > 0 {
		return fmt.Errorf("not listed in hack/skips/allowed.yaml, so these must run here: %s", strings.Join(unlisted, "; "))
	}
	return nil
}
