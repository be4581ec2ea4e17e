package build_test

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/tickmesh/tickmesh/api/v1alpha1"
	"github.com/tickmesh/tickmesh/operator/build"
)

var update = flag.Bool("update", false, "write the golden files anew")

// documents returns objects as YAML documents.
func documents(t *testing.T, objects []build.Object) []byte {
	t.Helper()
	var text bytes.Buffer
	for _, o := range objects {
		configuration, err := build.Configuration(o)
		if err != nil {
			t.Fatal(err)
		}
		document, err := yaml.Marshal(configuration)
		if err != nil {
			t.Fatal(err)
		}
		text.WriteString("---\n")
		text.Write(document)
	}
	return text.Bytes()
}

func golden(t *testing.T, name string, text []byte) {
	t.Helper()
	path := filepath.Join("testdata", name+".yaml")
	if *update {
		if err := os.WriteFile(path, text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(want, text) {
		t.Errorf("%s differs from what is made; run with -update and look at the difference", path)
	}
}

func TestGolden(t *testing.T) {
	for name, spec := range specs {
		c := cluster(t, spec)
		objects, err := build.Objects(c, facts(c))
		if err != nil {
			t.Fatal(err)
		}
		text := documents(t, objects)
		golden(t, name, text)
		checkKinds(t, text)
	}
}

// checkKinds decodes documents into the types that they name: an API server would find
// no unknown field either.
func checkKinds(t *testing.T, text []byte) {
	t.Helper()
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		corev1.AddToScheme, appsv1.AddToScheme, autoscalingv2.AddToScheme, batchv1.AddToScheme, networkingv1.AddToScheme, policyv1.AddToScheme,
	} {
		if err := add(s); err != nil {
			t.Fatal(err)
		}
	}
	for _, document := range bytes.Split(text, []byte("---\n"))[1:] {
		var kind runtime.TypeMeta
		if err := yaml.Unmarshal(document, &kind); err != nil {
			t.Fatal(err)
		}
		gvk := schema.FromAPIVersionAndKind(kind.APIVersion, kind.Kind)
		if gvk.Group == "monitoring.coreos.com" {
			continue
		}
		object, err := s.New(gvk)
		if err != nil {
			t.Fatal(err)
		}
		if err := yaml.UnmarshalStrict(document, object); err != nil {
			t.Errorf("%s: %v", kind.Kind, err)
		}
	}
}

func TestGoldenCertificates(t *testing.T) {
	c := cluster(t, specs["full"])
	var objects []build.Object
	for _, identity := range build.IdentitiesToMake(c) {
		objects = append(objects, build.CertificateRequest(c, identity))
	}
	golden(t, "certificates", documents(t, objects))
}

func backup(t *testing.T, spec string) *v1alpha1.TickMeshBackup {
	t.Helper()
	b := &v1alpha1.TickMeshBackup{}
	text := "apiVersion: tickmesh.dev/v1alpha1\nkind: TickMeshBackup\nmetadata: {name: monday, namespace: ns}\nspec:\n  clusterRef: {name: demo}\n" + spec
	if err := definition(t, "tickmeshbackups").Into(text, b); err != nil {
		t.Fatal(err)
	}
	return b
}

const (
	toVolume = "  target: {volume: {claimName: backups, path: demo/daily}}\n"
	toS3     = "  target: {s3: {endpoint: 'https://s3.example.com', bucket: demo, prefix: a, region: eu, secretName: keys, caSecretName: authority}}\n  incremental: true\n"
)

func TestGoldenJobs(t *testing.T) {
	c, secure := cluster(t, ""), cluster(t, specs["full"])
	volume, s3 := backup(t, toVolume), backup(t, toS3)
	r := &v1alpha1.TickMeshRestore{}
	text := "apiVersion: tickmesh.dev/v1alpha1\nkind: TickMeshRestore\nmetadata: {name: back, namespace: ns}\nspec: {clusterRef: {name: demo}, source: {backupName: monday}}\n"
	if err := definition(t, "tickmeshrestores").Into(text, r); err != nil {
		t.Fatal(err)
	}
	made := documents(t, []build.Object{
		build.BackupJob(c, facts(c), volume), build.BackupJob(secure, facts(secure), s3),
		build.VerifyJob(c, facts(c), volume), build.VerifyJob(c, facts(c), s3),
		build.DeleteJob(c, facts(c), volume), build.DeleteJob(c, facts(c), s3),
		build.RestoreJob(c, facts(c), r, build.Place{Target: volume.Spec.Target, Position: "monday"}),
		build.CompareJob(secure, facts(secure), r, build.Place{Target: s3.Spec.Target, Position: "monday"}),
	})
	golden(t, "jobs", made)
	checkKinds(t, made)

	// Each Job has the keys that it needs, and no other: what only reads cannot sign, and
	// what deletes does not look at signatures.
	keyed := backup(t, toVolume+"  incremental: true\n  verify: true\n"+
		"  encryption: {recipients: [age1one, age1two], identitySecretName: identities}\n  signing: {secretName: sign, verifySecretName: trust}\n")
	keys := documents(t, []build.Object{
		build.BackupJob(c, facts(c), keyed), build.VerifyJob(c, facts(c), keyed), build.DeleteJob(c, facts(c), keyed),
		build.RestoreJob(c, facts(c), r, build.PlaceOf(keyed)), build.CompareJob(c, facts(c), r, build.PlaceOf(keyed)),
	})
	golden(t, "jobs-keys", keys)
	checkKinds(t, keys)
}

// The same cluster gives the same objects, and is left as it was.
func TestObjectsArePure(t *testing.T) {
	for name, spec := range specs {
		c := cluster(t, spec)
		before := c.DeepCopy()
		first, err := build.Objects(c, facts(c))
		if err != nil {
			t.Fatal(err)
		}
		text := documents(t, first)
		for _, o := range first { // nothing is shared with the spec or another object
			for key := range o.GetLabels() {
				o.GetLabels()[key] = "changed"
			}
			for key := range o.GetAnnotations() {
				o.GetAnnotations()[key] = "changed"
			}
		}
		second, err := build.Objects(c, facts(c))
		if err != nil || !bytes.Equal(text, documents(t, second)) {
			t.Errorf("%s: the objects differ the second time: %v", name, err)
		}
		if !reflect.DeepEqual(before, c) {
			t.Errorf("%s: the cluster was changed", name)
		}
	}
}
