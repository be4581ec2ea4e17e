package opentsdbdiff

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/tickmesh/tickmesh/e2e/harness"
)

const (
	// startMax is how long a server may take to start, and Maven to fetch what it consists of.
	startMax = 5 * time.Minute
	// Heaps of the two processes.
	hbaseHeap, opentsdbHeap = "-Xmx512m", "-Xmx256m"
)

// configuration of the real one. Without compactions rows stay as they are written.
const configuration = `tsd.network.bind = %[1]s
tsd.network.port = %[2]s
tsd.http.staticroot = %[3]s/static
tsd.http.cachedir = %[3]s/cache
tsd.http.show_stack_trace = false
tsd.core.auto_create_metrics = true
tsd.core.meta.enable_realtime_ts = true
tsd.core.meta.enable_realtime_uid = true
tsd.core.meta.enable_tsuid_tracking = true
tsd.storage.enable_compaction = false
tsd.storage.flush_interval = 50
tsd.storage.hbase.zk_quorum = 127.0.0.1:%[4]s
`

// opens is what HBase and OpenTSDB, which are older, reach into of Java 17.
func opens() []string {
	var all []string
	for _, name := range []string{"java.lang", "java.net", "java.nio", "java.util", "sun.nio.ch"} {
		all = append(all, "--add-opens", "java.base/"+name+"=ALL-UNNAMED")
	}
	return all
}

// startOpenTSDB starts HBase and OpenTSDB and returns the address of the latter.
func startOpenTSDB(t *testing.T) string {
	t.Helper()
	java := program(t, "java", "default-jdk-headless")
	maven := program(t, "mvn", "maven")
	folder := t.TempDir()
	ready := filepath.Join(folder, "zookeeper.port")
	arguments := append([]string{hbaseHeap}, opens()...)
	storage := launch(t, java, filepath.Join(folder, "hbase.log"),
		append(arguments, "-cp", classPath(t, maven, "peer/hbase/pom.xml"), "peer/hbase/Storage.java", filepath.Join(folder, "data"), ready))
	var port string
	waitFor(t, storage, func() bool {
		text, err := os.ReadFile(ready)
		port = string(text)
		return err == nil
	})
	addresses, err := harness.FreeAddresses(1)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"static", "cache"} {
		if err := os.Mkdir(filepath.Join(folder, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(folder, "opentsdb.conf")
	host, own, err := net.SplitHostPort(addresses[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, fmt.Appendf(nil, configuration, host, own, folder, port), 0o600); err != nil {
		t.Fatal(err)
	}
	arguments = append([]string{opentsdbHeap}, opens()...)
	server := launch(t, java, filepath.Join(folder, "opentsdb.log"),
		append(arguments, "-cp", "peer/opentsdb:"+classPath(t, maven, "peer/opentsdb/pom.xml"), "net.opentsdb.tools.TSDMain", "--config", file))
	waitFor(t, server, func() bool {
		a, err := ask(addresses[0], &question{Method: "GET", Target: "/api/version"})
		return err == nil && a.Status == 200
	})
	return addresses[0]
}

// program returns the path of a program, which is installed where there is none.
func program(t *testing.T, name, packageName string) string {
	t.Helper()
	path, err := harness.Install(t.Context(), name, packageName)
	if errors.Is(err, harness.ErrMissing) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// classPath returns the jars that a description of a project depends on, which Maven fetches.
func classPath(t *testing.T, maven, project string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startMax)
	defer cancel()
	file := filepath.Join(t.TempDir(), "classpath")
	output, err := exec.CommandContext(ctx, maven, "--batch-mode", "--quiet", "--no-transfer-progress", "--file", project,
		"org.apache.maven.plugins:maven-dependency-plugin:3.6.1:build-classpath", "-Dmdep.outputFile="+file).CombinedOutput()
	if err != nil {
		t.Skipf("Maven does not fetch the jars of %s: %v\n%s", project, err, output)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// launch starts a process that ends with the test, which shows its log where it fails.
func launch(t *testing.T, java, log string, arguments []string) *harness.Process {
	t.Helper()
	p, err := harness.StartProcess(harness.ProcessOptions{Path: java, Args: arguments, LogPath: log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() && *logs {
			t.Logf("%s: %s", log, p.LogTail(8192))
		}
		p.Kill()
	})
	return p
}

// waitFor waits until a process is ready.
func waitFor(t *testing.T, p *harness.Process, ready func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startMax)
	defer cancel()
	for !ready() {
		select {
		case <-ctx.Done():
			t.Fatalf("the process is not ready after %v: %s", startMax, p.LogTail(8192))
		case <-p.Done():
			t.Fatalf("the process ended: %s", p.LogTail(8192))
		case <-time.After(100 * time.Millisecond):
		}
	}
}
