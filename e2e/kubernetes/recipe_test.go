package kubernetes

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tickmesh/tickmesh/hack/kubernetes/lab"
	"github.com/tickmesh/tickmesh/hack/recipes"
)

// Words of the recipes that stand for something of the reader's, which the tests replace.
const (
	anyMachine = "pi-2"
	anyVersion = "0.2.0"
	anyStorage = "https://s3.example.com"
)

// untyped has the recipes that no scene types, with the reason.
func untyped() map[string]string {
	return map[string]string{
		"grow-volumes": "the lab's volumes are folders of a machine, as k3s' local-path has them: their class cannot grow them",
	}
}

// readRecipes returns the recipes of OPERATING.md by name.
func readRecipes(checkout string) (map[string]string, error) {
	page, err := os.ReadFile(filepath.Join(checkout, "charts", "tickmesh", "OPERATING.md"))
	if err != nil {
		return nil, err
	}
	list, err := recipes.Read(string(page))
	scripts := map[string]string{}
	for _, r := range list {
		scripts[r.Name] = r.Script
	}
	return scripts, err
}

// recipe types a recipe of OPERATING.md into a shell, where its checkout is, and fails
// when one of its commands does. Pairs are words of it and what takes their place.
func (s *stage) recipe(ctx context.Context, name string, pairs ...string) error {
	s.typed[name] = true
	script, ok := s.recipes[name]
	if !ok {
		return fmt.Errorf("there is no recipe %s", name)
	}
	for i := 0; i < len(pairs); i += 2 {
		if !strings.Contains(script, pairs[i]) {
			return fmt.Errorf("recipe %s does not speak of %s", name, pairs[i])
		}
	}
	script = strings.NewReplacer(pairs...).Replace(script)
	output, err := typing(ctx, s.rack, s.release, script).CombinedOutput()
	fmt.Printf("  recipe %s:\n%s", name, indent(string(output)))
	if err != nil {
		return fmt.Errorf("recipe %s: %w:\n%s", name, err, output)
	}
	return nil
}

// recipeSettled types a recipe and waits until the cluster is settled with so many nodes.
func (s *stage) recipeSettled(ctx context.Context, nodes int, name string, pairs ...string) error {
	if err := s.recipe(ctx, name, pairs...); err != nil {
		return err
	}
	return s.settled(ctx, nodes)
}

// typing makes the command of a shell in a release's checkout, which shows what it does
// and ends at the first failure. When ctx ends it is killed with all that it has started.
func typing(ctx context.Context, r *lab.Rack, release, script string) *exec.Cmd {
	cmd := r.Command(ctx, "sh", "-eux", "-c", script)
	cmd.Dir = release
	// The last of two settings counts.
	cmd.Env = append(cmd.Env, "PATH="+pluginFolder(r.Folders)+string(os.PathListSeparator)+r.Folders.Bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 10 * time.Second
	return cmd
}

func indent(text string) string {
	var out strings.Builder
	for line := range strings.Lines(text) {
		out.WriteString("    " + strings.TrimSuffix(line, "\n") + "\n")
	}
	return out.String()
}

// Every recipe of OPERATING.md is typed by a scene, or stands in untyped.
func TestRecipes(t *testing.T) {
	folders, err := lab.FindFolders()
	if err != nil {
		t.Fatal(err)
	}
	page, err := readRecipes(folders.Checkout)
	if err != nil {
		t.Fatal(err)
	}
	known := untyped()
	for _, scene := range scenes() {
		for _, name := range scene.recipes {
			if untyped()[name] != "" {
				t.Errorf("%s: recipe %s is said not to be typed", scene.name, name)
			}
			known[name] = scene.name
		}
	}
	for _, name := range slices.Sorted(maps.Keys(page)) {
		if known[name] == "" {
			t.Errorf("recipe %s: no scene types it", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(known)) {
		if page[name] == "" {
			t.Errorf("recipe %s: it is not in OPERATING.md", name)
		}
	}
}

// What README tells to type on Kubernetes is in the recipes, but for carrying images: the
// tests make those of this machine's architecture with the same tool, and the lab takes
// them to its machines.
func TestReadme(t *testing.T) {
	folders, err := lab.FindFolders()
	if err != nil {
		t.Fatal(err)
	}
	scripts, err := readRecipes(folders.Checkout)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(folders.Checkout, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(text), "\n## On Kubernetes\n")
	section, _, ended := strings.Cut(section, "\n## ")
	if !found || !ended {
		t.Fatal("README has no section about Kubernetes")
	}
	all := strings.Join(slices.Collect(maps.Values(scripts)), "\n") + "\n"
	installs := false
	for _, command := range typedCommands(section) {
		switch {
		case strings.HasPrefix(command, "make ") || strings.HasPrefix(command, "scp "):
		case !strings.Contains(all, command+"\n"):
			t.Errorf("README tells to type %q, which is in no recipe", command)
		}
		installs = installs || strings.HasPrefix(command, "helm install ") && strings.Contains(all, command+"\n")
	}
	if !installs {
		t.Error("README does not install as the recipe does")
	}
}

var (
	shellBlock = regexp.MustCompile("(?s)```sh\n(.*?)```")
	inlineCode = regexp.MustCompile("`((?:kubectl|helm) [^`]* ?-n metrics [^`]+)`")
	shellNote  = regexp.MustCompile(`\s+# .*`)
)

// typedCommands returns the commands of a text in Markdown: the lines of its blocks of sh,
// without what is said about them, and those within its sentences that are whole: they
// name the namespace.
func typedCommands(text string) []string {
	var all []string
	for _, block := range shellBlock.FindAllStringSubmatch(text, -1) {
		for line := range strings.Lines(block[1]) {
			all = append(all, strings.TrimSpace(shellNote.ReplaceAllString(line, "")))
		}
	}
	for _, code := range inlineCode.FindAllStringSubmatch(shellBlock.ReplaceAllString(text, ""), -1) {
		all = append(all, strings.Join(strings.Fields(code[1]), " "))
	}
	return all
}
