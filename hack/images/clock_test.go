package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// A program whose clock is set says the time that it was set to, while what counts time goes on.
func TestSetClock(t *testing.T) {
	root, folder := t.TempDir(), t.TempDir()
	file := filepath.Join(root, "ahead")
	const program = `package main

import (
	"fmt"
	"os"
	"time"
)

func main() {
	start, file := time.Now(), os.Args[1]
	for _, ahead := range []string{"100000\n", "-100000"} {
		if err := os.WriteFile(file, []byte(ahead), 0o600); err != nil {
			panic(err)
		}
		for begin := time.Now(); time.Since(begin) < 200*time.Millisecond; {
			time.Sleep(10 * time.Millisecond)
		}
		fmt.Println(time.Now().Unix(), time.Since(start).Milliseconds())
	}
}
`
	for name, text := range map[string]string{"main.go": program, "go.mod": "module clock\n\ngo 1.26\n"} {
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s, err := source{root: root}.withClock(t.Context(), file, folder)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "go", "run", "-overlay="+s.overlay, ".", file)
	cmd.Dir, cmd.Stderr = root, os.Stderr
	began := time.Now()
	output, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(output)), "\n")
	if len(lines) != 2 {
		t.Fatalf("%q", output)
	}
	for i, ahead := range []int64{100_000, -100_000} {
		seconds, passed, _ := strings.Cut(lines[i], " ")
		says, err := strconv.ParseInt(seconds, 10, 64)
		if err != nil || says-ahead < began.Unix() || says-ahead > time.Now().Unix() {
			t.Errorf("set ahead by %d s it says %s", ahead, seconds)
		}
		if ms, err := strconv.ParseInt(passed, 10, 64); err != nil || ms < 200 || ms > time.Since(began).Milliseconds() {
			t.Errorf("set ahead by %d s: %s ms passed", ahead, passed)
		}
	}
}
