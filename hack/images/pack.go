package main

import (
	"context"
	"flag"
	"fmt"
	"io/fs"
	"os/exec"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// list is a flag that may be given many times.
type list []string

func (l *list) String() string { return strings.Join(*l, " ") }

func (l *list) Set(value string) error {
	*l = append(*l, value)
	return nil
}

// packing is an image of ready files, for this machine's architecture.
type packing struct {
	out, name  string
	entrypoint list
	command    list
	user       string
	folders    list // PATH or PATH:MODE
	links      list // PATH=TARGET
	libraries  bool
	files      []string // SOURCE:PATH or SOURCE:PATH:MODE
}

func readPacking(args []string) (packing, error) {
	var p packing
	set := flag.NewFlagSet("pack", flag.ContinueOnError)
	set.StringVar(&p.out, "out", "", "archive to write")
	set.StringVar(&p.name, "name", "", "of the image, with a tag")
	set.Var(&p.entrypoint, "entrypoint", "what runs, word by word")
	set.Var(&p.command, "command", "its default arguments, word by word")
	set.StringVar(&p.user, "user", "", "number of the user and group")
	set.Var(&p.folders, "folder", "empty folder, PATH or PATH:MODE")
	set.Var(&p.links, "link", "symbolic link, PATH=TARGET")
	set.BoolVar(&p.libraries, "libraries", false, "add the libraries that the files are linked with")
	if err := set.Parse(args); err != nil {
		return p, err
	}
	p.files = set.Args()
	if p.out == "" || !strings.Contains(p.name, ":") {
		return p, fmt.Errorf("-out and -name with a tag are needed")
	}
	return p, nil
}

func (p packing) build(ctx context.Context) (v1.Hash, error) {
	files, err := p.tree(ctx)
	if err != nil {
		return v1.Hash{}, err
	}
	cut := strings.LastIndexByte(p.name, ':')
	return save(p.out, p.name[:cut], p.name[cut+1:], []variant{{
		architecture: runtime.GOARCH, files: files, created: time.Unix(0, 0).UTC(),
		config: v1.Config{
			Entrypoint: p.entrypoint, Cmd: p.command, User: p.user, WorkingDir: "/",
			Env: []string{"PATH=/usr/local/bin:/usr/bin:/bin"},
		},
	}})
}

func (p packing) tree(ctx context.Context) (tree, error) {
	files := tree{}
	for _, folder := range p.folders {
		path, mode, err := cutMode(folder, 0o755)
		if err != nil {
			return nil, err
		}
		if err := files.add(path, file{mode: fs.ModeDir | mode}); err != nil {
			return nil, err
		}
	}
	for _, link := range p.links {
		path, target, ok := strings.Cut(link, "=")
		if !ok {
			return nil, fmt.Errorf("a link is PATH=TARGET: %q", link)
		}
		if err := files.add(path, file{mode: fs.ModeSymlink | 0o777, content: []byte(target)}); err != nil {
			return nil, err
		}
	}
	for _, f := range p.files {
		source, rest, _ := strings.Cut(f, ":")
		path, mode, err := cutMode(rest, 0)
		if err != nil {
			return nil, err
		}
		if err := files.copy(source, path, mode); err != nil {
			return nil, err
		}
		if p.libraries {
			if err := addLibraries(ctx, files, source); err != nil {
				return nil, err
			}
		}
	}
	return files, nil
}

// cutMode splits PATH:MODE, with an octal mode as chmod takes it.
func cutMode(text string, otherwise fs.FileMode) (string, fs.FileMode, error) {
	path, octal, ok := strings.Cut(text, ":")
	if !ok {
		return path, otherwise, nil
	}
	bits, err := strconv.ParseUint(octal, 8, 12)
	if err != nil || bits > 0o1777 {
		return "", 0, fmt.Errorf("no mode up to 1777: %q", text)
	}
	mode := fs.FileMode(bits & 0o777)
	if bits&0o1000 != 0 {
		mode |= fs.ModeSticky
	}
	return path, mode, nil
}

// libraryPath finds the paths in what ldd writes.
var libraryPath = regexp.MustCompile(`/\S+\.so\S*`)

// addLibraries adds the shared libraries, and the loader, that a program is linked with.
func addLibraries(ctx context.Context, files tree, executable string) error {
	output, err := exec.CommandContext(ctx, "ldd", executable).Output()
	if err != nil {
		return fmt.Errorf("ldd %s: %w", executable, err)
	}
	for _, library := range libraryPath.FindAllString(string(output), -1) {
		if err := files.copy(library, library, 0o755); err != nil {
			return err
		}
	}
	return nil
}
