package memory

import (
	"testing"
	"testing/fstest"
)

func TestAvailable(t *testing.T) {
	const info = "MemTotal:       24683520 kB\nMemFree:         1 kB\n"
	const total = 24683520 << 10
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	for _, c := range []struct {
		name string
		root fstest.MapFS
		want int64
	}{
		{"nothing is known", fstest.MapFS{}, Unlimited},
		{"no groups", fstest.MapFS{"proc/meminfo": file(info)}, total},
		{"version 2", fstest.MapFS{
			"proc/meminfo": file(info), "proc/self/cgroup": file("0::/system.slice/a.service\n"),
			"sys/fs/cgroup/system.slice/a.service/memory.max": file("134217728\n"),
		}, 128 << 20},
		{"version 2, no limit", fstest.MapFS{
			"proc/meminfo": file(info), "proc/self/cgroup": file("0::/a\n"), "sys/fs/cgroup/a/memory.max": file("max\n"),
		}, total},
		{"version 2, a limit further up", fstest.MapFS{
			"proc/meminfo": file(info), "proc/self/cgroup": file("0::/a/b/c\n"),
			"sys/fs/cgroup/a/memory.max": file("1000000\n"), "sys/fs/cgroup/a/b/c/memory.max": file("2000000\n"),
		}, 1_000_000},
		{"version 1 beside version 2", fstest.MapFS{
			"proc/meminfo": file(info), "proc/self/cgroup": file("9:name=systemd:/\n4:cpuset,memory:/x/y\n0::/\n"),
			"sys/fs/cgroup/memory/x/y/memory.limit_in_bytes": file("67108864\n"),
			"sys/fs/cgroup/memory/memory.limit_in_bytes":     file("9223372036854771712\n"),
		}, 64 << 20},
		{"a container that sees the host's path", fstest.MapFS{
			"proc/meminfo": file(info), "proc/self/cgroup": file("4:memory:/docker/0123\n"),
			"sys/fs/cgroup/memory/memory.limit_in_bytes": file("536870912\n"),
		}, 512 << 20},
		{"a path out of the folder", fstest.MapFS{
			"proc/meminfo": file(info), "proc/self/cgroup": file("0::/../../a:b\n"),
			"sys/fs/cgroup/a:b/memory.max": file("4096000"), "memory.max": file("1"),
		}, 4_096_000},
		{"nonsense", fstest.MapFS{
			"proc/meminfo":     file("MemTotal: 0 kB\nMemTotal: 9999999999999999999 kB\nMemTotal: 9223372036854775807 kB\n"),
			"proc/self/cgroup": file("0::/a"), "sys/fs/cgroup/a/memory.max": file("-1"),
		}, Unlimited},
	} {
		if got := available(c.root); got != c.want {
			t.Errorf("%s: %d bytes, want %d", c.name, got, c.want)
		}
	}
}

func FuzzLimits(f *testing.F) {
	f.Add("MemTotal:       24683520 kB\nMemFree:         1 kB\n")
	f.Add("134217728\n")
	f.Fuzz(func(t *testing.T, text string) {
		if n := groupLimitOf(text); n <= 0 {
			t.Fatalf("limit %d of %q", n, text)
		}
		if n := totalOf(text); n <= 0 {
			t.Fatalf("total %d of %q", n, text)
		}
	})
}
