package controlgroup

import (
	"io/fs"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

func TestFiles(t *testing.T) {
	for _, c := range []struct {
		groups string
		want   []string
	}{
		{"", nil},
		{"0::/a/b\n", []string{"sys/fs/cgroup/a/b/cpu.max", "sys/fs/cgroup/a/cpu.max", "sys/fs/cgroup/cpu.max"}},
		{"9:name=systemd:/\n4:cpu,cpuacct:/x\n2:cpuset:/y\n", []string{"sys/fs/cgroup/cpu/x/quota", "sys/fs/cgroup/cpu/quota"}},
		{"0::/../../a:b\nnonsense\n", []string{"sys/fs/cgroup/a:b/cpu.max", "sys/fs/cgroup/cpu.max"}},
	} {
		root := fstest.MapFS{"proc/self/cgroup": &fstest.MapFile{Data: []byte(c.groups)}}
		if got := Files(root, "cpu", "cpu.max", "quota"); !slices.Equal(got, c.want) {
			t.Errorf("%q: %q, want %q", c.groups, got, c.want)
		}
	}
	if got := Files(fstest.MapFS{}, "cpu", "cpu.max", "quota"); got != nil {
		t.Errorf("without control groups: %q", got)
	}
}

func FuzzFiles(f *testing.F) {
	f.Add("9:name=systemd:/\n4:memory:/x/y\n0::/a/b\n")
	f.Add("0::/../..//a:b/./c\n:memory:\n4:memory\n")
	f.Fuzz(func(t *testing.T, text string) {
		names := namesIn(text, "memory", "memory.max", "memory.limit_in_bytes")
		if most := (strings.Count(text, "\n") + 1) * levelsMax; len(names) > most {
			t.Fatalf("%d names of %q", len(names), text)
		}
		for _, name := range names {
			if !fs.ValidPath(name) || !strings.HasPrefix(name, folder+"/") {
				t.Fatalf("name %q of %q", name, text)
			}
		}
	})
}
