package reconcile

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tickmesh/tickmesh/api/v1alpha1"
	"github.com/tickmesh/tickmesh/operator/build"
	"github.com/tickmesh/tickmesh/operator/inventory"
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

// turn is that of one cluster among those that an operator changes.
type turn struct {
	turns   *upgrade.Turns
	cluster string // its key
	now     time.Time
}

func (t turn) take(begun bool) (wait string) { return t.turns.Take(t.cluster, begun, t.now) }

// done notes that others need not wait for the cluster any more.
func (t turn) done() { t.turns.Done(t.cluster, t.now) }

// templates are the pod templates of a cluster's components: which are brought to what they are
// to be now, and which are held as they are.
type templates struct {
	seen    *inventory.Inventory
	release string // of this operator
	turn    turn
	// closed reports whether a component waits for a maintenance window; pressing, whether the
	// template of one cannot.
	closed   bool
	pressing func(component string) bool

	plan    upgrade.Plan
	refused error // why components are not brought to the version that is asked for
}

// versions are those that run and that are asked for.
type versions struct {
	running []string
	image   string // that is asked for
	allowed string // version that a person has allowed
}

// present returns a workload as it is; false: it does not exist.
func (t *templates) present(wanted workload) (workload, bool) {
	for _, is := range t.seen.Workloads(wanted.component()) {
		if is.GetName() == wanted.meta.Name {
			return workloadOf(is)
		}
	}
	return workload{}, false
}

// leaving returns the StatefulSet of a group of nodes that the spec does not have any more: its pods stay
// as they are until they go. False: it is another one.
func (t *templates) leaving(wanted workload) (workload, bool) {
	for _, g := range t.seen.NodeGroups {
		if g.Leaves && g.Set != nil && wanted.component() == build.ComponentNode && g.Set.Name == wanted.meta.Name {
			return workloadOf(g.Set)
		}
	}
	return workload{}, false
}

// delay describes why a group of nodes that begins gets no StatefulSet now; empty: it does. While nodes
// keep an older template a group would be ahead of them, also with a version that is refused.
func (t *templates) delay(group string) string {
	g := t.seen.NodeGroup(group)
	if others := len(t.seen.Workloads(build.ComponentNode)) > 0; !others || g == nil || g.Set != nil || len(g.Pods) > 0 {
		return ""
	}
	if !t.plan.Keeps(build.ComponentNode) && !t.plan.Restarts(build.ComponentNode) {
		return ""
	}
	return "group " + group + " begins when the other nodes are as they are to be"
}

// decide decides which components keep their pod templates for now.
func (t *templates) decide(objects []build.Object, v versions, etcdServes bool) error {
	f := upgrade.Facts{Closed: t.closed}
	begun, ofNewOperator, settled, newImage := false, false, true, false
	for _, object := range objects {
		wanted, is := workloadOf(object)
		if !is {
			continue
		}
		if _, leaves := t.leaving(wanted); leaves {
			continue
		}
		component, err := t.component(wanted, etcdServes)
		if err != nil {
			return err
		}
		if present, exists := t.present(wanted); exists {
			ours := present.meta.Annotations[annotationRelease] == t.release
			begun = begun || ours
			ofNewOperator = ofNewOperator || !component.Current && !ours && !t.closed // else it waits anyway
		}
		settled = settled && component.Exists && (component.Current || t.closed) && !component.Asked && !component.Rolling
		newImage = newImage || component.Exists && component.NewImage
		if last := len(f.Components) - 1; last >= 0 && f.Components[last].Name == component.Name {
			f.Components[last] = both(f.Components[last], component)
			continue
		}
		f.Components = append(f.Components, component)
	}
	if newImage { // what runs already is put in the place of nothing, whatever its tag says
		f.Refused = upgrade.CheckVersions(v.running, v.image, v.allowed)
	}
	switch {
	case ofNewOperator && f.Refused == nil:
		f.Turn = t.turn.take(begun)
	case settled, f.Refused != nil: // others need not wait until a person has decided
		t.turn.done()
	}
	t.plan, t.refused = upgrade.Decide(f), f.Refused
	return nil
}

