package main

import (
	"cmp"
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"time"
)

// bom is a list of what an executable is made of, as CycloneDX 1.6 writes it:
// https://cyclonedx.org/docs/1.6/json/
type bom struct {
	Format     string      `json:"bomFormat"`
	Version    string      `json:"specVersion"`
	Number     int         `json:"version"`
	Metadata   bomMetadata `json:"metadata"`
	Components []component `json:"components"`
}

type bomMetadata struct {
	Timestamp string    `json:"timestamp"` // of the commit, so that two lists of one source are the same
	Component component `json:"component"`
}

type component struct {
	Type    string `json:"type"`
	Ref     string `json:"bom-ref"`
	Name    string `json:"name"`
	Version string `json:"version"`
	PURL    string `json:"purl"`
}

func moduleComponent(m *debug.Module) component {
	if m.Replace != nil {
		m = m.Replace
	}
	purl := fmt.Sprintf("pkg:golang/%s@%s", m.Path, m.Version)
	return component{Type: "library", Ref: purl, Name: m.Path, Version: m.Version, PURL: purl}
}

// billOf returns the modules of an executable and the compiler's standard library, in
// the order of their names.
func billOf(info *debug.BuildInfo, name, version string, created time.Time) bom {
	purl := fmt.Sprintf("pkg:golang/%s@%s", info.Main.Path, version)
	b := bom{Format: "CycloneDX", Version: "1.6", Number: 1, Metadata: bomMetadata{
		Timestamp: created.Format(time.RFC3339),
		Component: component{Type: "application", Ref: purl, Name: name, Version: version, PURL: purl},
	}}
	b.Components = append(b.Components, moduleComponent(&debug.Module{Path: "std", Version: info.GoVersion}))
	for _, m := range info.Deps {
		b.Components = append(b.Components, moduleComponent(m))
	}
	slices.SortFunc(b.Components, func(a, b component) int { return cmp.Compare(a.Ref, b.Ref) })
	return b
}

// writeBill writes the list of an executable's modules beside it.
func writeBill(executable, file, name string, s source) error {
	info, err := buildinfo.ReadFile(executable)
	if err != nil {
		return fmt.Errorf("what %s is made of: %w", executable, err)
	}
	text, err := json.MarshalIndent(billOf(info, name, s.version, s.time), "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(text, '\n'), 0o644)
}
