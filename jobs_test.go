package main

import (
	"os"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/tickmesh/tickmesh/api/settings"
)

// TestJobsOfTheOperator: the program takes the command lines of the operator's Jobs.
func TestJobsOfTheOperator(t *testing.T) {
	text, err := os.ReadFile("operator/build/testdata/jobs.yaml")
	if err != nil {
		t.Fatal(err)
	}
	commands := map[string]bool{}
	for document := range strings.SplitSeq(string(text), "\n---\n") {
		var job struct {
			Spec struct {
				Template struct {
					Spec struct {
						Containers []struct {
							Args []string `json:"args"`
							Env  []struct {
								Name string `json:"name"`
							} `json:"env"`
						} `json:"containers"`
					} `json:"spec"`
				} `json:"template"`
			} `json:"spec"`
		}
		if err := yaml.Unmarshal([]byte(document), &job); err != nil || len(job.Spec.Template.Spec.Containers) != 1 {
			t.Fatalf("%v: %s", err, document)
		}
		container := job.Spec.Template.Spec.Containers[0]
		cmd, rest, err := newRootCommand().Find(container.Args)
		if err != nil || !cmd.Runnable() {
			t.Fatalf("%q: %v", container.Args, err)
		}
		if err := cmd.ParseFlags(rest); err != nil {
			t.Errorf("%q: %v", container.Args, err)
		}
		if err := cmd.ValidateArgs(cmd.Flags().Args()); err != nil {
			t.Errorf("%q: %v", container.Args, err)
		}
		for _, variable := range container.Env {
			if strange, _ := settings.Load(cmd.Flags(), []string{variable.Name + "=x"}); len(strange) > 0 {
				t.Errorf("%s does not know %s", cmd.CommandPath(), variable.Name)
			}
		}
		commands[cmd.CommandPath()] = true
	}
	for _, want := range []string{"tickmesh backup", "tickmesh backup verify", "tickmesh backup prune", "tickmesh restore"} {
		if !commands[want] {
			t.Errorf("no Job runs %s", want)
		}
	}
}
