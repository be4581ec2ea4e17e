package main

import (
	"os"
	"path/filepath"
	"testing"
)

// A folder may be named as seen from where the command was called, as the Makefile does.
func TestProductIntoARelativeFolder(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: this test compiles a program")
	}
	at, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	folder := filepath.Join(t.TempDir(), "images")
	relative, err := filepath.Rel(at, folder)
	if err != nil {
		t.Fatal(err)
	}
	if err := runProduct(t.Context(), []string{"-out", relative, "-programs", "tickmesh", "-architectures", "amd64"}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(folder, "tickmesh.tar")); err != nil {
		t.Fatal(err)
	}
}
