package build_test

import (
	"io/fs"
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
	var source strings.Builder
	err := filepath.WalkDir("../..", func(path string, entry fs.DirEntry, err error) error {
		switch name := entry.Name(); {
		case err != nil:
			return err
		case entry.IsDir() && (name == "build" || name == "e2e" || name == "hack" || strings.HasPrefix(name, ".") && path != "../.."):
			return fs.SkipDir
		case entry.IsDir() || filepath.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go"):
			return nil
		}
		text, err := os.ReadFile(path)
		source.Write(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
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
