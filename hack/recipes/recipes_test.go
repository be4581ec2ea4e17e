package recipes

import (
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

func TestRead(t *testing.T) {
	page := "# Page\n```sh\n# recipe: a\none\n\ntwo <<END\n# recipe: no\nEND\n```\ntext\n```yaml\n# recipe: no\n```\n```sh\nno\n```\n```sh\n# recipe: b-2\nthree\n```\n"
	list, err := Read(page)
	if want := []Recipe{{"a", "one\n\ntwo <<END\n# recipe: no\nEND\n"}, {"b-2", "three\n"}}; err != nil || !slices.Equal(list, want) {
		t.Errorf("%q, %v", list, err)
	}
	for _, bad := range []string{
		"```sh\n# recipe: a\none\n", "```sh\n# recipe: a\n```\n", "```sh\n# recipe: a\none\n```\n```sh\n# recipe: a\ntwo\n```\n",
	} {
		if list, err := Read(bad); !errors.Is(err, ErrPage) {
			t.Errorf("%q: %q, %v", bad, list, err)
		}
	}
}

// The shell understands the recipes for operating a cluster, and they call only programs
// that people have.
func TestOperating(t *testing.T) {
	page, err := os.ReadFile("../../charts/tickmesh/OPERATING.md")
	if err != nil {
		t.Fatal(err)
	}
	list, err := Read(string(page))
	if err != nil || len(list) < 10 {
		t.Fatalf("%d recipes, %v", len(list), err)
	}
	if blocks := strings.Count(string(page), "\n```sh\n"); blocks != len(list) {
		t.Errorf("%d blocks of sh, %d recipes", blocks, len(list))
	}
	for _, r := range list {
		cmd := exec.CommandContext(t.Context(), "sh", "-n")
		cmd.Stdin = strings.NewReader(r.Script)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", r.Name, err, out)
		}
		script, _, _ := strings.Cut(r.Script, "<<END")
		for line := range strings.Lines(script) {
			if program, _, _ := strings.Cut(line, " "); !slices.Contains([]string{"kubectl", "helm", "tickmesh"}, program) {
				t.Errorf("%s: %s", r.Name, line)
			}
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add("```sh\n# recipe: a\none\n```\n")
	f.Add("```\n```sh\n# recipe: \n")
	f.Fuzz(func(t *testing.T, page string) {
		list, err := Read(page)
		if err != nil {
			return
		}
		for _, r := range list {
			if !strings.Contains(page, "# recipe: "+r.Name+"\n"+r.Script) {
				t.Errorf("%q is not in the page", r)
			}
		}
	})
}
