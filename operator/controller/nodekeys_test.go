package controller_test

import (
	"crypto/x509"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tickmesh/tickmesh/api/certificate"
	"github.com/tickmesh/tickmesh/api/v1alpha1"
	"github.com/tickmesh/tickmesh/operator/build"
	"github.com/tickmesh/tickmesh/operator/pki"
	"github.com/tickmesh/tickmesh/operator/reconcile"
)

// nodeLeaf returns the certificate of a node's pod; nil: it has none.
func (w *world) nodeLeaf(name string) *pki.Leaf {
	w.t.Helper()
	pod := &corev1.Pod{}
	if !w.found(w.api.Get(w.t.Context(), w.key(name), pod)) {
		return nil
	}
	leaf, err := pki.ReadAnnotated(pod)
	if err != nil {
		return nil
	}
	return leaf
}

// authority returns that of the cluster.
func (w *world) authority() *pki.CA {
	w.t.Helper()
	secret := &corev1.Secret{}
	w.must(w.api.Get(w.t.Context(), w.key("demo-ca"), secret))
	authority, err := pki.ReadCA(secret)
	w.must(err)
	return authority
}

// Each node has a certificate of its own name and of a key that nobody else has; it is renewed for
// the same key, and a pod that is made anew has another one, in a pause, too.
func TestNodesKeepKeys(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	w.create("{shards: 6, replication: 2, nodes: {count: 3}}")
	w.until("the cluster is made", w.complete)
	for _, name := range []string{"demo-node-0", "demo-node-1", "demo-node-2"} {
		leaf := w.nodeLeaf(name)
		is, err := certificate.NameOf(leaf.Certificate)
		if err != nil || is != (certificate.Name{Cluster: clusterName, Role: certificate.RoleNode, ID: name}) {
			t.Errorf("%s is %v, %v", name, is, err)
		}
		if leaf.Certificate.VerifyHostname(name+".demo-node."+w.namespace+".svc") != nil || leaf.Certificate.VerifyHostname("demo-node-9.demo-node."+w.namespace+".svc") == nil {
			t.Errorf("%s is valid for %q", name, leaf.Certificate.DNSNames)
		}
	}
	if w.found(w.api.Get(t.Context(), w.key("demo-node-tls"), &corev1.Secret{})) {
		t.Error("there is a certificate that they could share")
	}

	first := w.nodeLeaf("demo-node-0").Certificate
	w.now = first.NotAfter.AddDate(0, 0, -20)
	w.until("it is renewed", func() bool { return !w.nodeLeaf("demo-node-0").Certificate.Equal(first) })
	renewed := w.nodeLeaf("demo-node-0").Certificate
	if !w.podKeys[w.pod("demo-node-0").UID].PublicKey.Equal(renewed.PublicKey) || !renewed.NotAfter.After(first.NotAfter) {
		t.Error("it is of another key, or ends as early")
	}

	w.change(func(s *v1alpha1.TickMeshClusterSpec) { s.Paused = true })
	w.must(w.api.Delete(t.Context(), w.pod("demo-node-0"), client.GracePeriodSeconds(0)))
	w.stopProcess("demo-node-0")
	w.until("the pod is back in a pause", func() bool { return w.readyNodes() == 3 })
	if again := w.nodeLeaf("demo-node-0").Certificate; !w.podKeys[w.pod("demo-node-0").UID].PublicKey.Equal(again.PublicKey) || renewed.Equal(again) {
		t.Error("it has the certificate of the pod before")
	}

	// Whoever adds an authority to what a pod trusts, has it taken away again.
	pod := w.pod("demo-node-1")
	before := pod.DeepCopy()
	other, err := pki.NewCA(pki.Defaults(), clusterName, nil, w.now)
	w.must(err)
	pod.Annotations[pki.AnnotationCABundle] += string(certificate.EncodeCertificates(other.Signer.Certificate))
	w.must(w.api.Patch(t.Context(), pod, client.MergeFrom(before)))
	w.until("the other authority is taken away", func() bool { return len(w.nodeLeaf("demo-node-1").Bundle) == 1 })
}

