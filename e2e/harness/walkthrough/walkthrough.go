// Package walkthrough follows a page of the repository as a person would, with real programs: it starts what the page
// starts, types what it types, and compares the answers.
//
// A block of sh has a command that stays in a terminal: in the first one, or in that which its first line names, as in
// "# terminal 2". What ran there before is ended by Ctrl-C. Commands of console blocks are typed in another terminal, and
// have the answers that stand below them. A block of YAML whose first line is the name of a file, "# rules.yaml", is saved.
package walkthrough

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tickmesh/tickmesh/e2e/harness"
	"github.com/tickmesh/tickmesh/hack/recipes"
)

const (
	waitMax      = 2 * time.Minute // of every wait; only reached when something is broken
	pollInterval = 20 * time.Millisecond
	logTailBytes = 8192
)

// Walk is a folder that looks to the commands of a page like the checkout, and a host of the loopback interface in place of
// localhost, so that the usual ports are free.
type Walk struct {
	t         testing.TB
	folder    string
	host      string
	binary    string
	terminals map[string]*exec.Cmd // what runs in each
}

// goProgram stands in for go, as the program is built already.
const goProgram = "#!/bin/sh\nset -e\n[ \"$1\" = build ]\nmkdir -p bin\nln -sf \"$WALKTHROUGH_BINARY\" bin/tickmesh\n"

// New returns a walk through the checkout with a program of it that was built, and others under the names that pages give
// them. All that it starts ends with the test.
func New(t testing.TB, checkout, binary string, programs map[string]string) *Walk {
	t.Helper()
	if _, err := harness.Install(t.Context(), "curl", "curl"); err != nil {
		t.Fatal(err)
	}
	free, err := harness.FreeAddresses(1)
	if err != nil {
		t.Fatal(err)
	}
	host, _, err := net.SplitHostPort(free[0])
	if err != nil {
		t.Fatal(err)
	}
	w := &Walk{t: t, folder: t.TempDir(), host: host, binary: binary, terminals: map[string]*exec.Cmd{}}
	w.must(w.write("path/go", goProgram, 0o755))
	w.must(os.MkdirAll(filepath.Join(w.folder, "bin"), 0o755))
	w.must(os.Symlink(binary, filepath.Join(w.folder, "bin", "tickmesh")))
	for name, path := range programs {
		w.must(os.Symlink(path, filepath.Join(w.folder, "path", name)))
	}
	w.must(os.Mkdir(filepath.Join(w.folder, "hack"), 0o755))
	for _, name := range []string{"Makefile", "charts", "hack/scripts"} {
		w.must(os.Symlink(filepath.Join(checkout, name), filepath.Join(w.folder, name)))
	}
	w.must(w.copyExamples(checkout))
	t.Cleanup(func() {
		for terminal := range w.terminals {
			w.stop(terminal)
		}
		w.killLeft()
		if t.Failed() {
			t.Log(w.log())
		}
	})
	return w
}

func (w *Walk) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// write writes a file below the folder, with the walk's host in place of localhost.
func (w *Walk) write(name, text string, mode os.FileMode) error {
	path := filepath.Join(w.folder, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(w.place(text)), mode)
}

// copyExamples copies the configurations of hack/examples.
func (w *Walk) copyExamples(checkout string) error {
	const examples = "hack/examples"
	return fs.WalkDir(os.DirFS(checkout), examples, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(filepath.Join(checkout, name))
		if err != nil {
			return err
		}
		return w.write(name, string(text), 0o600)
	})
}

// place puts the walk's host in the place of localhost.
func (w *Walk) place(text string) string {
	return strings.NewReplacer("/dev/tcp/localhost/", "/dev/tcp/"+w.host+"/", "localhost:", w.host+":").Replace(text)
}

// shell returns a command of a page, to be run by bash in the folder.
func (w *Walk) shell(ctx context.Context, command string) *exec.Cmd {
	shell := exec.CommandContext(ctx, "bash", "-c", w.place(command))
	shell.Dir = w.folder
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, "TICKMESH_") {
			shell.Env = append(shell.Env, variable)
		}
	}
	shell.Env = append(shell.Env, "PATH="+filepath.Join(w.folder, "path")+":"+os.Getenv("PATH"), "WALKTHROUGH_BINARY="+w.binary,
		"TICKMESH_ADDR="+w.host+":6183")
	return shell
}

