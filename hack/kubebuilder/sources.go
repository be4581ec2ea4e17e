package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// object is any object of Kubernetes, as YAML has it.
type object = map[string]any

// definition is that of a resource.
type definition struct {
	name    string // of its file
	content []byte
	crd     apiextensionsv1.CustomResourceDefinition
}

// kind returns the kind in small letters, as names of files and roles have it.
func (d *definition) kind() string { return strings.ToLower(d.crd.Spec.Names.Kind) }

// schema returns that of a field of the resource, which has one version.
func (d *definition) schema(field string) *apiextensionsv1.JSONSchemaProps {
	s := d.crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties[field]
	return &s
}

// sources are what files are made from.
type sources struct {
	definitions []definition
	wide        rbacv1.ClusterRole // what the operator may do everywhere
	own         rbacv1.Role        // in its own namespace
	operator    appsv1.Deployment
	samples     []object
	base        object // of the bundle's ClusterServiceVersion
	alerts      []byte
	icon        []byte // SVG
	version     string // of the product
	runbooks    string // where they are
}

// readSources reads all of them below root.
func readSources(root string) (*sources, error) {
	s := &sources{}
	config := func(parts ...string) string {
		return filepath.Join(append([]string{root, folderConfig}, parts...)...)
	}
	var err error
	if s.definitions, err = readDefinitions(config("crd", "bases")); err != nil {
		return nil, err
	}
	if err := readDocuments(config("rbac", "role.yaml"), func(kind string, content []byte) error {
		if kind == "ClusterRole" {
			return yaml.UnmarshalStrict(content, &s.wide)
		}
		return yaml.UnmarshalStrict(content, &s.own)
	}); err != nil {
		return nil, err
	}
	if err := readDocuments(config("manager", "manager.yaml"), func(kind string, content []byte) error {
		if kind != "Deployment" {
			return nil
		}
		return yaml.UnmarshalStrict(content, &s.operator)
	}); err != nil {
		return nil, err
	}
	if len(s.wide.Rules) == 0 || len(s.own.Rules) == 0 || len(s.operator.Spec.Template.Spec.Containers) != 1 {
		return nil, errors.New("operator/config has not both roles and a Deployment of one container")
	}
	if err := s.readSamples(config("samples")); err != nil {
		return nil, err
	}
	if err := read(config("manifests", "bases", nameOperator+".clusterserviceversion.yaml"), &s.base); err != nil {
		return nil, err
	}
	if s.alerts, err = os.ReadFile(filepath.Join(root, folderChart, "files", "alerts.yaml")); err != nil {
		return nil, err
	}
	if s.icon, err = os.ReadFile(filepath.Join(root, "router/ui/web/src/icon.svg")); err != nil {
		return nil, err
	}
	return s, s.readChart(filepath.Join(root, folderChart))
}

// readChart reads what the chart says of the product.
func (s *sources) readChart(folder string) error {
	var chart struct{ AppVersion string }
	var values struct{ Monitoring struct{ Runbooks string } }
	if err := errors.Join(read(filepath.Join(folder, "Chart.yaml"), &chart), read(filepath.Join(folder, "values.yaml"), &values)); err != nil {
		return err
	}
	if s.version, s.runbooks = chart.AppVersion, values.Monitoring.Runbooks; s.version == "" || s.runbooks == "" {
		return errors.New("the chart has no appVersion, or no runbooks")
	}
	return nil
}

func read(path string, into any) error {
	content, err := os.ReadFile(path)
	if err == nil {
		err = yaml.Unmarshal(content, into)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

func readDefinitions(folder string) ([]definition, error) {
	paths, err := filepath.Glob(filepath.Join(folder, "*.yaml"))
	if err != nil {
		return nil, err
	}
	var list []definition
	for _, path := range paths {
		d := definition{name: filepath.Base(path)}
		if d.content, err = os.ReadFile(path); err != nil {
			return nil, err
		}
		if err := yaml.UnmarshalStrict(d.content, &d.crd); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		if len(d.crd.Spec.Versions) != 1 || d.crd.Spec.Versions[0].Schema == nil {
			return nil, fmt.Errorf("%s: expected one version with a schema", path)
		}
		list = append(list, d)
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("no definitions in %s", folder)
	}
	return list, nil
}

// readDocuments calls take for each document of a file.
func readDocuments(path string, take func(kind string, content []byte) error) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	for document := range bytes.SplitSeq(content, []byte("\n---\n")) {
		var head struct{ Kind string }
		err := yaml.Unmarshal(document, &head)
		if err == nil && head.Kind != "" {
			err = take(head.Kind, document)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	return nil
}

// readSamples reads those that the kustomization lists, in its order.
func (s *sources) readSamples(folder string) error {
	var list struct{ Resources []string }
	if err := read(filepath.Join(folder, "kustomization.yaml"), &list); err != nil {
		return err
	}
	for _, name := range list.Resources {
		var sample object
		if err := read(filepath.Join(folder, name), &sample); err != nil {
			return err
		}
		s.samples = append(s.samples, sample)
	}
	for i := range s.definitions {
		kind := s.definitions[i].crd.Spec.Names.Kind
		if !slices.ContainsFunc(s.samples, func(o object) bool { return o["kind"] == kind }) {
			return fmt.Errorf("%s has no %s", folder, kind)
		}
	}
	return nil
}
