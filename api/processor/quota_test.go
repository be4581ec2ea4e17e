package processor

import (
	"math"
	"runtime"
	"testing"
	"testing/fstest"
)

func TestQuota(t *testing.T) {
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	for _, c := range []struct {
		name string
		root fstest.MapFS
		want float64
	}{
		{"no groups", fstest.MapFS{}, math.Inf(1)},
		{"no quota", fstest.MapFS{"proc/self/cgroup": file("0::/a\n"), "sys/fs/cgroup/a/cpu.max": file("max 100000\n")}, math.Inf(1)},
		{"a quota below two processors", fstest.MapFS{"proc/self/cgroup": file("0::/a\n"), "sys/fs/cgroup/a/cpu.max": file("150000 100000\n")}, 1.5},
		{"one further up", fstest.MapFS{
			"proc/self/cgroup": file("0::/a/b\n"), "sys/fs/cgroup/a/cpu.max": file("50000 100000\n"), "sys/fs/cgroup/a/b/cpu.max": file("400000 100000\n"),
		}, 0.5},
		{"version 1", fstest.MapFS{
			"proc/self/cgroup":                      file("4:cpu,cpuacct:/x\n"),
			"sys/fs/cgroup/cpu/x/cpu.cfs_quota_us":  file("250000\n"),
			"sys/fs/cgroup/cpu/x/cpu.cfs_period_us": file("100000\n"),
			"sys/fs/cgroup/cpu/cpu.cfs_quota_us":    file("-1\n"),
			"sys/fs/cgroup/cpu/cpu.cfs_period_us":   file("100000\n"),
		}, 2.5},
		{"nonsense", fstest.MapFS{"proc/self/cgroup": file("0::/a\n"), "sys/fs/cgroup/a/cpu.max": file("100000 0\n"), "sys/fs/cgroup/cpu.max": file("1\n")}, math.Inf(1)},
	} {
		if got := quota(c.root); got != c.want {
			t.Errorf("%s: %v processors, want %v", c.name, got, c.want)
		}
	}
}

// TestQuotaKeepsPs: with a quota below the machine's processors there are never more Ps, though Go's runtime has as many
// as there are processors for one of nearly all of them, and two for one of less than two.
func TestQuotaKeepsPs(t *testing.T) {
	t.Setenv("GOMAXPROCS", "")
	all := float64(runtime.NumCPU())
	for quota, want := range map[float64]bool{math.Inf(1): true, all: true, all - 0.5: false, 0.5: false} {
		if got := mayRaise(quota); got != want {
			t.Errorf("a quota of %v of %v processors: %v", quota, all, got)
		}
	}
	t.Setenv("GOMAXPROCS", "2")
	if mayRaise(math.Inf(1)) {
		t.Error("the environment sets their number")
	}
}

func FuzzQuota(f *testing.F) {
	f.Add("150000 100000\n")
	f.Add("max 100000")
	f.Fuzz(func(t *testing.T, text string) {
		if q := quotaOf(text); !(q > 0) {
			t.Fatalf("%v processors of %q", q, text)
		}
	})
}
