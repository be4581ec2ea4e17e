package main

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// Names of the bundle.
const (
	nameOperator = "tickmesh-operator"
	namePrefix   = "tickmesh-" // as operator/config/default puts it before names
	channel      = "alpha"
	// imageVariable begins the names of variables that have images beside the container's.
	imageVariable = "RELATED_IMAGE_"
)

// addRunbook tells where the runbook of an alert is, as the chart does.
func addRunbook(rule object, runbooks string) error {
	name, _ := rule["alert"].(string)
	annotations, _ := rule["annotations"].(map[string]any)
	if name == "" || annotations == nil {
		return errors.New("a rule without a name or annotations")
	}
	annotations["runbook_url"] = runbooks + "#" + strings.ToLower(name)
	return nil
}

// bundleFiles makes the bundle; users are the files of the roles for people.
func bundleFiles(s *sources, users []file) ([]file, error) {
	version, err := serviceVersion(s)
	if err != nil {
		return nil, err
	}
	made := []file{{folderBundle + "/manifests/" + nameOperator + ".clusterserviceversion.yaml", version}}
	for i := range s.definitions {
		made = append(made, file{folderBundle + "/manifests/" + s.definitions[i].name, s.definitions[i].content})
	}
	for _, user := range users {
		if user.path == usersFile {
			continue
		}
		var role rbacv1.ClusterRole
		if err := yaml.UnmarshalStrict(user.content, &role); err != nil {
			return nil, err
		}
		role.Name = namePrefix + role.Name
		content, err := marshal(role)
		if err != nil {
			return nil, err
		}
		made = append(made, file{folderBundle + "/manifests/" + filepath.Base(user.path), content})
	}
	labels := bundleLabels()
	annotations, err := marshal(object{"annotations": labels})
	if err != nil {
		return nil, err
	}
	return append(made, file{folderBundle + "/metadata/annotations.yaml", annotations}, dockerfile(labels)), nil
}

func bundleLabels() map[string]string {
	const bundle = "operators.operatorframework.io.bundle."
	return map[string]string{
		bundle + "mediatype.v1": "registry+v1", bundle + "manifests.v1": "manifests/", bundle + "metadata.v1": "metadata/",
		bundle + "package.v1": nameOperator, bundle + "channels.v1": channel, bundle + "channel.default.v1": channel,
	}
}

// dockerfile makes what an image of the bundle is built by, from operator/.
func dockerfile(labels map[string]string) file {
	text := &strings.Builder{}
	text.WriteString("# docker build -f operator/bundle.Dockerfile operator\nFROM scratch\n")
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		fmt.Fprintf(text, "LABEL %s=%s\n", key, labels[key])
	}
	text.WriteString("COPY bundle/manifests /manifests/\nCOPY bundle/metadata /metadata/\n")
	return file{"operator/bundle.Dockerfile", []byte(text.String())}
}

// serviceVersion makes the ClusterServiceVersion from its base.
func serviceVersion(s *sources) ([]byte, error) {
	examples, err := json.MarshalIndent(s.samples, "", "  ")
	if err != nil {
		return nil, err
	}
	metadata, _ := s.base["metadata"].(map[string]any)
	annotations, _ := metadata["annotations"].(map[string]any)
	spec, _ := s.base["spec"].(map[string]any)
	owned, err := ownedOf(spec)
	if annotations == nil || err != nil {
		return nil, errors.Join(errors.New("the base has no annotations, or no owned definitions"), err)
	}
	container := &s.operator.Spec.Template.Spec.Containers[0]
	metadata["name"] = nameOperator + ".v" + s.version
	metadata["namespace"] = "placeholder"
	annotations["alm-examples"] = string(examples)
	annotations["containerImage"] = container.Image
	for i := range s.definitions {
		if err := describe(&s.definitions[i], owned); err != nil {
			return nil, err
		}
	}
	spec["version"] = s.version
	spec["relatedImages"] = relatedImages(container)
	spec["install"] = install(s)
	spec["icon"] = []object{{"mediatype": "image/svg+xml", "base64data": base64.StdEncoding.EncodeToString(s.icon)}}
	return marshal(s.base)
}

