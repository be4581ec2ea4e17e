package main

import (
	"bytes"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// usersFile is the one of the chart.
const usersFile = folderChart + "/files/users.yaml"

// Labels by which Kubernetes makes a role a part of its own. Who has edit has view, and who has
// admin has edit.
const (
	labelView  = "rbac.authorization.k8s.io/aggregate-to-view"
	labelEdit  = "rbac.authorization.k8s.io/aggregate-to-edit"
	labelAdmin = "rbac.authorization.k8s.io/aggregate-to-admin"
)

// userRoles makes the roles of people: files of operator/config, and the one of the chart last.
func userRoles(definitions []definition) ([]file, error) {
	var made []file
	var all bytes.Buffer
	for i := range definitions {
		d := &definitions[i]
		for _, role := range []rbacv1.ClusterRole{
			userRole(d, "editor", []string{"create", "delete", "get", "list", "patch", "update", "watch"}, labelEdit, labelAdmin),
			userRole(d, "viewer", []string{"get", "list", "watch"}, labelView),
		} {
			content, err := marshal(role)
			if err != nil {
				return nil, err
			}
			made = append(made, file{folderConfig + "/rbac/" + d.kind() + "_" + role.Name[len(d.kind())+1:] + "_role.yaml", content})
			all.WriteString("---\n")
			all.Write(content)
		}
	}
	return append(made, file{usersFile, all.Bytes()}), nil
}

// userRole makes a role with verbs for a resource, and those that its status and scale have of them.
func userRole(d *definition, name string, verbs []string, labels ...string) rbacv1.ClusterRole {
	role := rbacv1.ClusterRole{
		TypeMeta:   metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "ClusterRole"},
		ObjectMeta: metav1.ObjectMeta{Name: d.kind() + "-" + name, Labels: map[string]string{}},
	}
	for _, label := range labels {
		role.Labels[label] = "true"
	}
	rule := func(below string, verbs []string) {
		role.Rules = append(role.Rules, rbacv1.PolicyRule{
			APIGroups: []string{d.crd.Spec.Group}, Resources: []string{d.crd.Spec.Names.Plural + below}, Verbs: verbs,
		})
	}
	rule("", verbs)
	rule("/status", []string{"get"})
	if scales(d.crd.Spec.Versions[0]) {
		rule("/scale", slices.DeleteFunc(slices.Clone(verbs), func(verb string) bool {
			return !slices.Contains([]string{"get", "patch", "update"}, verb)
		}))
	}
	return role
}

func scales(v apiextensionsv1.CustomResourceDefinitionVersion) bool {
	return v.Subresources != nil && v.Subresources.Scale != nil
}

// marshal returns an object as YAML, without a time of creation that it has not.
func marshal(o any) ([]byte, error) {
	text, err := yaml.Marshal(o)
	if err != nil {
		return nil, err
	}
	for _, line := range []string{"  creationTimestamp: null\n", "status: {}\n"} {
		text = bytes.ReplaceAll(text, []byte(line), nil)
	}
	return text, nil
}

// alertRules makes the PrometheusRule of the chart's alerts.
func alertRules(alerts []byte, runbooks string) (file, error) {
	var all struct {
		Groups []struct {
			Name  string   `json:"name"`
			Rules []object `json:"rules"`
		} `json:"groups"`
	}
	if err := yaml.UnmarshalStrict(alerts, &all); err != nil {
		return file{}, err
	}
	for _, group := range all.Groups {
		for _, rule := range group.Rules {
			if err := addRunbook(rule, runbooks); err != nil {
				return file{}, err
			}
		}
	}
	content, err := marshal(object{
		"apiVersion": "monitoring.coreos.com/v1", "kind": "PrometheusRule",
		"metadata": object{"name": "operator", "namespace": "system", "labels": object{"app.kubernetes.io/name": nameOperator}},
		"spec":     object{"groups": all.Groups},
	})
	return file{folderConfig + "/prometheus/rules.yaml", content}, err
}
