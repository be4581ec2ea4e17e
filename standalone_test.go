package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"
)

// TestInProcess runs the command in this process, where the race detector sees
// it, from its banner to its end, and starts it again.
func TestInProcess(t *testing.T) {
	dir := t.TempDir()
	config := writeFile(t, "http-addr: 127.0.0.1:0\nput-addr: ''\nline-addr: ''\nlog-format: json\ncors-origins: ['*']\n")
	for turn := range 2 {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		stdout, banner := io.Pipe()
		defer stdout.Close()
		root := newRootCommand()
		root.SetArgs([]string{"standalone", "--config", config, "--grpc-addr", "127.0.0.1:0", "--data-dir", dir})
		root.SetOut(banner)
		root.SetErr(io.Discard)
		ended := make(chan error, 1)
		go func() {
			err := root.ExecuteContext(ctx)
			_ = banner.CloseWithError(fmt.Errorf("the server ended: %w", io.EOF))
			ended <- err
		}()
		address := bannerAddress(t, stdout)
		if turn == 0 {
			response, err := http.Post(address+"/write", "text/plain", strings.NewReader("cpu,host=a value=0.64 1700000000000000000"))
			if err != nil || response.StatusCode != http.StatusNoContent || response.Body.Close() != nil {
				t.Errorf("%v, %v", response, err)
			}
		}
		response, err := http.Get(address + "/api/query?start=1699999999&m=none:cpu")
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(response.Body)
		if err != nil || response.StatusCode != http.StatusOK || response.Body.Close() != nil || !strings.Contains(string(body), `"dps":{"1700000000":0.64}`) {
			t.Errorf("%d %s, %v", response.StatusCode, body, err)
		}
		cancel()
		select {
		case err := <-ended:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(time.Minute):
			t.Fatal("the server does not end")
		}
	}
}

// bannerAddress reads the banner and returns the address of HTTP.
func bannerAddress(t *testing.T, stdout io.Reader) string {
	t.Helper()
	found := ""
	lines := bufio.NewScanner(stdout)
	for lines.Scan() {
		if match := regexp.MustCompile(`http://[0-9.:]+`).FindString(lines.Text()); match != "" && found == "" {
			found = match
		}
		if strings.HasPrefix(lines.Text(), "Stop with") {
			return found
		}
	}
	t.Fatal("the banner ends early:", lines.Err())
	return ""
}
