package lab

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// kubeletSettings are the settings of the kernel that kubelet changes for the whole
// machine.
var kubeletSettings = []string{
	"vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops",
	"kernel/keys/root_maxkeys", "kernel/keys/root_maxbytes",
}

// settings is /proc/sys, or a folder like it.
type settings struct{ root string }

// save writes the values of kubeletSettings to file. A setting that this kernel does
// not have is left out.
func (s settings) save(file string) error {
	values := map[string]string{}
	for _, name := range kubeletSettings {
		value, err := os.ReadFile(filepath.Join(s.root, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		values[name] = strings.TrimSpace(string(value))
	}
	content, err := json.Marshal(values)
	if err != nil {
		return err
	}
	return os.WriteFile(file, content, 0o644)
}

// restore puts back what save wrote. A file that is not there is no error: nothing
// was changed.
func (s settings) restore(file string) error {
	content, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	values := map[string]string{}
	if err := json.Unmarshal(content, &values); err != nil {
		return err
	}
	var failures []error
	for _, name := range kubeletSettings {
		if value, ok := values[name]; ok {
			failures = append(failures, os.WriteFile(filepath.Join(s.root, name), []byte(value), 0o644))
		}
	}
	return errors.Join(failures...)
}
