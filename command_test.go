package main

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/pflag"
	"sigs.k8s.io/yaml"

	"github.com/tickmesh/tickmesh/api/settings"
)

var rewrite = flag.Bool("rewrite", false, "write the files in testdata anew")

// columnsMax is the width of help texts.
const columnsMax = 100

// golden compares with a file in testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *rewrite {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs; -rewrite writes it anew:\n%s", path, got)
	}
	for line := range strings.Lines(got) {
		if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > columnsMax {
			t.Errorf("%d columns: %s", n, line)
		}
	}
}

func TestHelp(t *testing.T) {
	for file, arguments := range map[string][]string{
		"help.txt":            {"--help"},
		"help_standalone.txt": {"standalone", "--help"}, "help_node.txt": {"node", "--help"}, "help_router.txt": {"router", "--help"},
		"help_rescue_map.txt": {"rescue-map", "--help"}, "help_backup.txt": {"backup", "--help"}, "help_restore.txt": {"restore", "--help"},
		"help_backup_list.txt": {"backup", "list", "--help"}, "help_backup_verify.txt": {"backup", "verify", "--help"}, "help_backup_prune.txt": {"backup", "prune", "--help"},
		"help_query.txt": {"query", "--help"}, "help_import.txt": {"import", "--help"}, "help_export.txt": {"export", "--help"},
		"help_status.txt": {"status", "--help"}, "help_nodes.txt": {"nodes", "--help"}, "help_shards.txt": {"shards", "--help"},
		"help_drain.txt": {"drain", "--help"}, "help_undrain.txt": {"undrain", "--help"}, "help_recover.txt": {"recover", "--help"},
		"help_tokens.txt": {"tokens", "--help"}, "help_tokens_create.txt": {"tokens", "create", "--help"}, "help_tokens_list.txt": {"tokens", "list", "--help"},
		"help_tokens_revoke.txt": {"tokens", "revoke", "--help"},
		"help_check.txt":         {"check", "--help"}, "help_auth.txt": {"auth", "--help"}, "help_certs.txt": {"certs", "--help"},
	} {
		var out, log bytes.Buffer
		root := newRootCommand()
		root.SetArgs(arguments)
		root.SetOut(&out)
		root.SetErr(&log)
		if err := root.ExecuteContext(t.Context()); err != nil || log.Len() > 0 {
			t.Errorf("%v: %v %s", arguments, err, log.String())
		}
		golden(t, file, out.String())
	}
}

// TestWrongArguments: a command that gets other arguments than it takes says which it takes, and where its help is.
func TestWrongArguments(t *testing.T) {
	for _, arguments := range []string{"query", "drain", "backup verify", "tokens revoke a b", "status x"} {
		root := newRootCommand()
		root.SetArgs(strings.Fields(arguments))
		err := root.ExecuteContext(t.Context())
		if err == nil || !strings.Contains(err.Error(), "tickmesh "+strings.Fields(arguments)[0]) || !strings.Contains(err.Error(), "--help`") {
			t.Errorf("%s: %v", arguments, err)
		}
	}
}

// TestPageFlags holds that the flags that the pages name exist.
func TestPageFlags(t *testing.T) {
	known := map[string]bool{"help": true}
	for commands := newRootCommand().Commands(); len(commands) > 0; commands = commands[1:] {
		commands[0].Flags().VisitAll(func(f *pflag.Flag) { known[f.Name] = true })
		commands = append(commands, commands[0].Commands()...)
	}
	for _, page := range []string{"README.md", "GUIDE.md", "TUTORIAL.md"} {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		own := regexp.MustCompile("(?:helm|kubectl|curl) [^\n`]*").ReplaceAll(text, nil) // other programs have flags, too
		for _, match := range regexp.MustCompile(`--([a-z][a-z-]+)`).FindAllSubmatch(own, -1) {
			if name := string(match[1]); !known[name] {
				t.Errorf("%s: there is no flag --%s", page, name)
			}
		}
	}
}

// TestPageCommands holds that the commands that pages show can be typed: they are there, with their flags and arguments.
func TestPageCommands(t *testing.T) {
	migration, err := filepath.Glob("api/cli/migrate/*.md")
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	for _, page := range append(migration, "README.md", "GUIDE.md", "TUTORIAL.md", "router/rules/README.md", "hack/examples/alertmanager/README.md") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			line, _, _ = strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "$ "), " #")
			arguments, is := strings.CutPrefix(strings.TrimPrefix(line, "./bin/"), "tickmesh ")
			if !is {
				continue
			}
			count++
			root := newRootCommand()
			cmd, rest, err := root.Find(strings.Fields(strings.NewReplacer("'", "", " &", "").Replace(arguments)))
			if err != nil || !cmd.Runnable() {
				t.Errorf("%s: %s: %v", page, line, err)
				continue
			}
			if err := cmd.ParseFlags(rest); err != nil {
				t.Errorf("%s: %s: %v", page, line, err)
			} else if err := cmd.ValidateArgs(cmd.Flags().Args()); err != nil {
				t.Errorf("%s: %s: %v", page, line, err)
			}
		}
	}
	if count < 25 {
		t.Errorf("only %d commands", count)
	}
}

// TestJobsOfTheOperator: the program takes the command lines of the operator's Jobs.
func TestJobsOfTheOperator(t *testing.T) {
	text, err := os.ReadFile("operator/build/testdata/jobs.yaml")
	if err != nil {
		t.Fatal(err)
	}
	commands := map[string]bool{}
	for document := range strings.SplitSeq(string(text), "\n---\n") {
		var job struct {
			Spec struct {
				Template struct {
					Spec struct {
						Containers []struct {
							Args []string `json:"args"`
							Env  []struct {
								Name string `json:"name"`
							} `json:"env"`
						} `json:"containers"`
					} `json:"spec"`
				} `json:"template"`
			} `json:"spec"`
		}
		if err := yaml.Unmarshal([]byte(document), &job); err != nil || len(job.Spec.Template.Spec.Containers) != 1 {
			t.Fatalf("%v: %s", err, document)
		}
		container := job.Spec.Template.Spec.Containers[0]
		cmd, rest, err := newRootCommand().Find(container.Args)
		if err != nil || !cmd.Runnable() {
			t.Fatalf("%q: %v", container.Args, err)
		}
		if err := cmd.ParseFlags(rest); err != nil {
			t.Errorf("%q: %v", container.Args, err)
		}
		if err := cmd.ValidateArgs(cmd.Flags().Args()); err != nil {
			t.Errorf("%q: %v", container.Args, err)
		}
		for _, variable := range container.Env {
			if strange, _ := settings.Load(cmd.Flags(), []string{variable.Name + "=x"}); len(strange) > 0 {
				t.Errorf("%s does not know %s", cmd.CommandPath(), variable.Name)
			}
		}
		commands[cmd.CommandPath()] = true
	}
	for _, want := range []string{"tickmesh backup", "tickmesh backup verify", "tickmesh backup prune", "tickmesh restore"} {
		if !commands[want] {
			t.Errorf("no Job runs %s", want)
		}
	}
}
