package lab

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// cgroupRoot is where the kernel's control groups are mounted.
const cgroupRoot = "/sys/fs/cgroup"

// cgroupRemovalTime bounds the wait until the kernel has emptied groups whose
// processes were killed.
const cgroupRemovalTime = 20 * time.Second

// cgroups is one lab's part of the machine's control groups, version 1, which have one
// folder for each controller. In each, the lab has a group of its name, with one group
// for each node in it.
type cgroups struct{ root, name string }

// hierarchies returns the folders of the controllers that kubelet and runc use.
func (c cgroups) hierarchies() []string {
	var found []string
	for _, name := range []string{"cpu", "cpuacct", "cpuset", "memory", "devices", "freezer", "blkio", "pids", "systemd"} {
		dir := filepath.Join(c.root, name)
		if _, err := os.Stat(filepath.Join(dir, "cgroup.procs")); err == nil {
			found = append(found, dir)
		}
	}
	return found
}

// check reports why nodes cannot have control groups here.
func (c cgroups) check() error {
	found := c.hierarchies()
	for _, needed := range []string{"cpu", "cpuset", "memory", "devices", "freezer", "pids"} {
		if !slices.Contains(found, filepath.Join(c.root, needed)) {
			return fmt.Errorf("control groups of version 1 are needed, and %s has no controller %s", c.root, needed)
		}
	}
	return nil
}

// create makes the group of one node in every hierarchy, empty of what a lost node
// left: kubelet spends seconds on each group of a container that is no more.
func (c cgroups) create(n node) error {
	if err := c.removeBelow(filepath.Join(c.name, n.name())); err != nil {
		return err
	}
	for _, h := range c.hierarchies() {
		dir := filepath.Join(h, c.name, n.name())
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		if filepath.Base(h) != "cpuset" {
			continue
		}
		// A new group of this controller holds no processor and no memory.
		for _, group := range []string{filepath.Dir(dir), dir} {
			for _, file := range []string{"cpuset.mems", "cpuset.cpus"} {
				all, err := os.ReadFile(filepath.Join(h, file))
				if err != nil {
					return err
				}
				if err := os.WriteFile(filepath.Join(group, file), all, 0o644); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// remove removes the lab's groups from every hierarchy. Groups that are not there are
// no error.
func (c cgroups) remove() error { return c.removeBelow(c.name) }

// removeBelow removes the group of this name from all hierarchies, also those that only
// runc uses.
func (c cgroups) removeBelow(name string) error {
	found, err := filepath.Glob(filepath.Join(c.root, "*", name))
	failures := []error{err}
	for _, dir := range found {
		failures = append(failures, removeGroups(dir))
	}
	return errors.Join(failures...)
}

// removeGroups removes a group with all groups below it, and waits for the kernel to
// take the last killed processes out of them.
func removeGroups(dir string) error {
	deadline := time.Now().Add(cgroupRemovalTime)
	for {
		err := removeGroupsOnce(dir)
		if err == nil || time.Now().After(deadline) {
			return err
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func removeGroupsOnce(dir string) error {
	var dirs []string
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil && entry.IsDir() {
			dirs = append(dirs, path)
		}
		return err
	})
	for _, d := range slices.Backward(dirs) {
		if e := os.Remove(d); e != nil && !errors.Is(e, fs.ErrNotExist) && err == nil {
			err = e
		}
	}
	return err
}
