// Command chart makes the files of charts/tickmesh that follow from others:
//
//		go run ./hack/chart
//
//	  - values.schema.json: hack/chart/values.schema.json, with the schema of
//	    cluster.spec, which is that of the TickMeshCluster;
//	  - README.md, between its two marks: the table of the values, from the comments that
//	    begin with "# --" in values.yaml.
//
// The tests of this package say when they are not what their sources say.
package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
)

// folder is that of the chart, from the root.
const folder = "charts/tickmesh"

func main() {
	if err := generate("."); err != nil {
		fmt.Fprintln(os.Stderr, "chart:", err)
		os.Exit(1)
	}
}

// file is one that is made.
type file struct {
	path    string // from the root
	content []byte
}

// generate writes the files that differ.
func generate(root string) error {
	made, err := files(root)
	if err != nil {
		return err
	}
	for _, f := range made {
		path := filepath.Join(root, f.path)
		if is, err := os.ReadFile(path); err == nil && bytes.Equal(is, f.content) {
			continue
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, f.content, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// files makes all of them from their sources.
func files(root string) ([]file, error) {
	read := func(path string, problem *error) []byte {
		content, err := os.ReadFile(filepath.Join(root, path))
		if err != nil && *problem == nil {
			*problem = err
		}
		return content
	}
	var problem error
	base := read("hack/chart/values.schema.json", &problem)
	definition := read(folder+"/crds/tickmesh.dev_tickmeshclusters.yaml", &problem)
	values := read(folder+"/values.yaml", &problem)
	page := read(folder+"/README.md", &problem)
	boards := read("hack/chart/dashboards.yaml", &problem)
	if problem != nil {
		return nil, problem
	}
	schema, err := schemaFile(base, definition)
	if err != nil {
		return nil, fmt.Errorf("values.schema.json: %w", err)
	}
	rows, err := rowsOf(values)
	if err != nil {
		return nil, fmt.Errorf("values.yaml: %w", err)
	}
	readme, err := withTable(page, rows)
	if err != nil {
		return nil, fmt.Errorf("README.md: %w", err)
	}
	made, err := dashboardFiles(boards)
	if err != nil {
		return nil, fmt.Errorf("dashboards.yaml: %w", err)
	}
	return append(made, []file{{folder + "/values.schema.json", schema}, {folder + "/README.md", readme}}...), nil
}
