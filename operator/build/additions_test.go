package build_test

import (
	"path"
	"reflect"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/tickmesh/tickmesh/api/v1alpha1"
	"github.com/tickmesh/tickmesh/operator/build"
)

// additions are for the pods of any component.
const additions = `{
  labels: {example.com/team: weather}, annotations: {example.com/why: it rains},
  env: [{name: HTTPS_PROXY, value: 'http://proxy:3128'}, {name: TOKEN, secretKeyRef: {name: tokens, key: a, optional: true}}, {name: REGION, configMapKeyRef: {name: places, key: b}}],
  volumes: [{name: data, emptyDir: {sizeLimit: 1Gi}}, {name: tls, secret: {secretName: mine}}, {name: c, configMap: {name: mine}}, {name: d, persistentVolumeClaim: {claimName: shared, readOnly: true}}, {name: e, csi: {driver: secrets.example.com, readOnly: true, volumeAttributes: {class: a}}}],
  volumeMounts: [{name: data, mountPath: /mnt/data}, {name: tls, mountPath: /etc/ssl/certs/mine.pem, subPath: mine.pem, readOnly: true}],
  topologySpreadConstraints: [{topologyKey: rack}, {topologyKey: topology.kubernetes.io/zone, maxSkew: 2, whenUnsatisfiable: DoNotSchedule}]}`

// withAdditions has the same additions for each component.
const withAdditions = "  nodes: {podTemplate: " + additions + "}\n  routers: {podTemplate: " + additions + "}\n  envoy: {podTemplate: " + additions + "}\n  etcd: {managed: {podTemplate: " + additions + "}}\n"

// templates returns the pod templates of a cluster by component.
func templates(t *testing.T, spec string) map[string]*corev1.PodTemplateSpec {
	t.Helper()
	c := cluster(t, spec)
	objects, err := build.Objects(c, facts(c))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]*corev1.PodTemplateSpec{}
	for _, o := range objects {
		switch o := o.(type) {
		case *appsv1.StatefulSet:
			all[o.Labels[build.LabelComponent]] = &o.Spec.Template
		case *appsv1.Deployment:
			all[o.Labels[build.LabelComponent]] = &o.Spec.Template
		}
	}
	return all
}

// main returns the component's own container.
func mainContainer(p *corev1.PodSpec, component string) *corev1.Container {
	for _, list := range [][]corev1.Container{p.Containers, p.InitContainers} {
		for i := range list {
			if list[i].Name == component {
				return &list[i]
			}
		}
	}
	return nil
}

// What spec adds is there, and without it the pods are what they are without additions.
func TestAdditions(t *testing.T) {
	plain, added := templates(t, ""), templates(t, withAdditions)
	if len(plain) != 4 {
		t.Fatalf("%d templates", len(plain))
	}
	for component, p := range added {
		if p.Labels["example.com/team"] != "weather" || p.Annotations["example.com/why"] != "it rains" {
			t.Errorf("%s: labels %v, annotations %v", component, p.Labels, p.Annotations)
		}
		delete(p.Labels, "example.com/team")
		delete(p.Annotations, "example.com/why")
		if len(p.Annotations) == 0 {
			p.Annotations = nil
		}
		container := mainContainer(&p.Spec, component)
		checkAdded(t, component, p, container)
		own := func(name string) bool { return strings.HasPrefix(name, "extra-") }
		container.Env = slices.DeleteFunc(container.Env, func(e corev1.EnvVar) bool { return slices.Contains([]string{"HTTPS_PROXY", "TOKEN", "REGION"}, e.Name) })
		container.VolumeMounts = slices.DeleteFunc(container.VolumeMounts, func(m corev1.VolumeMount) bool { return own(m.Name) })
		p.Spec.Volumes = slices.DeleteFunc(p.Spec.Volumes, func(v corev1.Volume) bool { return own(v.Name) })
		p.Spec.TopologySpreadConstraints = plain[component].Spec.TopologySpreadConstraints
		if a, b := text(t, p), text(t, plain[component]); a != b {
			t.Errorf("%s is otherwise\n%s\nand without additions\n%s", component, a, b)
		}
	}
}

