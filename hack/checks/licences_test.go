package checks

import (
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

// TestLicences looks at the licence of every module that the programs are built of.
func TestLicences(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", "{{with .Module}}{{if not .Main}}{{.Path}} {{.Dir}}{{end}}{{end}}",
		".", "./operator/...", "./api/...")
	cmd.Dir = "../.."
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	modules := slices.Compact(slices.Sorted(strings.Lines(string(out))))
	if len(modules) < 20 {
		t.Fatalf("only %d modules", len(modules))
	}
	for _, line := range modules {
		path, dir, _ := strings.Cut(strings.TrimSpace(line), " ")
		if licence := licenceOf(t, dir); licence == "" {
			t.Errorf("module %s has no licence that is allowed; see %s", path, dir)
		}
	}
}

// licenceOf returns the allowed licence of a module, or nothing.
func licenceOf(t *testing.T, dir string) string {
	t.Helper()
	var files []string
	for _, pattern := range []string{"LICEN[SC]E*", "COPYING*", "licen[sc]e*", "License*"} {
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
