package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"

	"golang.org/x/net/html"
)

// document is what a built page has that links may lead to, and its own links.
type document struct {
	ids   map[string]bool
	links []string // to read on
	loads []string // styles, scripts, pictures: all that a browser fetches by itself
}

// loadedFrom matches what a style sheet loads.
var loadedFrom = regexp.MustCompile(`url\(\s*["']?([^"')]+)|@import\s+["']([^"']+)`)

// checkSite looks for dead links in a built site, and for anything that its pages load from elsewhere. Errors: all that it finds.
func checkSite(folder string) error {
	documents := map[string]*document{}
	var wrong []error
	files := os.DirFS(folder)
	err := fs.WalkDir(files, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return err
		}
		switch path.Ext(name) {
		case ".html":
			documents[name], err = readDocument(string(text))
			return err
		case ".css":
			for _, match := range loadedFrom.FindAllStringSubmatch(string(text), -1) {
				if target := match[1] + match[2]; elsewhere(target) {
					wrong = append(wrong, fmt.Errorf("%w: %s loads %s from elsewhere", errPages, name, target))
				}
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for name, d := range documents {
		for _, target := range d.loads {
			if elsewhere(target) {
				wrong = append(wrong, fmt.Errorf("%w: %s loads %s from elsewhere", errPages, name, target))
			}
		}
		for _, target := range append(d.links, d.loads...) {
			if !elsewhere(target) {
				wrong = append(wrong, checkTarget(folder, documents, name, target))
			}
		}
	}
	if len(documents) == 0 {
		wrong = append(wrong, fmt.Errorf("%w: there are none in %s", errPages, folder))
	}
	return errors.Join(wrong...)
}

func elsewhere(target string) bool {
	return strings.HasPrefix(target, "//") || regexp.MustCompile(`^(https?|mailto):`).MatchString(target)
}

// checkTarget returns what is wrong with a link of a document within the site.
func checkTarget(folder string, documents map[string]*document, name, target string) error {
	if strings.HasPrefix(target, "data:") {
		return nil
	}
	parsed, err := url.Parse(target)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	to := name
	if parsed.Path != "" {
		to = path.Join(path.Dir(name), parsed.Path)
	}
	if _, err := os.Stat(filepath.Join(folder, to)); err != nil {
		return fmt.Errorf("%w: %s leads to %s, which is not there", errPages, name, target)
	}
	if d := documents[to]; d != nil && parsed.Fragment != "" && !d.ids[parsed.Fragment] {
		return fmt.Errorf("%w: %s leads to %s, which has no such place", errPages, name, target)
	}
	return nil
}

// readDocument returns the ids, links and loaded parts of a page.
func readDocument(text string) (*document, error) {
	tree, err := html.Parse(strings.NewReader(text))
	if err != nil {
		return nil, err
	}
	d := &document{ids: map[string]bool{}}
	for node := range tree.Descendants() {
		if node.Type != html.ElementNode {
			continue
		}
		for _, attribute := range node.Attr {
			switch {
			case attribute.Key == "id":
				d.ids[attribute.Val] = true
			case attribute.Key == "href" && node.Data == "a":
				d.links = append(d.links, attribute.Val)
			case attribute.Key == "href" && node.Data == "link", attribute.Key == "src":
				d.loads = append(d.loads, attribute.Val)
			}
		}
	}
	return d, nil
}
