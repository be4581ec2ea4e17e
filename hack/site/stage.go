package main

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
)

var (
	options = regexp.MustCompile("(?m)^```(\\w+),.*$") // of a block of code, for other readers
	picture = regexp.MustCompile(`(?m)^!\[[^\]]*\]\(([^)]+\.svg)\)$`)
)

// stage writes all pages to a folder that it makes anew, for the generator: under their names, with links to each other and to the
// source, and with the tables of contents on the first.
func (x *index) stage(folder string) error {
	if err := os.RemoveAll(folder); err != nil {
		return err
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	for _, p := range x.pages {
		text, err := x.staged(p)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(folder, p.Name+".md"), []byte(text), 0o644); err != nil {
			return err
		}
	}
	for _, file := range x.pictures {
		content, err := os.ReadFile(filepath.Join(x.root, file))
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(folder, path.Base(file)), content, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// staged returns the text of a page for the generator. Errors: dead links, all of them.
func (x *index) staged(p *page) (string, error) {
	text := options.ReplaceAllString(p.text, "```$1")
	var wrong []error
	// Inside of the page a picture takes the colours that the reader has chosen for the site.
	text = picture.ReplaceAllStringFunc(text, func(line string) string {
		to, _ := resolve(p.File, picture.FindStringSubmatch(line)[1])
		drawing, err := os.ReadFile(filepath.Join(x.root, to))
		if err != nil {
			wrong = append(wrong, err)
		}
		return "<div class=\"picture\">\n" + strings.ReplaceAll(strings.TrimSpace(string(drawing)), "\n\n", "\n") + "\n</div>"
	})
	text = mapLinks(text, func(target string) string {
		if to, anchor := resolve(p.File, target); to != "" {
			if err := check(x.root, to, anchor); err != nil {
				wrong = append(wrong, fmt.Errorf("%s: %w", p.File, err))
			} else if path.Ext(to) == pictureExtension {
				x.pictures = append(x.pictures, to)
			}
		}
		return x.link(p, target)
	})
	if p.Name == homeName {
		text += x.contents()
	}
	return text, errors.Join(wrong...)
}

// contents returns the tables of contents, which the site shows beside each page.
func (x *index) contents() string {
	var out strings.Builder
	for _, s := range x.Sections {
		fmt.Fprintf(&out, "\n```{toctree}\n:hidden:\n:caption: %s\n\n", s.Title)
		for _, p := range s.Pages {
			fmt.Fprintf(&out, "%s <%s>\n", p.title(), p.Name)
		}
		out.WriteString(fence + "\n")
	}
	return out.String()
}
