package process

import (
	"context"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tickmesh/tickmesh/e2e/harness"
)

// tutorial is a folder that looks to the commands of the page like the checkout, and a host of the loopback interface
// in place of localhost, so that the usual ports are free.
type tutorial struct {
	t      *testing.T
	folder string
	host   string
	first  *exec.Cmd // what runs in the first terminal
}

// goBuild stands in for go, as the program is built already.
const goBuild = "#!/bin/sh\nset -e\n[ \"$1\" = build ]\nmkdir -p bin\nln -sf \"$TUTORIAL_BINARY\" bin/tickmesh\n"

func newTutorial(t *testing.T) *tutorial {
	t.Helper()
	free, err := harness.FreeAddresses(1)
	if err != nil {
		t.Fatal(err)
	}
	host, _, err := net.SplitHostPort(free[0])
	if err != nil {
		t.Fatal(err)
	}
	tut := &tutorial{t: t, folder: t.TempDir(), host: host}
	checkout, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"Makefile", "hack"} {
		if err := os.Symlink(filepath.Join(checkout, name), filepath.Join(tut.folder, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(filepath.Join(tut.folder, "path"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(tut.folder, "path", "go"), []byte(goBuild), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		tut.stop()
		tut.killLeft()
	})
	return tut
}

// shell returns a command of the page, to be run by bash in the folder.
func (tut *tutorial) shell(ctx context.Context, command string) *exec.Cmd {
	command = strings.NewReplacer("/dev/tcp/localhost/", "/dev/tcp/"+tut.host+"/", "localhost:", tut.host+":").Replace(command)
	shell := exec.CommandContext(ctx, "bash", "-c", command)
	shell.Dir = tut.folder
	shell.Env = append(cleanEnviron(), "PATH="+filepath.Join(tut.folder, "path")+":"+os.Getenv("PATH"), "TUTORIAL_BINARY="+binary,
		"TICKMESH_ADDR="+tut.host+":6183")
	return shell
}

// start ends what runs in the first terminal by Ctrl-C, and starts another command there.
func (tut *tutorial) start(command string) {
	tut.t.Helper()
	tut.stop()
	tut.first = tut.shell(context.Background(), command)
	tut.first.Env = append(tut.first.Env, "HOST="+tut.host) // of hack/scripts/cluster.sh; a server has a variable for each port
	for port, variable := range map[string]string{"6180": "LINE", "6181": "PUT", "6182": "HTTP", "6183": "GRPC"} {
		tut.first.Env = append(tut.first.Env, "TICKMESH_"+variable+"_ADDR="+tut.host+":"+port)
	}
	tut.first.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	log, err := os.OpenFile(filepath.Join(tut.folder, "terminal.log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		tut.t.Fatal(err)
	}
	defer log.Close()
	tut.first.Stdout, tut.first.Stderr = log, log
	if err := tut.first.Start(); err != nil {
		tut.t.Fatal(err)
	}
	for deadline := time.Now().Add(waitMax); ; time.Sleep(20 * time.Millisecond) {
		response, err := http.Get("http://" + tut.host + ":6182/readyz")
		if err == nil {
			_ = response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return
			}
		}
		if time.Now().After(deadline) {
			tut.t.Fatalf("%s: it is not ready: %v\n%s", command, err, tut.log())
		}
	}
}

// stop presses Ctrl-C in the first terminal.
func (tut *tutorial) stop() {
	if tut.first == nil {
		return
	}
	_ = syscall.Kill(-tut.first.Process.Pid, syscall.SIGINT)
	_ = tut.first.Wait() // make fails when it is interrupted
	tut.first = nil
}

// killLeft ends processes of the cluster that its script has left.
func (tut *tutorial) killLeft() {
	files, _ := filepath.Glob(filepath.Join(tut.folder, "data-cluster", "*.pid"))
	for _, file := range files {
		text, _ := os.ReadFile(file)
		pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
		if err != nil {
			tut.t.Errorf("%s: %v", file, err)
			continue
		}
		line, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
		if err == nil && strings.Contains(string(line), "data-cluster") {
			tut.t.Errorf("%s: %q still runs", file, line)
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

func (tut *tutorial) log() string {
	text, _ := os.ReadFile(filepath.Join(tut.folder, "terminal.log"))
	return string(text[max(0, len(text)-8192):])
}

// TestTutorial follows the tutorial: commands of sh stay in the first terminal until the next one, those of console are
// typed in the second, and a block of YAML whose first line has the name of a file is saved.
func TestTutorial(t *testing.T) {
	t.Parallel()
	if _, err := harness.Install(t.Context(), "curl", "curl"); err != nil {
		t.Fatal(err)
	}
	tut := newTutorial(t)
	count := map[string]int{}
	for _, b := range blocksOf(t, "TUTORIAL.md") {
		count[b.language]++
		switch b.language {
		case "sh":
			tut.start(strings.TrimSpace(b.text))
		case "yaml":
			name, _, _ := strings.Cut(strings.TrimPrefix(b.text, "# "), "\n")
			if err := os.WriteFile(filepath.Join(tut.folder, name), []byte(b.text), 0o600); err != nil {
				t.Fatal(err)
			}
		case "console":
			for _, e := range b.examples(t) {
				runExample(t, &e, func(ctx context.Context) *exec.Cmd { return tut.shell(ctx, e.command) })
			}
		}
	}
	if count["sh"] != 3 || count["yaml"] != 1 || count["console"] < 7 {
		t.Errorf("blocks: %v", count)
	}
	if t.Failed() {
		t.Log(tut.log())
	}
}