// A pod is certified under its own name, and only if the set of the nodes has made it.
func TestNodesAskForTheirNames(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 4)
	w.create("{shards: 6, replication: 2, nodes: {count: 3}}")
	w.until("the cluster is made", w.complete)

	// A machine that was taken over asks for the name of another node.
	name := func(id string) certificate.Name {
		return certificate.Name{Cluster: clusterName, Role: certificate.RoleNode, ID: id}
	}
	w.failing = "Certificates"
	had := w.nodeLeaf("demo-node-0").Certificate
	for _, id := range []string{"demo-node-1", certificate.AnyID} {
		w.ask(w.pod("demo-node-0"), name(id))
		w.until("it is told", func() bool {
			c := w.condition(v1alpha1.ConditionDegraded)
			return c.Reason == "CertificatesFailed" && strings.Contains(c.Message, "demo-node-0: it asks for a name that is not the pod's: tickmesh://demo/node/"+id)
		})
		if leaf := w.nodeLeaf("demo-node-0"); !leaf.Certificate.Equal(had) {
			t.Fatalf("it has %v", leaf.Certificate.URIs)
		}
	}
	w.ask(w.pod("demo-node-0"), name("demo-node-0"))
	w.until("its own name is certified", func() bool {
		return w.podKeys[w.pod("demo-node-0").UID].PublicKey.Equal(w.nodeLeaf("demo-node-0").Certificate.PublicKey)
	})
	w.failing = ""

	// Somebody makes a pod that looks like a node's.
	template := w.statefulSet("demo-node").Spec.Template
	made := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "demo-node-7", Namespace: w.namespace, Labels: template.Labels}, Spec: template.Spec}
	made.Spec.Volumes = append(made.Spec.Volumes, corev1.Volume{Name: "data", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}})
	made.Spec.PriorityClassName = ""
	w.must(w.api.Create(t.Context(), made))
	w.ask(made, name("demo-node-7"))
	for range 3 {
		w.pass()
	}
	if w.nodeLeaf("demo-node-7") != nil {
		t.Error("it is certified")
	}
}

// A request that Kubernetes has lost was answered: its pod has a certificate, which is renewed.
func TestRequestIsLost(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	w.create(small)
	w.until("the cluster is made", w.complete)
	pod := w.pod("demo-node-0")
	before := pod.DeepCopy()
	pod.Status.InitContainerStatuses[0].State.Terminated.Message = "Unable to get init container status from container runtime and pod has been initialized, treat it as exited normally"
	w.must(w.api.Status().Patch(t.Context(), pod, client.MergeFrom(before)))
	first := w.nodeLeaf("demo-node-0").Certificate
	w.now = first.NotAfter.AddDate(0, 0, -20)
	w.until("it is renewed", func() bool { return !w.nodeLeaf("demo-node-0").Certificate.Equal(first) })
	if !w.podKeys[pod.UID].PublicKey.Equal(w.nodeLeaf("demo-node-0").Certificate.PublicKey) || !w.complete() {
		t.Fatalf("%+v", w.cluster().Status.Conditions)
	}
}

// Members of etcd are not started again for an authority that cannot be written down, which is
// another one in each pass.
func TestAuthorityIsNotWritten(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	w.create(small)
	w.until("the cluster is made", w.complete)
	secret, immutable := &corev1.Secret{}, true
	w.must(w.api.Get(t.Context(), w.key("demo-ca"), secret))
	secret.Immutable = &immutable
	w.must(w.api.Update(t.Context(), secret))
	c := w.cluster()
	c.Annotations = map[string]string{reconcile.AnnotationRotate: "now"}
	w.must(w.api.Update(t.Context(), c))
	w.failing = "Certificates"
	hash := w.etcdHash()
	for range 5 {
		w.step()
	}
	if is := w.etcdHash(); is != hash || w.condition(v1alpha1.ConditionDegraded).Reason != "CertificatesFailed" {
		t.Fatalf("etcd is to trust %s, and trusted %s: %+v", is, hash, w.cluster().Status.Conditions)
	}
}

