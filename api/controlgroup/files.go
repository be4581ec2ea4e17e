// Package controlgroup finds the files of the control groups (cgroups) of Linux, versions 1 and 2, that bound
// this process.
package controlgroup

import (
	"io/fs"
	"path"
	"strings"
)

// Files of Linux, relative to the root of the file system.
const (
	groupsFile = "proc/self/cgroup"
	folder     = "sys/fs/cgroup" // of version 2; version 1 has a folder for each controller in it
	levelsMax  = 64
)

// Files returns the names of the files that may have a limit of a controller: of the process' control
// group and of those around it. In version 1 they have another name.
func Files(root fs.FS, controller, file, fileOld string) (names []string) {
	return namesIn(Read(root, groupsFile), controller, file, fileOld)
}

// Read returns a file's text, or "" if it cannot be read, since not every machine has each of these files.
func Read(root fs.FS, name string) string {
	text, err := fs.ReadFile(root, name)
	if err != nil {
		return ""
	}
	return string(text)
}

// namesIn returns the names of files by the text of /proc/self/cgroup, whose lines are number:controllers:path. In a
// container the path may be that of the host; the container's own limit is then at the top.
func namesIn(text, controller, file, fileOld string) (names []string) {
	for line := range strings.Lines(text) {
		parts := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(parts) != 3 {
			continue
		}
		top, name := "", ""
		switch {
		case parts[0] == "0" && parts[1] == "":
			top, name = folder, file
		case strings.Contains(","+parts[1]+",", ","+controller+","):
			top, name = path.Join(folder, controller), fileOld
		default:
			continue
		}
		// Cleaned as an absolute path, none leads out of the folder.
		at := path.Clean("/" + parts[2])
		for range levelsMax {
			if found := path.Join(top, at, name); fs.ValidPath(found) {
				names = append(names, found)
			}
			if at == "/" {
				break
			}
			at = path.Dir(at)
		}
	}
	return names
}