// ownedOf returns the definitions that a base says are the operator's.
func ownedOf(spec object) ([]any, error) {
	crds, _ := spec["customresourcedefinitions"].(map[string]any)
	owned, is := crds["owned"].([]any)
	if !is {
		return nil, errors.New("customresourcedefinitions.owned is no list")
	}
	return owned, nil
}

// relatedImages lists the operator's image and those that it is told of.
func relatedImages(container *corev1.Container) []object {
	images := []object{{"name": "operator", "image": container.Image}}
	for _, variable := range container.Env {
		if name, is := strings.CutPrefix(variable.Name, imageVariable); is {
			images = append(images, object{"name": strings.ToLower(name), "image": variable.Value})
		}
	}
	return images
}

// install holds how the operator is run, and what it may do.
func install(s *sources) object {
	deployment := s.operator.DeepCopy()
	deployment.Spec.Template.Spec.ServiceAccountName = nameOperator
	return object{
		"strategy": "deployment",
		"spec": object{
			"deployments":        []object{{"name": nameOperator, "label": deployment.Labels, "spec": deployment.Spec}},
			"clusterPermissions": []object{{"serviceAccountName": nameOperator, "rules": s.wide.Rules}},
			"permissions":        []object{{"serviceAccountName": nameOperator, "rules": s.own.Rules}},
		},
	}
}

// describe completes what the base says of a definition.
func describe(d *definition, owned []any) error {
	names := d.crd.Spec.Names
	at := slices.IndexFunc(owned, func(o any) bool { m, _ := o.(map[string]any); return m["kind"] == names.Kind })
	if at < 0 {
		return fmt.Errorf("the base does not own %s", names.Kind)
	}
	one := owned[at].(map[string]any)
	one["name"], one["version"] = d.crd.Name, d.crd.Spec.Versions[0].Name
	one["description"] = sentence(d.crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Description)
	one["specDescriptors"] = descriptors(d.schema("spec"))
	one["statusDescriptors"] = descriptors(d.schema("status"))
	return nil
}

// descriptors has one for each field of a schema, and for what consoles show in a form of its own
// in those below it.
func descriptors(s *apiextensionsv1.JSONSchemaProps) []object {
	var list []object
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		field := s.Properties[name]
		list = append(list, descriptor(name, name, &field))
		for _, inner := range slices.Sorted(maps.Keys(field.Properties)) {
			below := field.Properties[inner]
			if control(inner, &below) != "" {
				list = append(list, descriptor(name+"."+inner, name+" "+inner, &below))
			}
		}
	}
	return list
}

func descriptor(path, name string, field *apiextensionsv1.JSONSchemaProps) object {
	d := object{"path": path, "displayName": words(name), "description": sentence(field.Description)}
	last := path[strings.LastIndexByte(path, '.')+1:]
	if c := control(last, field); c != "" {
		d["x-descriptors"] = []string{"urn:alm:descriptor:" + c}
	}
	return d
}

// control returns what a console shows a field with; empty: as text.
func control(name string, field *apiextensionsv1.JSONSchemaProps) string {
	switch {
	case name == "conditions":
		return "io.kubernetes.conditions"
	case name == "resources":
		return "com.tectonic.ui:resourceRequirements"
	case (name == "count" || name == "replicas") && field.Type == "integer":
		return "com.tectonic.ui:podCount"
	case field.Type == "boolean":
		return "com.tectonic.ui:booleanSwitch"
	}
	return ""
}

// words returns a name as words: "walSync of" becomes "Wal sync of".
func words(name string) string {
	text := &strings.Builder{}
	before := ' '
	for _, r := range name {
		if unicode.IsUpper(r) && unicode.IsLower(before) {
			text.WriteByte(' ')
		}
		text.WriteRune(unicode.ToLower(r))
		before = r
	}
	return strings.ToUpper(text.String()[:1]) + text.String()[1:]
}

// sentence returns the first sentence of a description, in one line.
func sentence(description string) string {
	line := strings.Join(strings.Fields(description), " ")
	if first, _, more := strings.Cut(line, ". "); more {
		return first + "."
	}
	return line
}
