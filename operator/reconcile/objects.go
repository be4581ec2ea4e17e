package reconcile

import (
	"context"
	"errors"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/tickmesh/tickmesh/api/v1alpha1"
	"github.com/tickmesh/tickmesh/operator/build"
	"github.com/tickmesh/tickmesh/operator/inventory"
	"github.com/tickmesh/tickmesh/operator/upgrade"
)

// facts are what the objects of the cluster depend on now.
func (p *pass) facts() build.Facts {
	f := p.Defaults
	p.nodes.addTo(&f)
	p.etcd.addTo(&f)
	p.certificates.addTo(&f)
	f.Databases, f.LoadBalancerHosts = p.access.databases, p.seen.LoadBalancerHosts
	f.PodMonitors, f.ServiceMonitors = p.seen.PodMonitors, p.seen.ServiceMonitors
	f.MetricsAtHTTPPort, f.NoMetricsPort = p.seen.MetricsAtHTTPPort, lacksMetricsPort(p.cluster, p.seen.Router)
	f.ClientsKeptOut = p.bootstrap.Closed()
	f.Stopped = p.hibernation.Stopped
	f.Restarted = restarted(p.cluster, p.seen)
	f.CertificateImage = certificateImage(p.cluster, p.seen.NodeGroups[0].Set, f)
	return f
}

// restarted returns what the pods of each component were restarted for last.
func restarted(c *v1alpha1.TickMeshCluster, seen *inventory.Inventory) map[string]string {
	words := map[string]string{}
	for _, component := range build.Restartable(c) {
		if present := seen.Workloads(component); len(present) > 0 {
			w, _ := workloadOf(present[0])
			words[component] = build.RestartedFor(&w.template.ObjectMeta)
		} else if component == build.ComponentNode { // its pods are there while it is made anew
			for _, pod := range seen.NodePods() {
				words[component] = build.RestartedFor(&pod.ObjectMeta)
			}
		}
	}
	return words
}

// lacksMetricsPort reports whether the routers stay without a port of their own for metrics: they
// run an image of spec that they had before there was one.
func lacksMetricsPort(c *v1alpha1.TickMeshCluster, present *appsv1.Deployment) bool {
	if present == nil || c.Spec.Image == "" {
		return false
	}
	pods := &present.Spec.Template.Spec
	return pods.Containers[0].Image == c.Spec.Image && !build.HasMetricsPort(pods)
}

// certificateImage returns what pods make their keys with: what the operator was released with.
// Where spec names the image of nodes, a new operator leaves it as it is until their template
// changes for another reason: it restarts no node.
func certificateImage(c *v1alpha1.TickMeshCluster, present *appsv1.StatefulSet, f build.Facts) string {
	if present == nil || c.Spec.Image == "" {
		return f.Image
	}
	kept := f
	if kept.CertificateImage = build.CertificateImage(&present.Spec.Template.Spec); kept.CertificateImage == "" {
		return f.Image
	}
	wanted, _ := workloadOf(build.NodeStatefulSet(c, kept, ""))
	if digest, err := wanted.digest(); err != nil || digest != present.Annotations[annotationTemplate] {
		return f.Image
	}
	return kept.CertificateImage
}

// applyObjects applies what the cluster consists of, and deletes what other settings made.
func (p *pass) applyObjects(ctx context.Context) error {
	p.access.wrong = p.access.keep(ctx)
	f := p.facts()
	objects, err := build.Objects(p.cluster, f)
	if err != nil {
		return err
	}
	if err := p.templates.decide(objects, p.versions(), p.etcd.err == nil); err != nil {
		return err
	}
	// What is refused of one component ends what comes after it of the same one: pods do not
	// start without what they need.
	var failed []error
	stopped := map[string]bool{}
	if p.hibernation.Stopped[build.ComponentRouter] {
		// Their number is the operator's until they start again.
	} else if err := p.keepReplicas(ctx); err != nil {
		stopped[build.ComponentRouter], failed = true, append(failed, err)
	}
	for _, object := range objects {
		component := object.GetLabels()[build.LabelComponent]
		if stopped[component] || p.nodes.isDelayed(object) {
			continue
		}
		if err := p.applyInTurn(ctx, object); err != nil {
			stopped[component], failed = true, append(failed, err)
		} else if _, is := object.(*corev1.ConfigMap); is && component == build.ComponentEtcd {
			p.etcd.configured = true
		}
	}
	unwanted := build.Unwanted(p.cluster, f)
	for _, config := range p.seen.UnusedEnvoyConfigs(envoyConfig(objects)) {
		unwanted = append(unwanted, config)
	}
	for _, object := range unwanted {
		if err := p.objects.Remove(ctx, object); err != nil {
			failed = append(failed, err)
		}
	}
	return errors.Join(failed...)
}

// envoyConfig returns the name of the configuration of Envoy among objects; empty: there is none.
func envoyConfig(objects []build.Object) string {
	for _, object := range objects {
		if _, is := object.(*corev1.ConfigMap); is && object.GetLabels()[build.LabelComponent] == build.ComponentEnvoy {
			return object.GetName()
		}
	}
	return ""
}

// versions returns those that run and that are asked for.
func (p *pass) versions() versions {
	v := versions{
		running: strings.Split(p.cluster.Status.Version, ","),
		image:   build.Image(p.cluster, p.Defaults), allowed: p.cluster.Annotations[v1alpha1.AnnotationAllowVersion],
	}
	if p.nodes.known.ViewErr == nil {
		v.running = nil
		for _, node := range p.nodes.known.View.Nodes {
			v.running = append(v.running, node.Version)
		}
	}
	if newest := upgrade.Known(p.cluster.Status.NewestVersion, p.cluster.Status.Version); newest != "" {
		v.running = append(v.running, newest) // also when the nodes that ran it are away
	}
	return v
}

// applyInTurn applies an object as it is to be now.
func (p *pass) applyInTurn(ctx context.Context, object build.Object) error {
	if err := p.templates.stamp(object); err != nil {
		return err
	}
	return p.objects.Apply(ctx, object)
}
