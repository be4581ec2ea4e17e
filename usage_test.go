package main

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"
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
