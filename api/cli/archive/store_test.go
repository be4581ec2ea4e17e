package archive

import (
	"bytes"
	"context"
	"errors"
	"io"
	"iter"
	"maps"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
	"pgregory.net/rapid"
)

// startS3 starts an S3 server, of others, in memory, with one bucket.
func startS3(t testing.TB) S3Options {
	backend := s3mem.New()
	if err := backend.CreateBucket("backups"); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(gofakes3.New(backend, gofakes3.WithLogger(gofakes3.DiscardLog())).Server())
	t.Cleanup(server.Close)
	return S3Options{Endpoint: server.URL, Region: "us-east-1", AccessKeyID: "id", SecretAccessKey: "secret"}
}

// stores returns an empty store of each kind.
func stores(t testing.TB) map[string]func() Store {
	s3, n := startS3(t), 0
	return map[string]func() Store{
		"folder": func() Store { return NewFolder(filepath.Join(t.TempDir(), "a", "b")) },
		"s3": func() Store {
			n++
			s, err := Open("s3://backups/p"+strings.Repeat("x", n)+"/q", s3)
			if err != nil {
				t.Fatal(err)
			}
			return s
		},
	}
}

// memory is a store for tests that need many.
type memory map[string][]byte

func (m memory) String() string { return "memory" }

func (m memory) Put(_ context.Context, key string, content []byte) error {
	m[key] = bytes.Clone(content)
	return nil
}

func (m memory) Get(_ context.Context, key string, offset, length int64) (io.ReadCloser, error) {
	content, ok := m[key]
	if !ok {
		return nil, ErrNone
	}
	return io.NopCloser(io.NewSectionReader(bytes.NewReader(content), offset, length)), nil
}

func (m memory) List(_ context.Context, prefix string) iter.Seq2[Info, error] {
	return func(yield func(Info, error) bool) {
		for _, key := range slices.Sorted(maps.Keys(m)) {
			if strings.HasPrefix(key, prefix) && !yield(Info{Key: key, Bytes: int64(len(m[key])), ModifiedAt: time.Now()}, nil) {
				return
			}
		}
	}
}

func (m memory) Delete(_ context.Context, key string) error {
	delete(m, key)
	return nil
}

// TestStores compares each store with a map, in random steps.
func TestStores(t *testing.T) {
	all := stores(t)
	all["memory"] = func() Store { return memory{} }
	for name, empty := range all {
		t.Run(name, func(t *testing.T) {
			turns := 0
			rapid.Check(t, func(t *rapid.T) {
				if turns++; turns <= storeTurns {
					compareStore(t, empty())
				}
			})
		})
	}
}

// storeTurns bounds what is played on each store.
const storeTurns = 20

func compareStore(t *rapid.T, s Store) {
	ctx, want := context.Background(), map[string][]byte{}
	keys := rapid.SampledFrom([]string{"objects/a", "objects/b", "objects/ab", "backups/x/manifest.json", "backups/x-y/manifest.json", "z"})
	for range rapid.IntRange(1, 12).Draw(t, "steps") {
		key := keys.Draw(t, "key")
		switch rapid.IntRange(0, 3).Draw(t, "step") {
		case 0, 1:
			want[key] = rapid.SliceOfN(rapid.Byte(), 1, 30).Draw(t, "content")
			if err := s.Put(ctx, key, want[key]); err != nil {
				t.Fatal(err)
			}
		case 2:
			delete(want, key)
			if err := s.Delete(ctx, key); err != nil {
				t.Fatal(err)
			}
		case 3:
			offset, length := rapid.Int64Range(0, 40).Draw(t, "offset"), rapid.Int64Range(0, 40).Draw(t, "length")
			compareGet(ctx, t, s, key, want, offset, length)
		}
	}
	for key := range want {
		compareGet(ctx, t, s, key, want, 0, 1<<20)
	}
	for _, prefix := range []string{"", "objects/", "objects/a", "backups/", "backups/x", "backups/x/", "none"} {
		got := map[string]int64{}
		for info, err := range s.List(ctx, prefix) {
			if err != nil {
				t.Fatal(err)
			}
			if age := time.Since(info.ModifiedAt); age < -time.Minute || age > time.Hour {
				t.Fatalf("%s is %v old", info.Key, age)
			}
			got[info.Key] = info.Bytes
		}
		n := 0
		for key, content := range want {
			if !strings.HasPrefix(key, prefix) {
				continue
			}
			n++
			if size, ok := got[key]; !ok || size != int64(len(content)) {
				t.Fatalf("%q: %v has not %s of %d bytes", prefix, got, key, len(content))
			}
		}
		if n != len(got) {
			t.Fatalf("%q: %v, want %d", prefix, got, n)
		}
	}
}