// A cluster whose nodes shared a certificate moves to one for each, one node after the other; the
// shared one is there until the last has its own, and then nobody takes it any more.
func TestSharedCertificateGoes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	w.create("{shards: 6, replication: 2, nodes: {count: 3}}")
	w.until("the cluster is made", w.complete)
	w.change(func(s *v1alpha1.TickMeshClusterSpec) { s.Paused = true })
	shared := w.shareCertificate()

	w.change(func(s *v1alpha1.TickMeshClusterSpec) { s.Paused = false })
	key := func() []byte {
		secret := &corev1.Secret{}
		w.must(w.api.Get(t.Context(), w.key("demo-node-tls"), secret))
		return secret.Data[corev1.TLSPrivateKeyKey]
	}
	w.until("all nodes have their own", func() bool {
		sharing := 0
		for _, pod := range w.nodePods() {
			if !build.KeepsKey(&pod.Spec) {
				sharing++
			}
		}
		if sharing > 0 && len(key()) == 0 {
			t.Fatalf("the key is gone, and %d pods use it", sharing)
		}
		if ready := w.readyNodes(); ready < 2 {
			t.Fatalf("%d nodes of 3 are ready", ready)
		}
		return sharing == 0 && w.complete()
	})
	w.until("the key is thrown away", func() bool { return len(key()) == 0 })

	takes := func() (who []string) {
		for _, pod := range w.nodePods() {
			leaf, err := pki.ReadAnnotated(&pod)
			w.must(err)
			if slices.ContainsFunc(leaf.Bundle, func(a *x509.Certificate) bool { return shared.CheckSignatureFrom(a) == nil }) {
				who = append(who, pod.Name)
			}
		}
		return who
	}
	seen := map[string]bool{}
	for range 60 {
		if len(takes()) == 0 {
			break
		}
		w.now = w.now.Add(pki.Defaults().PropagationDelay / 4)
		w.step()
		a := w.authority()
		if a.Next != nil && !seen["introduced"] {
			seen["introduced"] = true
		}
		if a.Next == nil && len(a.Old) > 0 && !seen["promoted"] {
			seen["promoted"] = true
			// etcd reads whom it trusts when it starts.
			var pods corev1.PodList
			w.must(w.api.List(t.Context(), &pods, client.InNamespace(w.namespace), client.MatchingLabels{build.LabelComponent: build.ComponentEtcd}))
			want := w.etcdHash()
			for i := range pods.Items {
				if got := pods.Items[i].Annotations[build.AnnotationConfigHash]; got == "" || got != want {
					t.Errorf("%s was started with authorities %q, and the next one signs: %q", pods.Items[i].Name, got, want)
				}
			}
		}
	}
	if who := takes(); len(who) > 0 || !seen["introduced"] || !seen["promoted"] {
		t.Errorf("the shared certificate is taken by %v still: %v", who, seen)
	}
	w.until("all is well", w.complete)
	signer := w.authority().Signer.Certificate
	for range 3 {
		w.now = w.now.Add(pki.Defaults().PropagationDelay)
		w.step()
	}
	if !w.authority().Signer.Certificate.Equal(signer) {
		t.Error("the authority is replaced again and again")
	}
}

func (w *world) readyNodes() (ready int) {
	w.t.Helper()
	for _, pod := range w.nodePods() {
		if len(pod.Status.Conditions) > 0 && pod.Status.Conditions[0].Status == corev1.ConditionTrue {
			ready++
		}
	}
	return ready
}

func (w *world) etcdHash() string {
	return w.statefulSet("demo-etcd").Spec.Template.Annotations[build.AnnotationConfigHash]
}

func (w *world) nodePods() []corev1.Pod {
	w.t.Helper()
	var pods corev1.PodList
	w.must(w.api.List(w.t.Context(), &pods, client.InNamespace(w.namespace), client.MatchingLabels{build.LabelComponent: build.ComponentNode}))
	return pods.Items
}

// shareCertificate makes a cluster one of an older operator: its nodes have a certificate in a
// Secret, and etcd's pods do not say whom they trust.
func (w *world) shareCertificate() *x509.Certificate {
	w.t.Helper()
	c := w.cluster()
	leaf, err := w.authority().Issue(pki.Defaults(), pki.Holder{Identity: certificate.Identity{
		CommonName: "demo-node", Hosts: build.DNSNames(c, build.IdentityNode), Name: build.PeerName(c, build.IdentityNode),
	}}, w.now)
	w.must(err)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
		Name: "demo-node-tls", Namespace: w.namespace, Labels: build.Labels(c, "tls"),
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(c, v1alpha1.GroupVersion().WithKind(v1alpha1.KindCluster))},
	}, Type: corev1.SecretTypeTLS}
	w.must(leaf.Write(secret))
	w.must(w.api.Create(w.t.Context(), secret))
	for _, name := range []string{"demo-node", "demo-etcd"} {
		set := w.statefulSet(name)
		template := &set.Spec.Template
		template.Spec.InitContainers = nil
		maps.DeleteFunc(template.Annotations, func(key, _ string) bool { return key == build.AnnotationConfigHash })
		w.must(w.api.Update(w.t.Context(), set))
	}
	var pods corev1.PodList
	w.must(w.api.List(w.t.Context(), &pods, client.InNamespace(w.namespace), client.MatchingLabels{build.LabelCluster: clusterName}))
	for i := range pods.Items {
		if pods.Items[i].Labels[appsv1.StatefulSetRevisionLabel] != "" {
			w.stopProcess(pods.Items[i].Name)
			w.must(client.IgnoreNotFound(w.api.Delete(w.t.Context(), &pods.Items[i], client.GracePeriodSeconds(0))))
		}
	}
	w.until("the pods of the older operator run", func() bool {
		for _, pod := range w.nodePods() {
			if build.KeepsKey(&pod.Spec) {
				return false
			}
		}
		return w.readyNodes() == 3
	})
	return leaf.Certificate
}

