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

// manifests returns the objects that the lab puts into its cluster.
func manifests(f Folders) (string, error) {
	type place struct {
		Node  string   `json:"node"`
		Paths []string `json:"paths"`
	}
	var places []place
	for _, n := range allNodes() {
		places = append(places, place{n.name(), []string{filepath.Join(f.Run, n.name(), "volumes")}})
	}
	text, err := json.Marshal(places)
	volumes := strings.Replace(volumesManifest, "'{\"nodePathMap\": PATHS}'", "'{\"nodePathMap\": "+string(text)+"}'", 1)
	return coreDNSManifest + "---\n" + volumes, err
}
