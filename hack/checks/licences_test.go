package checks

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// licences are the licences that a module of the product may have, by a sentence of each.
// A module under another one fails the check; adding one here is a decision.
var licences = map[string]string{
	"Apache-2.0": "apache license version 2.0",
	"MIT":        "permission is hereby granted, free of charge, to any person obtaining a copy",
	"BSD":        "redistribution and use in source and binary forms, with or without modification, are permitted",
	"ISC":        "permission to use, copy, modify, and/or distribute this software for any purpose with or without fee",
	"ISC-old":    "permission to use, copy, modify, and distribute this software for any purpose with or without fee",
	"MPL-2.0":    "mozilla public license version 2.0", // of files, used unchanged
	"CC0-1.0":    "creative commons legal code cc0 1.0 universal",
	"Unlicense":  "this is free and unencumbered software released into the public domain",
}

// TestLicences looks at the licence of every module that the programs, and the tool that
// makes their images, are built of: the images have certificates of one of its modules.
func TestLicences(t *testing.T) {
	for _, program := range []struct {
		folder     string
		packages   []string
		modulesMin int
	}{
		{"../..", []string{".", "./operator/...", "./api/..."}, 20},
		{"../images", []string{"./..."}, 5},
	} {
		modules := modulesOf(t, program.folder, program.packages)
		if len(modules) < program.modulesMin {
			t.Fatalf("%s: only %d modules", program.folder, len(modules))
		}
		for path, dir := range modules {
			if licence := licenceOf(t, dir); licence == "" {
				t.Errorf("%s: module %s has no licence that is allowed; see %s", program.folder, path, dir)
			}
		}
	}
}

// TestLicencesOfTypeScript looks at what the TypeScript client brings to who installs it, by the names in its lock.
func TestLicencesOfTypeScript(t *testing.T) {
	data, err := os.ReadFile("../../api/typescript/package-lock.json")
	if err != nil {
		t.Fatal(err)
	}
	var lock struct {
		Packages map[string]struct {
			License string
			Dev     bool
		}
	}
	if err := json.Unmarshal(data, &lock); err != nil {
		t.Fatal(err)
	}
	allowed := []string{"Apache-2.0", "MIT", "BSD-3-Clause", "ISC", "(Apache-2.0 AND BSD-3-Clause)"}
	found := 0
	for name, p := range lock.Packages {
		if p.Dev {
			continue
		}
		found++
		if !slices.Contains(allowed, p.License) {
			t.Errorf("%s has the licence %q, which is not allowed", name, p.License)
		}
	}
	if found < 3 {
		t.Errorf("only %d packages", found)
	}
}

// modulesOf returns the folders of the modules that packages are built of, by module path.
func modulesOf(t *testing.T, folder string, packages []string) map[string]string {
	t.Helper()
	args := []string{"list", "-deps", "-f", "{{with .Module}}{{if not .Main}}{{.Path}} {{.Dir}}{{end}}{{end}}"}
	cmd := exec.CommandContext(t.Context(), "go", append(args, packages...)...)
	cmd.Dir = folder
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	modules := map[string]string{}
	for line := range strings.Lines(string(out)) {
		if path, dir, found := strings.Cut(strings.TrimSpace(line), " "); found {
			modules[path] = dir
		}
	}
	return modules
}

// dualLicence is the file of the Eclipse Distribution License, a BSD licence, beside which Eclipse's projects let one
// choose the Eclipse Public License, whose text their file LICENSE has.
const dualLicence = "edl-v10"

// licenceOf returns the allowed licence of a module, or nothing.
func licenceOf(t *testing.T, dir string) string {
	t.Helper()
	var files []string
	for _, pattern := range []string{"LICEN[SC]E*", "COPYING*", "licen[sc]e*", "License*", dualLicence} {
		found, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // a folder
		}
		plain := strings.ReplaceAll(strings.Join(strings.Fields(strings.ToLower(string(text))), " "), "license, version", "license version")
		for name, sentence := range licences {
			if strings.Contains(plain, sentence) {
				return name
			}
		}
	}
	return ""
}