func text(t *testing.T, of any) string {
	t.Helper()
	text, err := yaml.Marshal(of)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func checkAdded(t *testing.T, component string, p *corev1.PodTemplateSpec, container *corev1.Container) {
	t.Helper()
	var env, mounts, volumes, spreads []string
	for _, e := range container.Env {
		env = append(env, e.Name)
	}
	for _, m := range container.VolumeMounts {
		mounts = append(mounts, m.Name+" "+m.MountPath)
	}
	for _, v := range p.Spec.Volumes {
		volumes = append(volumes, v.Name)
	}
	for _, s := range p.Spec.TopologySpreadConstraints {
		spreads = append(spreads, s.TopologyKey+" "+string(s.WhenUnsatisfiable))
		if !reflect.DeepEqual(s.LabelSelector.MatchLabels, build.Selector(cluster(t, ""), component)) {
			t.Errorf("%s: spreads %v", component, s.LabelSelector)
		}
	}
	for _, want := range []struct{ is, wanted []string }{
		{env, []string{"HTTPS_PROXY", "TOKEN", "REGION"}},
		{mounts, []string{"extra-data /mnt/data", "extra-tls /etc/ssl/certs/mine.pem"}},
		{volumes, []string{"extra-data", "extra-tls", "extra-c", "extra-d", "extra-e"}},
	} {
		if at := len(want.is) - len(want.wanted); at < 0 || !slices.Equal(want.is[at:], want.wanted) {
			t.Errorf("%s has %v, and %v were added", component, want.is, want.wanted)
		}
	}
	if !slices.Equal(spreads, []string{"rack ScheduleAnyway", "topology.kubernetes.io/zone DoNotSchedule"}) {
		t.Errorf("%s is spread by %v", component, spreads)
	}
	for _, v := range p.Spec.Volumes {
		s := v.VolumeSource
		is := map[string]bool{
			"extra-data": s.EmptyDir != nil && s.EmptyDir.SizeLimit.String() == "1Gi", "extra-tls": s.Secret != nil && s.Secret.SecretName == "mine",
			"extra-c": s.ConfigMap != nil && s.ConfigMap.Name == "mine", "extra-d": s.PersistentVolumeClaim != nil && s.PersistentVolumeClaim.ReadOnly,
			"extra-e": s.CSI != nil && *s.CSI.ReadOnly && s.CSI.VolumeAttributes["class"] == "a",
		}
		if ok, mine := is[v.Name]; mine && !ok {
			t.Errorf("%s: %s is %+v", component, v.Name, s)
		}
	}
}

// The schema refuses each label, annotation, variable and folder that the operator sets, of any
// component of any cluster, so that a new one does not slip through.
func TestAdditionsKeepOffWhatIsTheOperators(t *testing.T) {
	d := definition(t, "tickmeshclusters")
	refused := map[string]bool{}
	refuse := func(what string) {
		t.Helper()
		if refused[what] {
			return
		}
		refused[what] = true
		object, err := d.Read("apiVersion: tickmesh.dev/v1alpha1\nkind: TickMeshCluster\nmetadata: {name: demo, namespace: ns}\nspec: {routers: {podTemplate: {" + what + "}}}\n")
		if err == nil {
			err = d.Check(object, nil)
		}
		if err == nil {
			t.Errorf("podTemplate: {%s} is taken", what)
		}
	}
	mount := func(folder string) {
		refuse("volumes: [{name: a, emptyDir: {}}], volumeMounts: [{name: a, mountPath: " + folder + "}]")
	}
	for _, spec := range specs {
		for component, p := range templates(t, spec) {
			for key := range p.Labels {
				refuse("labels: {" + key + ": a}")
			}
			for key := range p.Annotations {
				refuse("annotations: {" + key + ": a}")
			}
			for _, v := range p.Spec.Volumes {
				if strings.HasPrefix(v.Name, "extra-") {
					t.Errorf("%s has a volume %s", component, v.Name)
				}
			}
			for _, container := range slices.Concat(p.Spec.Containers, p.Spec.InitContainers) {
				for _, e := range container.Env {
					refuse("env: [{name: " + e.Name + ", value: a}]")
				}
				for _, m := range container.VolumeMounts {
					mount(m.MountPath + "/below")
					for folder := m.MountPath; folder != "/"; folder = path.Dir(folder) {
						mount(folder)
					}
				}
			}
		}
	}
	for _, key := range []string{build.AnnotationZone, v1alpha1.Group + "/certificate"} {
		refuse("annotations: {" + key + ": a}")
	}
	if len(refused) < 30 {
		t.Errorf("only %d were tried", len(refused))
	}
}

// The word of a restart is in the pods of its component alone, stays when it is taken away, and is in
// no Job, which cannot be changed.
func TestRestartWord(t *testing.T) {
	c := cluster(t, "")
	f := facts(c)
	word := func() string { return build.RestartedFor(&build.NodeStatefulSet(c, f, "").Spec.Template.ObjectMeta) }
	if word() != "" {
		t.Error("nobody has asked for a restart")
	}
	c.Annotations = map[string]string{v1alpha1.AnnotationRestart + "node": "today", v1alpha1.AnnotationRestart + "backup": "today"}
	if word() != "today" || build.RestartedFor(&build.RouterDeployment(c, f).Spec.Template.ObjectMeta) != "" {
		t.Errorf("%q, of routers %q", word(), build.RestartedFor(&build.RouterDeployment(c, f).Spec.Template.ObjectMeta))
	}
	if job := build.BackupJob(c, f, backup(t, toVolume)); build.RestartedFor(&job.Spec.Template.ObjectMeta) != "" {
		t.Error("a Job is to be restarted")
	}
	c.Annotations[v1alpha1.AnnotationRestart+"node"] = strings.Repeat("long", 100)
	if is := word(); len(is) > 64 || is == "" {
		t.Errorf("a long word becomes %q", is)
	}
	f.Restarted = map[string]string{"node": "yesterday"}
	if c.Annotations = nil; word() != "yesterday" {
		t.Errorf("taken away: %q", word())
	}
	if is := build.Restartable(c); !slices.Equal(is, []string{"etcd", "node", "router", "envoy"}) {
		t.Errorf("in the order %v", is)
	}
}
