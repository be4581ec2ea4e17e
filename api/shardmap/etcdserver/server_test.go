package etcdserver

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

func TestKeepsItsData(t *testing.T) {
	folder := t.TempDir()
	for run := range 2 {
		server, err := Start(context.Background(), Options{DataDir: folder, ClientAddress: "127.0.0.1:0"})
		if err != nil {
			t.Fatal(err)
		}
		client, err := clientv3.New(clientv3.Config{Endpoints: []string{server.Endpoint()}})
		if err != nil {
			t.Fatal(err)
		}
		if run == 0 {
			_, err = client.Put(context.Background(), "key", "value")
		} else {
			var got *clientv3.GetResponse
			got, err = client.Get(context.Background(), "key")
			if err == nil && (len(got.Kvs) != 1 || string(got.Kvs[0].Value) != "value") {
				t.Fatalf("after a restart: %v", got.Kvs)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
		client.Close()
		if err := server.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestHoldsFewEntries: what a value that is written again and again takes of memory does not grow with each write, nor
// does it come back with a start.
func TestHoldsFewEntries(t *testing.T) {
	const writes, valueBytes = 2000, 64 << 10
	value, folder := strings.Repeat("x", valueBytes), t.TempDir()
	for run := range 2 {
		server, err := Start(t.Context(), Options{DataDir: folder, ClientAddress: "127.0.0.1:0", NoSync: true})
		if err != nil {
			t.Fatal(err)
		}
		client, err := clientv3.New(clientv3.Config{Endpoints: []string{server.Endpoint()}})
		if err != nil {
			t.Fatal(err)
		}
		for range writes * (1 - run) {
			if _, err := client.Put(t.Context(), "key", value); err != nil {
				t.Fatal(err)
			}
		}
		var memory runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&memory)
		if most := uint64(writes * valueBytes / 2); memory.HeapAlloc > most {
			t.Errorf("run %d: %d bytes are held, want %d at most", run, memory.HeapAlloc, most)
		}
		client.Close()
		if err := server.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestStartRefused(t *testing.T) {
	if _, err := Start(context.Background(), Options{DataDir: t.TempDir(), ClientAddress: "no port"}); !errors.Is(err, ErrStart) {
		t.Fatal(err)
	}
	first, err := Start(context.Background(), Options{DataDir: t.TempDir(), ClientAddress: "127.0.0.1:0", NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	if _, err := Start(context.Background(), Options{DataDir: t.TempDir(), ClientAddress: first.Endpoint()}); !errors.Is(err, ErrStart) {
		t.Fatal(err)
	}
}

func TestLogLevels(t *testing.T) {
	var out bytes.Buffer
	log := zap.New(newCore(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelInfo})), &atomic.Bool{}))
	log.Info("usual", zap.String("k", "v"))
	log.With(zap.String("member", "m")).Warn("slow", zap.Int("ms", 5))
	log.Error("broken", zap.Error(errors.New("reason")))
	got := out.String()
	if strings.Contains(got, "usual") {
		t.Errorf("news of etcd are told: %s", got)
	}
	for _, want := range []string{"level=INFO msg=slow member=m ms=5", "level=ERROR msg=broken error=reason"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing in %s", want, got)
		}
	}
}

// lockedBuffer is written to by etcd's goroutines.
type lockedBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

// TestStopIsNoError: a server that is stopped says nothing of it above debug.
func TestStopIsNoError(t *testing.T) {
	var out lockedBuffer
	log := slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelWarn}))
	for range 3 {
		server, err := Start(context.Background(), Options{DataDir: t.TempDir(), ClientAddress: "127.0.0.1:0", NoSync: true, Log: log})
		if err != nil {
			t.Fatal(err)
		}
		if err := server.Close(); err != nil {
			t.Fatal(err)
		}
	}
	out.mu.Lock()
	defer out.mu.Unlock()
	if out.text.Len() > 0 {
		t.Error(out.text.String())
	}
}

// An address without a host is every address of this machine, as for all other ports.
func TestNoHostIsEveryAddress(t *testing.T) {
	server, err := Start(t.Context(), Options{DataDir: t.TempDir(), ClientAddress: ":0", PeerAddress: ":0", MetricsAddress: ":0", NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Close(); err != nil {
		t.Error(err)
	}
	for address, want := range map[string]string{"[::1]:7": "http://[::1]:7", "127.0.0.1:7": "http://127.0.0.1:7", "name:7": "http://name:7"} {
		if u, err := urlOf(address, TLSFiles{}); err != nil || u.String() != want {
			t.Errorf("%s: %s, %v; want %s", address, u.String(), err, want)
		}
	}
	for _, address := range []string{"", "7", "a:b:c"} {
		if u, err := urlOf(address, TLSFiles{}); !errors.Is(err, ErrStart) {
			t.Errorf("%q: %s, %v", address, u.String(), err)
		}
	}
}
