// Command kubebuilder makes the files of operator/config and operator/bundle, and of the chart,
// that follow from others:
//
//		go run ./hack/kubebuilder           in place
//		go run ./hack/kubebuilder -out DIR  below another folder, to compare
//
//	  - roles for people who look at, or change, the resources: one pair for each definition, in
//	    operator/config/rbac, and all of them in the chart's files/users.yaml;
//	  - operator/config/prometheus/rules.yaml: the alerts of the chart;
//	  - operator/bundle: what the Operator Lifecycle Manager installs, from operator/config.
//
// The definitions and roles that it reads are controller-gen's: hack/scripts/generate.sh runs both.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
)

// Folders, from the root.
const (
	folderConfig = "operator/config"
	folderBundle = "operator/bundle"
	folderChart  = "charts/tickmesh"
)

func main() {
	out := flag.String("out", ".", "`folder` to write below")
	flag.Parse()
	if err := generate(".", *out); err != nil {
		fmt.Fprintln(os.Stderr, "kubebuilder:", err)
		os.Exit(1)
	}
}

// file is one that is made.
type file struct {
	path    string // from the root
	content []byte
}

// generate writes the files, made from the sources below root, below out.
func generate(root, out string) error {
	made, err := files(root)
	if err != nil {
		return err
	}
	for _, f := range made {
		path := filepath.Join(out, f.path)
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
	s, err := readSources(root)
	if err != nil {
		return nil, err
	}
	var made []file
	users, err := userRoles(s.definitions)
	if err != nil {
		return nil, err
	}
	made = append(made, users...)
	rules, err := alertRules(s.alerts, s.runbooks)
	if err != nil {
		return nil, fmt.Errorf("alerts: %w", err)
	}
	made = append(made, rules)
	bundle, err := bundleFiles(s, users)
	if err != nil {
		return nil, fmt.Errorf("bundle: %w", err)
	}
	return append(made, bundle...), nil
}
