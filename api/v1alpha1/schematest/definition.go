package schematest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	servervalidation "k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"sigs.k8s.io/yaml"
)

// Definition is the definition of one kind.
type Definition struct {
	structural *schema.Structural
	schema     servervalidation.SchemaValidator
	rules      *cel.Validator
}

// Load reads the definition of a kind, by its plural name, such as tickmeshclusters.
// Errors: a file that cannot be read, or what an API server would refuse it for, such
// as rules that cost too much.
func Load(plural string) (*Definition, error) {
	root, err := moduleRoot()
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(filepath.Join(root, "charts", "tickmesh", "crds", "tickmesh.dev_"+plural+".yaml"))
	if err != nil {
		return nil, err
	}
	external := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.UnmarshalStrict(text, external); err != nil {
		return nil, err
	}
	apiextensionsv1.SetDefaults_CustomResourceDefinition(external)
	apiextensionsv1.SetDefaults_CustomResourceDefinitionSpec(&external.Spec)
	external.Status.StoredVersions = []string{external.Spec.Versions[0].Name}
	internal := &apiextensions.CustomResourceDefinition{}
	if err := apiextensionsv1.Convert_v1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(external, internal, nil); err != nil {
		return nil, err
	}
	if errs := validation.ValidateCustomResourceDefinition(context.Background(), internal); len(errs) > 0 {
		return nil, errs.ToAggregate()
	}
	return newDefinition(internal)
}

func newDefinition(d *apiextensions.CustomResourceDefinition) (*Definition, error) {
	validation, err := apiextensions.GetSchemaForVersion(d, d.Spec.Versions[0].Name)
	if err != nil {
		return nil, err
	}
	structural, err := schema.NewStructural(validation.OpenAPIV3Schema)
	if err != nil {
		return nil, err
	}
	validator, _, err := servervalidation.NewSchemaValidator(validation.OpenAPIV3Schema)
	if err != nil {
		return nil, err
	}
	return &Definition{structural: structural, schema: validator, rules: cel.NewValidator(structural, true, celconfig.PerCallLimit)}, nil
}

// moduleRoot returns the folder of go.mod, at or above the present one.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("no folder with go.mod here or above")
		}
		dir = parent
	}
}

// Object is a resource as JSON decodes it.
type Object = map[string]any

// Read reads a resource from YAML, and fills in its defaults. Errors: text that is no
// YAML, or has a field that the definition does not know.
func (d *Definition) Read(text string) (Object, error) {
	object := Object{}
	asJSON, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(asJSON, &object); err != nil { // keeps integers as such
		return nil, err
	}
	options := schema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true}
	if unknown := pruning.PruneWithOptions(object, d.structural, true, options); len(unknown) > 0 {
		return nil, fmt.Errorf("unknown fields %q", unknown)
	}
	defaulting.Default(object, d.structural)
	return object, nil
}

// Into reads a resource from YAML, fills in its defaults, checks it, and decodes it
// into a type of v1alpha1.
func (d *Definition) Into(text string, into any) error {
	object, err := d.Read(text)
	if err != nil {
		return err
	}
	if err := d.Check(object, nil); err != nil {
		return err
	}
	return runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object, into, true)
}

// Check reports why an API server would refuse a resource; old is the one that it
// replaces, nil: it is new.
func (d *Definition) Check(object, old Object) error {
	var errs field.ErrorList
	if old == nil {
		errs = servervalidation.ValidateCustomResource(nil, object, d.schema)
	} else {
		errs = servervalidation.ValidateCustomResourceUpdate(nil, object, old, d.schema)
	}
	errs = append(errs, listtype.ValidateListSetsAndMaps(nil, d.structural, object)...)
	if len(errs) == 0 { // the rules take the schema for granted
		var before any // not a nil map: that would be an update
		if old != nil {
			before = old
		}
		errs, _ = d.rules.Validate(context.Background(), nil, d.structural, object, before, celconfig.RuntimeCELCostBudget)
	}
	return errs.ToAggregate()
}
