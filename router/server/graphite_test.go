package server

import (
	"errors"
	"strings"
	"testing"

	"github.com/tickmesh/tickmesh/api/rulefile"
)

func TestGraphiteTemplatesFile(t *testing.T) {
	good := "separator: _\ntags: {dc: home}\ntemplates:\n  - servers.* .host.resource.measurement*\n  - \"stats.* .host.measurement* region=us\"\n"
	if names, err := parseGraphiteNames("t.yaml", []byte(good)); err != nil || names == nil {
		t.Errorf("%v", err)
	}
	for text, want := range map[string]string{
		"templates: [a.b]\n":                 "t.yaml: not a template: \"a.b\": no part of it is the measurement",
		"template: []\n":                     "t.yaml:1: template: there is no such key here; use one of separator, tags, templates",
		"tags: {a: [1]}\n":                   "t.yaml:1: tags.a: expected a single value",
		"templates: measurement\n":           "t.yaml:1: templates: expected a list",
		"templates: [measurement, host.*]\n": "only measurement and field may have a *",
	} {
		if _, err := parseGraphiteNames("t.yaml", []byte(text)); !errors.Is(err, rulefile.ErrFile) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func FuzzGraphiteTemplatesFile(f *testing.F) {
	f.Add("separator: _\ntags: {dc: home}\ntemplates:\n  - servers.* .host.resource.measurement*\n")
	f.Fuzz(func(t *testing.T, text string) {
		if names, err := parseGraphiteNames("t.yaml", []byte(text)); (names == nil) != (err != nil) || err != nil && !errors.Is(err, rulefile.ErrFile) {
			t.Fatalf("%v, %v", names, err)
		}
	})
}
