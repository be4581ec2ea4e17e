package reconcile

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tickmesh/tickmesh/api/v1alpha1"
	"github.com/tickmesh/tickmesh/operator/build"
	"github.com/tickmesh/tickmesh/operator/upgrade"
)

// Annotations of StatefulSets and Deployments.
const (
	// annotationTemplate has the digest of the pod template, as it was applied last.
	annotationTemplate = v1alpha1.Group + "/template"
	// annotationRelease names the operator that has applied it, and what it was released with.
	annotationRelease = v1alpha1.Group + "/release"
)

// workload is a StatefulSet or Deployment as it is or is to be.
type workload struct {
	meta     *metav1.ObjectMeta
	template *corev1.PodTemplateSpec
}

// workloadOf returns what an object is as a workload; false: it is none.
func workloadOf(object build.Object) (workload, bool) {
	switch o := object.(type) {
	case *appsv1.StatefulSet:
		return workload{&o.ObjectMeta, &o.Spec.Template}, true
	case *appsv1.Deployment:
		return workload{&o.ObjectMeta, &o.Spec.Template}, true
	}
	return workload{}, false
}

func (w workload) component() string { return w.meta.Labels[build.LabelComponent] }

// digest returns the digest of the pod template.
func (w workload) digest() (string, error) {
	encoded, err := json.Marshal(w.template)
	sum := sha256.Sum256(encoded)
	return hex.EncodeToString(sum[:]), err
}

// presentWorkload returns a component as it is; false: it does not exist.
func (p *pass) presentWorkload(component string) (workload, bool) {
	switch component {
	case build.ComponentEtcd:
		if p.seen.etcdSet != nil {
			return workloadOf(p.seen.etcdSet)
		}
	case build.ComponentNode:
		if p.seen.nodeSet != nil {
			return workloadOf(p.seen.nodeSet)
		}
	case build.ComponentRouter:
		if p.seen.router != nil {
			return workloadOf(p.seen.router)
		}
	case build.ComponentEnvoy:
		if p.seen.envoy != nil {
			return workloadOf(p.seen.envoy)
		}
	}
	return workload{}, false
}

// planUpgrade decides which components keep their pod templates for now.
func (p *pass) planUpgrade(objects []build.Object) error {
	running := strings.Split(p.cluster.Status.Version, ",")
	if p.nodes.viewErr == nil {
		running = nil
		for _, node := range p.nodes.view.Nodes {
			running = append(running, node.Version)
		}
	}
	var f upgrade.Facts
	begun, ofNewOperator, settled, newImage := false, false, true, false
	for _, object := range objects {
		wanted, is := workloadOf(object)
		if !is {
			continue
		}
		component, err := p.upgradeComponent(wanted)
		if err != nil {
			return err
		}
		if present, exists := p.presentWorkload(component.Name); exists {
			ours := present.meta.Annotations[annotationRelease] == p.Release
			begun = begun || ours
			ofNewOperator = ofNewOperator || !component.Current && !ours
		}
		settled = settled && component.Exists && component.Current && !component.Rolling
		newImage = newImage || component.Exists && component.NewImage
		f.Components = append(f.Components, component)
	}
	if newImage { // what runs already is put in the place of nothing, whatever its tag says
		f.Refused = upgrade.CheckVersions(running, build.Image(p.cluster, p.Defaults), p.cluster.Annotations[v1alpha1.AnnotationAllowVersion])
	}
	switch {
	case ofNewOperator && f.Refused == nil:
		f.Turn = p.Turns.Take(p.key(), begun, p.now)
	case settled, f.Refused != nil: // others need not wait until a person has decided
		p.Turns.Done(p.key(), p.now)
	}
	p.upgrade = upgrade.Decide(f)
	p.versionRefused = f.Refused
	return nil
}

// upgradeComponent compares a component as it is with what it is to be.
func (p *pass) upgradeComponent(wanted workload) (upgrade.Component, error) {
	c := upgrade.Component{Name: wanted.component()}
	present, exists := p.presentWorkload(c.Name)
	if !exists {
		return c, nil
	}
	digest, err := wanted.digest()
	if err != nil {
		return c, err
	}
	c.Exists, c.Current = true, present.meta.Annotations[annotationTemplate] == digest
	c.NewImage = present.template.Spec.Containers[0].Image != wanted.template.Spec.Containers[0].Image
	switch c.Name {
	case build.ComponentEtcd:
		c.Rolling, c.Ready = p.setState(p.seen.etcdSet, p.seen.etcdPods)
		c.Serving = p.etcd.err == nil
	case build.ComponentNode:
		c.Rolling, c.Ready = p.setState(p.seen.nodeSet, p.seen.nodePods)
		c.Serving = c.Ready
	case build.ComponentRouter:
		c.Rolling, c.Ready = deploymentState(p.seen.router)
		c.Serving = c.Ready
	case build.ComponentEnvoy:
		c.Rolling, c.Ready = deploymentState(p.seen.envoy)
		c.Serving = c.Ready
	}
	return c, nil
}

// setState reports whether pods of a StatefulSet are still to be made from its template,
// and whether all are ready but for those that no machine runs now.
func (p *pass) setState(set *appsv1.StatefulSet, pods map[int]*corev1.Pod) (rolling, ready bool) {
	rolling, ready = set.Status.ObservedGeneration < set.Generation, true
	for _, pod := range pods {
		if pod.Spec.NodeName == "" || p.machineDown(pod.Spec.NodeName) {
			continue
		}
		rolling = rolling || isOutdated(pod, set) || pod.DeletionTimestamp != nil
		ready = ready && isReady(pod)
	}
	return rolling, ready
}

// deploymentState is setState for a Deployment, which may lack pods that no machine has room for.
func deploymentState(d *appsv1.Deployment) (rolling, ready bool) {
	s := &d.Status
	return s.ObservedGeneration < d.Generation || s.UpdatedReplicas < s.Replicas, s.ReadyReplicas > 0
}

// inTurn returns an object as it is to be applied now: a component that is held keeps the pod
// template that it has.
func (p *pass) inTurn(object build.Object) error {
	wanted, is := workloadOf(object)
	if !is {
		return nil
	}
	digest, err := wanted.digest()
	if err != nil {
		return err
	}
	release := p.Release
	if present, exists := p.presentWorkload(wanted.component()); exists && len(p.upgrade.Held) > 0 {
		was := present.meta.Annotations
		if p.upgrade.Holds(wanted.component()) {
			*wanted.template, digest = *present.template.DeepCopy(), was[annotationTemplate]
		}
		if was[annotationTemplate] == digest {
			release = was[annotationRelease] // nothing is changed by the new operator yet
		}
	}
	metav1.SetMetaDataAnnotation(wanted.meta, annotationTemplate, digest)
	metav1.SetMetaDataAnnotation(wanted.meta, annotationRelease, release)
	return nil
}
