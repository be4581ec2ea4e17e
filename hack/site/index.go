package main

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"

	"sigs.k8s.io/yaml"
)

// index is the table of contents of the site, with the pages as they are in the repository.
type index struct {
	Source   string // address of the repository, for links to what is no page
	Sections []section

	root     string
	pages    map[string]*page // by file
	pictures []string         // files that staged pages show
}

type section struct {
	Title string
	Pages []*page
}

// page is one page of the site.
type page struct {
	File  string // from the root of the repository
	Name  string // of the page on the site, without .html
	Title string // in the navigation; "": the page's own

	text string
}

// title returns what the navigation calls the page.
func (p *page) title() string {
	if p.Title != "" {
		return p.Title
	}
	heading, _, _ := strings.Cut(p.text, "\n")
	return strings.TrimPrefix(heading, "# ")
}

const (
	indexFile = "hack/site/site.yaml"
	homeFile  = "README.md" // is the first page
	homeName  = "index"

	pictureExtension = ".png" // of what is copied beside the pages
)

// errPages marks that pages or links are wrong.
var errPages = errors.New("pages")

// openIndex reads the index, and the pages that it names, of the repository below root.
func openIndex(root string) (*index, error) {
	text, err := os.ReadFile(filepath.Join(root, indexFile))
	if err != nil {
		return nil, err
	}
	x := &index{root: root, pages: map[string]*page{}}
	if err := yaml.UnmarshalStrict(text, x); err != nil {
		return nil, fmt.Errorf("%s: %w", indexFile, err)
	}
	all := []*page{{File: homeFile, Name: homeName}}
	for _, s := range x.Sections {
		all = append(all, s.Pages...)
	}
	names := map[string]bool{}
	for _, p := range all {
		if p.File == "" || p.Name == "" || names[p.Name] || x.pages[p.File] != nil {
			return nil, fmt.Errorf("%w: %s: %q, %q: without a name, or twice", errPages, indexFile, p.File, p.Name)
		}
		names[p.Name], x.pages[p.File] = true, p
		text, err := os.ReadFile(filepath.Join(root, p.File))
		if err != nil {
			return nil, err
		}
		p.text = string(text)
	}
	return x, nil
}

// resolve returns where a link of a file leads: a path from the root of the repository, and an anchor. Of a link to
// another server, the path is empty.
func resolve(file, target string) (to, anchor string) {
	if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
		return "", ""
	}
	to, anchor, _ = strings.Cut(target, "#")
	if to == "" {
		return file, anchor
	}
	return path.Join(path.Dir(file), to), anchor
}

// check returns what is wrong with a link to a path and an anchor of the repository below root.
func check(root, to, anchor string) error {
	info, err := os.Stat(filepath.Join(root, to))
	if err != nil {
		return fmt.Errorf("%w: there is no %s", errPages, to)
	}
	if info.IsDir() && anchor != "" {
		to = path.Join(to, "README.md")
	}
	if anchor == "" || path.Ext(to) != ".md" {
		return nil
	}
	text, err := os.ReadFile(filepath.Join(root, to))
	if err != nil {
		return err
	}
	if !anchorsOf(string(text))[anchor] {
		return fmt.Errorf("%w: %s has no heading for #%s", errPages, to, anchor)
	}
	return nil
}

// link returns the target of a link of a page as it is on the site: another of its pages, or a file of the repository
// at its source. Pictures are beside the pages.
func (x *index) link(p *page, target string) string {
	to, anchor := resolve(p.File, target)
	if to == "" {
		return target
	}
	if anchor != "" {
		anchor = "#" + anchor
	}
	for _, file := range []string{to, path.Join(to, "README.md")} {
		if other := x.pages[file]; other != nil {
			return other.Name + ".md" + anchor
		}
	}
	if path.Ext(to) == pictureExtension {
		return path.Base(to)
	}
	kind := "blob"
	if info, err := os.Stat(filepath.Join(x.root, to)); err == nil && info.IsDir() {
		kind = "tree"
	}
	return x.Source + "/" + kind + "/main/" + to + anchor
}
