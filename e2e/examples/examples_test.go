package examples

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/tickmesh/tickmesh/e2e/harness"
	"github.com/tickmesh/tickmesh/e2e/harness/harnesstest"
	"github.com/tickmesh/tickmesh/e2e/harness/walkthrough"
)

const (
	checkout    = "../.."
	examplesMin = 1 // that a page has to have
)

// follow plays the page of an example with a program under the name that the page has for it.
func follow(t *testing.T, example, name, program string) {
	t.Helper()
	root, err := filepath.Abs(checkout)
	if err != nil {
		t.Fatal(err)
	}
	page := filepath.Join(root, "hack", "examples", example, "README.md")
	walkthrough.New(t, root, harnesstest.Build(t), map[string]string{name: program}).Follow(page, examplesMin)
}

func skipShort(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("-short: this test builds the server and another program, and runs both")
	}
}

// installed returns the path of a program of one of Debian's packages.
func installed(t *testing.T, program, packageName string) string {
	t.Helper()
	skipShort(t)
	path, err := harness.Install(t.Context(), program, packageName)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// built returns the path of a program that e2e/clients has a module for.
func built(t *testing.T, folder string) string {
	t.Helper()
	skipShort(t)
	path := filepath.Join(t.TempDir(), folder)
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-o", path, ".")
	build.Dir = filepath.Join(checkout, "e2e", "clients", folder)
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, output)
	}
	return path
}

func TestPrometheus(t *testing.T) {
	follow(t, "prometheus", "prometheus", installed(t, "prometheus", "prometheus"))
}

func TestAlertmanager(t *testing.T) {
	follow(t, "alertmanager", "alertmanager", installed(t, "prometheus-alertmanager", "prometheus-alertmanager"))
}

func TestTelegraf(t *testing.T) {
	follow(t, "telegraf", "telegraf", built(t, "telegraf"))
}

func TestCollector(t *testing.T) {
	follow(t, "collector", "otelcol", built(t, "collector"))
}

// TestGrafana runs where somebody has installed Grafana, which no registry has that the tests reach; hack/examples checks
// the files everywhere.
func TestGrafana(t *testing.T) {
	skipShort(t)
	program, err := exec.LookPath("grafana")
	if err != nil {
		t.Skip("SKIPPED: there is no Grafana:", err)
	}
	installed(t, "prometheus", "prometheus")
	follow(t, "grafana", "grafana", program)
}
