package main

import "testing"

func TestChartValues(t *testing.T) {
	got := string(chartValues(map[string]chartImage{
		"tickmesh":          {"a.example/tickmesh", "1.0.0", "sha256:0"},
		"tickmesh-operator": {"a.example/tickmesh-operator", "1.0.0", "sha256:1"},
	}))
	want := "# Values of the charts for a registry that these images were copied to.\n" +
		"image: {repository: \"a.example/tickmesh\", tag: \"1.0.0\", digest: \"sha256:0\"}\n" +
		"operator: {image: {repository: \"a.example/tickmesh-operator\", tag: \"1.0.0\", digest: \"sha256:1\"}}\n"
	if got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}