// both returns two StatefulSets of nodes as one component, which takes new templates in one step.
func both(a, b upgrade.Component) upgrade.Component {
	switch {
	case !a.Exists:
		return b
	case !b.Exists:
		return a
	}
	return upgrade.Component{
		Name: a.Name, Exists: true, Current: a.Current && b.Current, Asked: a.Asked || b.Asked, Pressing: a.Pressing || b.Pressing,
		NewImage: a.NewImage || b.NewImage, Rolling: a.Rolling || b.Rolling, Ready: a.Ready && b.Ready, Serving: a.Serving && b.Serving,
	}
}

// component compares a component as it is with what it is to be.
func (t *templates) component(wanted workload, etcdServes bool) (upgrade.Component, error) {
	c := upgrade.Component{Name: wanted.component()}
	present, exists := t.present(wanted)
	if !exists {
		return c, nil
	}
	word := build.RestartedFor(&present.template.ObjectMeta)
	c.Asked, c.Pressing = build.RestartedFor(&wanted.template.ObjectMeta) != word, t.pressing(c.Name)
	asIs := workload{wanted.meta, wanted.template.DeepCopy()} // but for a restart
	build.SetRestartedFor(asIs.template, word)
	digest, err := asIs.digest()
	if err != nil {
		return c, err
	}
	c.Exists, c.Current = true, present.meta.Annotations[annotationTemplate] == digest
	c.NewImage = present.template.Spec.Containers[0].Image != wanted.template.Spec.Containers[0].Image
	switch c.Name {
	case build.ComponentEtcd:
		c.Rolling, c.Ready = t.seen.SetState(t.seen.EtcdSet, t.seen.EtcdPods, t.closed)
		c.Serving = etcdServes
	case build.ComponentNode:
		for _, g := range t.seen.NodeGroups {
			if g.Set != nil && g.Set.Name == wanted.meta.Name {
				c.Rolling, c.Ready = t.seen.SetState(g.Set, g.Pods, t.closed)
			}
		}
		c.Serving = t.seen.MostReady(t.seen.NodePods())
	case build.ComponentRouter:
		c.Rolling, c.Ready = deploymentState(t.seen.Router)
		c.Serving = c.Ready
	case build.ComponentEnvoy:
		c.Rolling, c.Ready = deploymentState(t.seen.Envoy)
		c.Serving = c.Ready
	}
	if t.seen.IsAnyStopped(c.Name) { // its pods come with whatever template there is then
		c.Rolling, c.Serving = false, false
	}
	return c, nil
}

// isCurrent reports whether what exists has the pod template that is asked for.
func (t *templates) isCurrent(object build.Object) (bool, error) {
	wanted, _ := workloadOf(object)
	present, exists := t.present(wanted)
	digest, err := wanted.digest()
	return exists && err == nil && present.meta.Annotations[annotationTemplate] == digest, err
}

// deploymentState reports whether pods of a Deployment are still to be made from its template,
// and whether any is ready: it may lack pods that no machine has room for.
func deploymentState(d *appsv1.Deployment) (rolling, ready bool) {
	return inventory.MakesAnew(d), d.Status.ReadyReplicas > 0
}

// stamp makes an object what it is to be now: a component that is held, or waits for a
// maintenance window, keeps the pod template that it has.
func (t *templates) stamp(object build.Object) error {
	wanted, is := workloadOf(object)
	if !is {
		return nil
	}
	digest, err := wanted.digest()
	if err != nil {
		return err
	}
	release := t.release
	if present, leaves := t.leaving(wanted); leaves {
		*wanted.template, digest, release = *present.template.DeepCopy(), present.meta.Annotations[annotationTemplate], present.meta.Annotations[annotationRelease]
	} else if present, exists := t.present(wanted); exists && len(t.plan.Held)+len(t.plan.Deferred) > 0 {
		was := present.meta.Annotations
		word := build.RestartedFor(&wanted.template.ObjectMeta)
		if restarts := t.plan.Restarts(wanted.component()); restarts || t.plan.Keeps(wanted.component()) {
			*wanted.template, digest = *present.template.DeepCopy(), was[annotationTemplate]
			if restarts {
				build.SetRestartedFor(wanted.template, word)
			}
		}
		if was[annotationTemplate] == digest {
			release = was[annotationRelease] // nothing is changed by the new operator yet
		}
	}
	metav1.SetMetaDataAnnotation(wanted.meta, annotationTemplate, digest)
	metav1.SetMetaDataAnnotation(wanted.meta, annotationRelease, release)
	return nil
}
