package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"sigs.k8s.io/yaml"
)

// kept are the words of a definition's schema that mean the same in JSON Schema, and
// that helm can check. Rules in CEL are left to the API server, and so are descriptions,
// which `kubectl explain` has.
var kept = []string{
	"type", "enum", "minimum", "maximum", "minLength", "maxLength", "pattern", "minItems", "maxItems", "minProperties", "maxProperties", "required",
}

// schemaFile returns the schema of the values, of which the base leaves out cluster.spec.
func schemaFile(base, definition []byte) ([]byte, error) {
	var whole map[string]any
	if err := json.Unmarshal(base, &whole); err != nil {
		return nil, err
	}
	var crd struct {
		Spec struct {
			Versions []struct {
				Schema struct {
					OpenAPIV3Schema struct{ Properties map[string]map[string]any }
				}
			}
		}
	}
	if err := yaml.Unmarshal(definition, &crd); err != nil {
		return nil, err
	}
	if len(crd.Spec.Versions) != 1 || crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"] == nil {
		return nil, errors.New("the definition has no schema of a spec, or several versions")
	}
	spec, err := strict(crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"])
	if err != nil {
		return nil, err
	}
	delete(spec, "required") // what is left out has defaults
	whole["$defs"] = map[string]any{"clusterSpec": spec}
	return indented(whole)
}

func indented(o any) ([]byte, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	err := encoder.Encode(o)
	return out.Bytes(), err
}

// strict returns a schema of a definition as JSON Schema, which refuses what it does not
// name, as the API server would drop it.
func strict(of map[string]any) (map[string]any, error) {
	schema := map[string]any{}
	for _, word := range kept {
		if value, ok := of[word]; ok {
			schema[word] = value
		}
	}
	if of["x-kubernetes-int-or-string"] == true {
		schema["type"] = []any{"integer", "string"}
	}
	if kind, ok := of["x-kubernetes-list-type"]; ok && kind == "set" {
		schema["uniqueItems"] = true
	}
	for _, word := range []string{"items", "additionalProperties"} {
		if inner, ok := of[word].(map[string]any); ok {
			converted, err := strict(inner)
			if err != nil {
				return nil, err
			}
			schema[word] = converted
		}
	}
	properties, ok := of["properties"].(map[string]any)
	if !ok {
		return schema, nil
	}
	all := map[string]any{}
	for name, value := range properties {
		inner, ok := value.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("property %s has no schema", name)
		}
		converted, err := strict(inner)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		all[name] = converted
	}
	schema["properties"], schema["additionalProperties"] = all, false
	return schema, nil
}
