package controller_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tickmesh/tickmesh/api/v1alpha1"
)

// The operator gives routers the users of the Secret that the spec names, and its own; a
// Secret that is not there, or is wrong, is told of and keeps nobody from going on.
func TestUsers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 4)
	w.failing = "Rules: "
	w.create("{shards: 6, replication: 2, nodes: {count: 3}, security: {authSecretName: users}}")
	w.until("the status says what is missing", func() bool {
		return strings.Contains(w.condition(v1alpha1.ConditionDegraded).Message, "secret users with the key auth.yaml is not there")
	})
	if args := w.deployment("demo-router").Spec.Template.Spec.Containers[0].Args; !strings.Contains(strings.Join(args, " "), "--auth-file=/etc/tickmesh/auth/auth.yaml") {
		t.Errorf("routers would let everybody in: %q", args)
	}
	users := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "users", Namespace: w.namespace},
		Data:       map[string][]byte{"auth.yaml": []byte("users: [{name: ann, tokens: [ab], rights: {default: write}}]")},
	}
	w.must(w.api.Create(t.Context(), users))
	w.until("the cluster is made", w.complete)
	secret := func(name string) *corev1.Secret {
		s := &corev1.Secret{}
		w.must(w.api.Get(t.Context(), w.key(name), s))
		return s
	}
	if text := string(secret("demo-auth").Data["auth.yaml"]); !strings.Contains(text, "name: ann") || !strings.Contains(text, "name: tickmesh-operator") {
		t.Error(text)
	}
	token := string(secret("demo-operator-token").Data["token"])
	if w.target.Token != token || !strings.HasPrefix(token, "tickmesh_") {
		t.Errorf("routers are shown %q", w.target.Token)
	}

	users = secret("users")
	users.Data["auth.yaml"] = []byte("users: [{name: tickmesh-operator}]")
	w.must(w.api.Update(t.Context(), users))
	w.change(func(s *v1alpha1.TickMeshClusterSpec) { s.Nodes.Count = 4 })
	w.until("the wrong users are told of, and the cluster goes on", func() bool {
		return w.cluster().Status.ReadyNodes == 4 && strings.Contains(w.condition(v1alpha1.ConditionDegraded).Message, "user tickmesh-operator is the operator's")
	})
	if text := string(secret("demo-auth").Data["auth.yaml"]); !strings.Contains(text, "name: ann") {
		t.Error("the wrong users were given to the routers: ", text)
	}
	users = secret("users")
	users.Data["auth.yaml"] = []byte("users: [{name: bob, tokens: [cd], rights: {default: read}}]")
	w.must(w.api.Update(t.Context(), users))
	w.until("the new users are there", func() bool {
		return strings.Contains(string(secret("demo-auth").Data["auth.yaml"]), "name: bob") && w.complete()
	})
	if string(secret("demo-operator-token").Data["token"]) != token {
		t.Error("the token was made anew")
	}
}

// What holds for databases is a file of nodes and routers once it can be read; what cannot
// be read changes nothing.
func TestDatabases(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	w.failing = "Rules: "
	w.create(small)
	w.until("the cluster is made", w.complete)
	rules := func() string {
		config := &corev1.ConfigMap{}
		if !w.found(w.api.Get(t.Context(), w.key("demo-databases"), config)) {
			return ""
		}
		return config.Data["databases.yaml"]
	}
	set := func(text string) { w.change(func(s *v1alpha1.TickMeshClusterSpec) { s.Databases = text }) }
	flag := func() bool {
		const argument = "--databases-file=/etc/tickmesh/databases/databases.yaml"
		node, router := w.statefulSet("demo-node").Spec.Template.Spec.Containers[0].Args, w.deployment("demo-router").Spec.Template.Spec.Containers[0].Args
		return strings.Contains(strings.Join(node, " "), argument) && strings.Contains(strings.Join(router, " "), argument)
	}
	set("databases: {a: {retention: 1m}}")
	w.until("what is wrong is told of", func() bool { return w.condition(v1alpha1.ConditionDegraded).Reason == "RulesFailed" })
	if flag() || rules() != "" {
		t.Fatal("pods are given what cannot be read")
	}
	const good = "databases: {a: {retention: 30d}}\n"
	set(good)
	w.until("pods have it", func() bool { return flag() && rules() == good && w.complete() })
	set("databases: {a: {retention: 1m}}")
	w.until("what is wrong is told of", func() bool { return w.condition(v1alpha1.ConditionDegraded).Reason == "RulesFailed" })
	if !flag() || rules() != good {
		t.Fatal("it was changed")
	}
	revision := w.statefulSet("demo-node").Generation
	set("databases: {a: {retention: 60d}}\n")
	w.until("pods have it", func() bool { return rules() != good && w.complete() })
	if w.statefulSet("demo-node").Generation != revision {
		t.Error("a change restarts the nodes")
	}
	set("")
	w.until("it is gone", func() bool { return !flag() && rules() == "" && w.complete() })
}
