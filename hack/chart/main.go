// Command chart makes the files of the charts that follow from others, and the archives that a
// release publishes:
//
//		go run ./hack/chart            the files, in place
//		go run ./hack/chart -out DIR   tickmesh-VERSION.tgz and tickmesh-operator-VERSION.tgz, and what k3s takes
//
//	  - values.schema.json: hack/chart/values.schema.json, with the schema of
//	    cluster.spec, which is that of the TickMeshCluster;
//	  - values.yaml and values.schema.json of tickmesh-operator: those of tickmesh, without what is the cluster's;
//	  - README.md, between its two marks: the table of the values, from the comments that
//	    begin with "# --" in values.yaml.
//
// The tests of this package say when they are not what their sources say.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
)

// Folders of the charts, from the root.
const (
	folder         = "charts/tickmesh"
	folderOperator = "charts/tickmesh-operator"
)

func main() {
	out := flag.String("out", "", "`folder` for archives; empty: make the files in place")
	flag.Parse()
	var err error
	if *out != "" {
		err = release(".", *out)
	} else {
		err = generate(".")
	}
	if err != nil {
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
	pageOperator := read(folderOperator+"/README.md", &problem)
	boards := read("hack/chart/dashboards.yaml", &problem)
	if problem != nil {
		return nil, problem
	}
	valuesOperator, err := operatorValues(values)
	if err != nil {
		return nil, fmt.Errorf("values.yaml of the operator: %w", err)
	}
	schema, err := schemaFile(base, definition)
	if err != nil {
		return nil, fmt.Errorf("values.schema.json: %w", err)
	}
	schemaOperator, err := operatorSchema(base)
	if err != nil {
		return nil, fmt.Errorf("values.schema.json of the operator: %w", err)
	}
	readme, err := readmeOf(page, values)
	if err != nil {
		return nil, err
	}
	readmeOperator, err := readmeOf(pageOperator, valuesOperator)
	if err != nil {
		return nil, err
	}
	made, err := dashboardFiles(boards)
	if err != nil {
		return nil, fmt.Errorf("dashboards.yaml: %w", err)
	}
	return append(made, []file{
		{folder + "/values.schema.json", schema}, {folder + "/README.md", readme},
		{folderOperator + "/values.yaml", valuesOperator},
		{folderOperator + "/values.schema.json", schemaOperator}, {folderOperator + "/README.md", readmeOperator},
	}...), nil
}

// readmeOf returns a page with the table of its chart's values.
func readmeOf(page, values []byte) ([]byte, error) {
	rows, err := rowsOf(values)
	if err != nil {
		return nil, fmt.Errorf("values.yaml: %w", err)
	}
	readme, err := withTable(page, rows)
	if err != nil {
		return nil, fmt.Errorf("README.md: %w", err)
	}
	return readme, nil
}