// An authority that is lost is replaced also while a member of etcd has no machine, or one that
// says nothing: it holds nothing up, pods that are made anew get their certificates, and it takes
// part again when it is back, although it trusts the lost authority only.
func TestAuthorityIsLostBesideAMember(t *testing.T) {
	t.Parallel()
	for what, lose := range map[string]func(w *world, member string){
		"its machine is gone": func(w *world, member string) {
			machine := w.machineOf(member)
			w.removeMachine(machine)
			w.must(w.api.Delete(t.Context(), w.pod(member), client.GracePeriodSeconds(0)))
		},
		"its machine is silent": func(w *world, member string) { w.setMachine(w.machineOf(member), false) },
		"its pod is gone, its machine silent": func(w *world, member string) {
			w.setMachine(w.machineOf(member), false)
			w.must(w.api.Delete(t.Context(), w.pod(member), client.GracePeriodSeconds(0)))
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 4)
			w.create("{shards: 6, replication: 2, replaceAfter: 24h, nodes: {count: 3}}")
			w.until("the cluster is made", w.complete)
			taken := map[string]bool{}
			for _, pod := range w.nodePods() {
				taken[pod.Spec.NodeName] = true
			}
			member, machine := "", ""
			for ordinal := range 3 {
				name := fmt.Sprintf("demo-etcd-%d", ordinal)
				if machine = w.machineOf(name); !taken[machine] {
					member = name
					break
				}
			}
			lose(w, member)
			w.must(w.api.Delete(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "demo-ca", Namespace: w.namespace}}))
			w.step()
			before := w.pod("demo-node-0").UID
			w.must(w.api.Delete(t.Context(), w.pod("demo-node-0"), client.GracePeriodSeconds(0)))
			w.stopProcess("demo-node-0")
			w.until("a new pod has its certificate", func() bool {
				w.now = w.now.Add(time.Minute) // what was written settles
				pod := &corev1.Pod{}
				if !w.found(w.api.Get(t.Context(), w.key("demo-node-0"), pod)) || pod.UID == before {
					return false
				}
				_, err := pki.ReadAnnotated(pod)
				return err == nil
			})
			if !w.found(w.api.Get(t.Context(), client.ObjectKey{Name: machine}, &corev1.Node{})) {
				return
			}
			w.setMachine(machine, true)
			w.until("all is well", w.complete)
			for _, m := range w.etcd.members {
				if !m.Healthy {
					t.Errorf("%+v is not healthy", m)
				}
			}
		})
	}
}

// While Kubernetes hears of no machine, as after it was itself put back, members of etcd run on: an
// authority that is lost meanwhile is replaced only when they can be restarted, as none would trust the others
// nor the operator.
func TestAuthorityIsLostBesideAllMembers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	w.create("{shards: 6, replication: 2, replaceAfter: 24h, nodes: {count: 3}}")
	w.until("the cluster is made", w.complete)
	for machine := range w.machines {
		w.setMachine(machine, false)
	}
	w.must(w.api.Delete(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "demo-ca", Namespace: w.namespace}}))
	for range 20 {
		w.now = w.now.Add(time.Minute) // what was written settles
		w.step()
	}
	for machine := range w.machines {
		w.setMachine(machine, true)
	}
	w.until("an authority signs, and all is well", func() bool {
		w.now = w.now.Add(time.Minute)
		secret := &corev1.Secret{}
		if !w.found(w.api.Get(t.Context(), w.key("demo-ca"), secret)) {
			return false
		}
		authority, err := pki.ReadCA(secret)
		return err == nil && authority.Signer.Key != nil && w.complete()
	})
}