func compareGet(ctx context.Context, t *rapid.T, s Store, key string, all map[string][]byte, offset, length int64) {
	want, ok := all[key]
	r, err := s.Get(ctx, key, offset, length)
	if !ok {
		if length > 0 && !errors.Is(err, ErrNone) {
			t.Fatalf("%s is not there: %v", key, err)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(r)
	if err := errors.Join(err, r.Close()); err != nil {
		t.Fatal(err)
	}
	want = want[min(offset, int64(len(want))):]
	if want = want[:min(length, int64(len(want)))]; !bytes.Equal(got, want) {
		t.Fatalf("%s from %d, %d: %x, want %x", key, offset, length, got, want)
	}
}

// TestStopped: whoever stops a listing early stops it, and a context that has ended ends
// everything.
func TestStopped(t *testing.T) {
	for name, empty := range stores(t) {
		s := empty()
		for _, key := range []string{"a", "b", "c"} {
			if err := s.Put(t.Context(), key, []byte(key)); err != nil {
				t.Fatal(err)
			}
		}
		n := 0
		for _, err := range s.List(t.Context(), "") {
			if n++; err != nil || n == 2 {
				break
			}
		}
		if n != 2 {
			t.Errorf("%s: %d", name, n)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		var listed error
		for _, err := range s.List(ctx, "") {
			listed = err
		}
		_, got := s.Get(ctx, "a", 0, 1)
		for what, err := range map[string]error{"put": s.Put(ctx, "a", nil), "get": got, "delete": s.Delete(ctx, "a"), "list": listed} {
			if !errors.Is(err, context.Canceled) {
				t.Errorf("%s: %s: %v", name, what, err)
			}
		}
	}
}

// TestFolderLeftovers: what a killed writer left is not listed, and a file appears whole.
func TestFolderLeftovers(t *testing.T) {
	s := NewFolder(t.TempDir())
	if err := s.Put(t.Context(), "objects/a", []byte("x")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(s.path("objects/b.123"+partSuffix), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var keys []string
	for info, err := range s.List(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, info.Key)
	}
	if !slices.Equal(keys, []string{"objects/a"}) {
		t.Error(keys)
	}
}

func TestOpen(t *testing.T) {
	for target, endpoint := range map[string]string{
		"": "", "s3://": "https://a", "s3:///p": "https://a", "gs://b/p": "https://a", "s3://b/p?x=1": "https://a",
		"s3://b": "a", "s3://b/": "https://a/path", "s3://b/p": "ftp://a", "s3://k:s@b/p": "https://a",
	} {
		if s, err := Open(target, S3Options{Endpoint: endpoint}); !errors.Is(err, ErrTarget) {
			t.Errorf("%q at %q: %v %v", target, endpoint, s, err)
		}
	}
	for target, want := range map[string]string{"s3://b/p/": "s3://b/p", "s3://b": "s3://b/", "/a/b": "/a/b", "rel": "rel"} {
		if s, err := Open(target, S3Options{Endpoint: "http://a:1"}); err != nil || s.String() != want {
			t.Errorf("%q: %v %v", target, s, err)
		}
	}
	if _, err := Open("s3://b/p", S3Options{Endpoint: "https://a", CAFile: os.DevNull}); !errors.Is(err, ErrTarget) {
		t.Error(err)
	}
}
