package main

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"

	"sigs.k8s.io/yaml"

	"github.com/tickmesh/tickmesh/hack/archive"
)

// beside are the files that a release publishes beside the archives, from the root.
var beside = []string{"charts/k3s.yaml", folder + "/values-k3s.yaml"}

// release writes the charts' archives below out, as `helm package` would but the same bytes each time,
// and the files beside them.
func release(root, out string) error {
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	for _, chart := range []string{folder, folderOperator} {
		about, err := aboutChart(filepath.Join(root, chart, "Chart.yaml"))
		if err != nil {
			return err
		}
		files, err := chartFiles(filepath.Join(root, chart), about.Name)
		if err != nil {
			return err
		}
		content, err := archive.Write(files...)
		if err != nil {
			return fmt.Errorf("%s: %w", chart, err)
		}
		name := filepath.Join(out, about.Name+"-"+about.Version+".tgz")
		if err := os.WriteFile(name, content, 0o644); err != nil {
			return err
		}
		fmt.Println(name)
	}
	for _, name := range beside {
		content, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(out, path.Base(name)), content, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// chartFiles returns the files of a chart below its name, Chart.yaml first, as helm wants it. Folders that
// tickmesh-operator shares with tickmesh are links in the sources, and are archived as what they lead to.
func chartFiles(folder, name string) (files []archive.File, err error) {
	var walk func(folder, name string) error
	walk = func(folder, name string) error {
		entries, err := os.ReadDir(folder)
		if err != nil {
			return err
		}
		for _, entry := range entries {
			from, to := filepath.Join(folder, entry.Name()), path.Join(name, entry.Name())
			info, err := os.Stat(from)
			switch {
			case err != nil:
				return err
			case info.IsDir():
				err = walk(from, to)
			case info.Mode().IsRegular():
				var content []byte
				if content, err = os.ReadFile(from); err == nil {
					files = append(files, archive.File{Name: to, Mode: 0o644, Content: content})
				}
			default:
				err = &fs.PathError{Op: "archive", Path: from, Err: fs.ErrInvalid}
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
	if err := walk(folder, name); err != nil {
		return nil, err
	}
	slices.SortStableFunc(files, func(a, b archive.File) int {
		first := path.Join(name, "Chart.yaml")
		switch {
		case a.Name == first:
			return -1
		case b.Name == first:
			return 1
		}
		return 0
	})
	return files, nil
}

// about is what a chart says of itself.
type about struct{ Name, Version string }

func aboutChart(file string) (a about, err error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return a, err
	}
	if err := yaml.Unmarshal(content, &a); err != nil {
		return a, fmt.Errorf("%s: %w", file, err)
	}
	if a.Name == "" || a.Version == "" {
		return a, fmt.Errorf("%s: it names no chart, or no version", file)
	}
	return a, nil
}
