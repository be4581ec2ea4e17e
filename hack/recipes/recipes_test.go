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

func TestExamples(t *testing.T) {
	page := "# Page\n```console\n$ one\n$ two\n1\n2 …\n```\n```yaml\na: b\n```\n"
	blocks, err := Blocks(page)
	if want := []Block{{"console", "$ one\n$ two\n1\n2 …\n", 3}, {"yaml", "a: b\n", 9}}; err != nil || !slices.Equal(blocks, want) {
		t.Fatalf("%v, %v", blocks, err)
	}
	list, err := blocks[0].Examples()
	if want := []Example{{"one", "", 3}, {"two", "1\n2 …\n", 4}}; err != nil || !slices.Equal(list, want) {
		t.Fatalf("%v, %v", list, err)
	}
	for answer, want := range map[string]bool{"1\n2 3": true, "1\n2 3\n4": false, "1\n2": false, "2 3": false, "11\n2 ": false} {
		if got := list[1].Matches(answer); got != want {
			t.Errorf("%q: %v", answer, got)
		}
	}
	if e := (&Example{Answer: "1\n…\n4"}); !e.Matches("1\n2\n3\n4\n") || e.Matches("1\n2\n3") {
		t.Error("any lines")
	}
	if !list[0].Matches("\n") || list[0].Matches("a") {
		t.Error("an answer that is not there")
	}
	if list, err := (&Block{Text: "1\n$ a\n"}).Examples(); !errors.Is(err, ErrPage) {
		t.Errorf("%v, %v", list, err)
	}
}

func FuzzRead(f *testing.F) {
	f.Add("```sh\n# recipe: a\none\n```\n")
	f.Add("```\n```sh\n# recipe: \n")
	f.Fuzz(func(t *testing.T, page string) {
		if blocks, err := Blocks(page); err == nil {
			for _, b := range blocks {
				if !strings.Contains(page, b.Text) {
					t.Errorf("%v is not in the page", b)
				}
				_, _ = b.Examples()
			}
		}
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
