package build_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"

	"github.com/tickmesh/tickmesh/operator/build"
)

// The program has all flags that pods are started with.
func TestFlagsExist(t *testing.T) {
	files, err := filepath.Glob("../../*.go")
	if err != nil {
		t.Fatal(err)
	}
	var source strings.Builder
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		source.Write(text)
	}
	flag := regexp.MustCompile(`^--([a-z0-9-]+)=`)
	for name, spec := range specs {
		c := cluster(t, spec)
		objects, err := build.Objects(c, facts(c))
		if err != nil {
			t.Fatal(err)
		}
		keyed := backup(t, toVolume+"  encryption: {recipients: [age1a], identitySecretName: i}\n  signing: {secretName: s, verifySecretName: v}\n")
		objects = append(objects, build.BackupJob(c, facts(c), keyed))
		for _, o := range append(objects, build.RescueJob(c, facts(c), []string{"demo-node-0"}, []string{"demo-node-1"})) {
			var args []string
			switch o := o.(type) {
			case *appsv1.StatefulSet:
				args = o.Spec.Template.Spec.Containers[0].Args
			case *batchv1.Job:
				args = o.Spec.Template.Spec.Containers[0].Args
			case *appsv1.Deployment:
				args = o.Spec.Template.Spec.Containers[0].Args
			}
			for _, arg := range args {
				if match := flag.FindStringSubmatch(arg); match != nil && !strings.Contains(source.String(), `"`+match[1]+`"`) {
					t.Errorf("%s: %s starts with %s, and the program has no such flag", name, o.GetName(), arg)
				}
			}
		}
	}
}
