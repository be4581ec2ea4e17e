package main

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/distribution/reference"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// variant is an image for one architecture.
type variant struct {
	architecture string // as Go and OCI call it
	files        tree
	config       v1.Config
	created      time.Time
	compress     bool // gzip: smaller to carry, slower to import
}

func (v variant) image() (v1.Image, error) {
	content, err := v.files.bytes(v.created)
	if err != nil {
		return nil, err
	}
	var layer v1.Layer = static.NewLayer(content, types.OCIUncompressedLayer)
	if v.compress {
		layer, err = tarball.LayerFromOpener(func() (io.ReadCloser, error) {
			return io.NopCloser(bytes.NewReader(content)), nil
		}, tarball.WithMediaType(types.OCILayer))
		if err != nil {
			return nil, err
		}
	}
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	history := v1.History{Created: v1.Time{Time: v.created}, CreatedBy: "hack/images"}
	image, err := mutate.Append(base, mutate.Addendum{Layer: layer, History: history})
	if err != nil {
		return nil, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.Architecture, config.OS, config.Config = v.architecture, "linux", v.config
	config.Created = v1.Time{Time: v.created}
	return mutate.ConfigFile(image, config)
}

// save writes an index of the variants to an archive, under the name that containerd
// will give it, and returns the index's digest. The archive appears when it is whole.
func save(archive, name, tag string, variants []variant) (v1.Hash, error) {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, v := range variants {
		image, err := v.image()
		if err != nil {
			return v1.Hash{}, err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{
			Platform: &v1.Platform{OS: "linux", Architecture: v.architecture},
		}})
	}
	digest, err := index.Digest()
	if err != nil {
		return digest, err
	}
	full, err := fullName(name, tag)
	if err != nil {
		return digest, err
	}
	dir, err := os.MkdirTemp(filepath.Dir(archive), ".layout-")
	if err != nil {
		return digest, err
	}
	defer os.RemoveAll(dir)
	// The outer index names the image; what it points to does not depend on the name.
	root, err := layout.Write(dir, mutate.IndexMediaType(empty.Index, types.OCIImageIndex))
	if err != nil {
		return digest, err
	}
	err = root.AppendIndex(index, layout.WithAnnotations(map[string]string{
		"io.containerd.image.name": full, "org.opencontainers.image.ref.name": tag,
	}))
	if err != nil {
		return digest, err
	}
	files, err := readTree(dir)
	if err != nil {
		return digest, err
	}
	return digest, writeArchive(archive, files)
}

// fullName returns the name that kubelet looks an image up by: "name:tag" in a manifest of
// Kubernetes stands for one with a host and a folder before it, and containerd keeps the
// name of an archive's image as it is written.
func fullName(name, tag string) (string, error) {
	parsed, err := reference.ParseNormalizedNamed(name)
	if err != nil {
		return "", fmt.Errorf("%s: %w", name, err)
	}
	full, err := reference.WithTag(reference.TrimNamed(parsed), tag)
	if err != nil {
		return "", fmt.Errorf("%s:%s: %w", name, tag, err)
	}
	return full.String(), nil
}

// readTree reads the plain files of a folder.
func readTree(dir string) (tree, error) {
	files := tree{}
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		relative, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		return files.copy(path, "/"+filepath.ToSlash(relative), 0o644)
	})
	return files, err
}

func writeArchive(name string, files tree) error {
	out, err := os.Create(name + ".new")
	if err != nil {
		return err
	}
	if err := files.write(out, time.Unix(0, 0)); err != nil {
		out.Close()
		return fmt.Errorf("writing %s: %w", name, err)
	}
	if err := out.Close(); err != nil {
		return err
	}
	return os.Rename(name+".new", name)
}

// labels are the annotations of OCI that tell people where an image comes from.
func labels(title, version, revision string) map[string]string {
	const prefix = "org.opencontainers.image."
	return map[string]string{
		prefix + "title": title, prefix + "version": version, prefix + "revision": revision, prefix + "licenses": "Apache-2.0",
	}
}
