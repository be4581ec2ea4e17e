package lab

import (
	_ "embed"
	"encoding/json"
	"path/filepath"
	"strings"
)

//go:embed manifests/coredns.yaml
var coreDNSManifest string

//go:embed manifests/volumes.yaml
var volumesManifest string

// Storage classes of the lab.
const (
	DefaultClass = "local-path"
	OtherClass   = "fast"  // like the default one, under another name
	SmallClass   = "small" // on the second disk of each machine, which Fill fills
)

// manifests returns the objects that the lab puts into its cluster.
func manifests(f Folders) (string, error) {
	type place struct {
		Node  string   `json:"node"`
		Paths []string `json:"paths"`
	}
	type class struct {
		Places []place `json:"nodePathMap"`
	}
	classes := map[string]class{}
	for name, folder := range map[string]string{DefaultClass: "volumes", OtherClass: "volumes", SmallClass: smallDisk} {
		var c class
		for _, n := range allNodes() {
			c.Places = append(c.Places, place{n.name(), []string{filepath.Join(f.Run, n.name(), folder)}})
		}
		classes[name] = c
	}
	text, err := json.Marshal(classes)
	volumes := strings.Replace(volumesManifest, "'{\"storageClassConfigs\": CLASSES}'", "'{\"storageClassConfigs\": "+string(text)+"}'", 1)
	return coreDNSManifest + "---\n" + volumes, err
}