// Follow plays a page, whose examples have to be so many at least.
func (w *Walk) Follow(page string, examplesMin int) {
	w.t.Helper()
	text, err := os.ReadFile(page)
	w.must(err)
	blocks, err := recipes.Blocks(string(text))
	w.must(err)
	count := 0
	for _, b := range blocks {
		switch first, rest, _ := strings.Cut(b.Text, "\n"); b.Language {
		case "sh":
			terminal, named := strings.CutPrefix(first, "# terminal ")
			if !named {
				terminal, rest = "1", b.Text
			}
			w.start(terminal, strings.TrimSpace(rest))
		case "yaml":
			w.must(w.write(strings.TrimPrefix(first, "# "), b.Text, 0o600))
		case "console":
			examples, err := b.Examples()
			w.must(err)
			for _, e := range examples {
				count++
				e.Answer = w.place(e.Answer)
				w.run(page, &e)
			}
		}
	}
	if count < examplesMin {
		w.t.Errorf("%s: only %d examples", page, count)
	}
}

// serves matches commands of which the usual ports of a server are open after a while.
var serves = regexp.MustCompile(`tickmesh standalone|make (run|cluster)`)

// start starts a command in a terminal, after Ctrl-C for what runs there.
func (w *Walk) start(terminal, command string) {
	w.t.Helper()
	w.stop(terminal)
	shell := w.shell(context.Background(), command)
	if serves.MatchString(command) {
		shell.Env = append(shell.Env, "HOST="+w.host) // of hack/scripts/cluster.sh; a server has a variable for each port
		for port, variable := range map[string]string{"6180": "LINE", "6181": "PUT", "6182": "HTTP", "6183": "GRPC"} {
			shell.Env = append(shell.Env, "TICKMESH_"+variable+"_ADDR="+w.host+":"+port)
		}
	}
	shell.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	log, err := os.OpenFile(filepath.Join(w.folder, "terminals.log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	w.must(err)
	defer log.Close()
	shell.Stdout, shell.Stderr = log, log
	w.must(shell.Start())
	w.terminals[terminal] = shell
	if serves.MatchString(command) {
		w.awaitServer(command)
	}
}

func (w *Walk) awaitServer(command string) {
	w.t.Helper()
	for deadline := time.Now().Add(waitMax); ; time.Sleep(pollInterval) {
		response, err := http.Get("http://" + w.host + ":6182/readyz")
		if err == nil {
			_ = response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return
			}
		}
		if time.Now().After(deadline) {
			w.t.Fatalf("%s: it is not ready: %v", command, err)
		}
	}
}

// stop presses Ctrl-C in a terminal, and waits until what ran there has ended.
func (w *Walk) stop(terminal string) {
	shell := w.terminals[terminal]
	if shell == nil {
		return
	}
	delete(w.terminals, terminal)
	group := -shell.Process.Pid
	_ = syscall.Kill(group, syscall.SIGINT)
	late := time.AfterFunc(waitMax, func() {
		w.t.Errorf("%v does not end", shell.Args)
		_ = syscall.Kill(group, syscall.SIGKILL)
	})
	defer late.Stop()
	_ = shell.Wait() // who is interrupted may fail
}

// killLeft ends processes of the cluster that its script has left.
func (w *Walk) killLeft() {
	files, _ := filepath.Glob(filepath.Join(w.folder, "data-cluster", "*.pid"))
	for _, file := range files {
		text, _ := os.ReadFile(file)
		pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
		if err != nil {
			w.t.Errorf("%s: %v", file, err)
			continue
		}
		line, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
		if err == nil && strings.Contains(string(line), "data-cluster") {
			w.t.Errorf("%s: %q still runs", file, line)
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

func (w *Walk) log() string {
	text, _ := os.ReadFile(filepath.Join(w.folder, "terminals.log"))
	return string(text[max(0, len(text)-logTailBytes):])
}

// asking matches commands that change nothing, whose answer may take a while to be as shown.
var asking = regexp.MustCompile(`query|/alerts|tickmesh status`)

// refusedStatus is curl's exit status when nobody listens yet.
const refusedStatus = 7

// run types a command, again while nobody listens or, if it only asks, its answer is not as shown.
func (w *Walk) run(page string, e *recipes.Example) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), waitMax)
	defer cancel()
	for {
		shell := w.shell(ctx, e.Command)
		var answer, complaint bytes.Buffer
		shell.Stdout, shell.Stderr = &answer, &complaint
		err := shell.Run()
		var exit *exec.ExitError
		refused := errors.As(err, &exit) && exit.ExitCode() == refusedStatus
		switch {
		case err == nil && e.Matches(answer.String()):
			return
		case ctx.Err() == nil && (refused || err == nil && asking.MatchString(e.Command)):
			time.Sleep(pollInterval)
		default:
			w.t.Fatalf("%s:%d: %s: %v\n%s\nanswers %s\nwant    %s", page, e.Line, e.Command, err, complaint.String(), answer.String(), e.Answer)
		}
	}
}
