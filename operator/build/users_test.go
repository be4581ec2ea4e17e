package build_test

import (
	"errors"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/tickmesh/tickmesh/operator/build"
)

// The operator's users are added to those that there are, which stay as they were.
func TestAuthFile(t *testing.T) {
	text, err := build.AuthFile([]byte("users:\n- {name: ann, password-hash: \"$2a$10$x\", rights: {\"*\": read}}\nother: 7\n"), "d1", "d2")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Users []struct {
			Name   string            `json:"name"`
			Hash   string            `json:"password-hash"`
			Tokens []string          `json:"tokens"`
			Rights map[string]string `json:"rights"`
		} `json:"users"`
		Other int `json:"other"`
	}
	if err := yaml.UnmarshalStrict(text, &file); err != nil {
		t.Fatal(err)
	}
	u := file.Users
	if len(u) != 3 || u[0].Name != "ann" || u[0].Hash != "$2a$10$x" || u[0].Rights["*"] != "read" || file.Other != 7 ||
		u[1].Rights["*"] != "admin" || u[1].Tokens[0] != "d1" || u[2].Rights["*"] != "none" || u[2].Tokens[0] != "d2" {
		t.Errorf("%s", text)
	}
	for _, bad := range []string{
		"users: 7", "users: [7]", "users: [{name: tickmesh-operator}]", "users: [{name: tickmesh-metrics}]", "users: []\nusers: []", "- a", ": :",
	} {
		if _, err := build.AuthFile([]byte(bad), "d1", "d2"); !errors.Is(err, build.ErrAuth) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// Files of users of any text are refused, or keep what is in them.
func FuzzAuthFile(f *testing.F) {
	f.Add("users:\n- {name: ann, rights: {\"*\": read}}\n")
	f.Add("users: []")
	f.Add("")
	f.Fuzz(func(t *testing.T, text string) {
		file, err := build.AuthFile([]byte(text), "d1", "d2")
		if err != nil {
			if !errors.Is(err, build.ErrAuth) {
				t.Error(err)
			}
			return
		}
		if !strings.Contains(string(file), "tickmesh-operator") {
			t.Errorf("%q", file)
		}
		if _, err := build.AuthFile(file, "d1", "d2"); !errors.Is(err, build.ErrAuth) {
			t.Errorf("the operator's users are there twice: %v", err)
		}
	})
}
