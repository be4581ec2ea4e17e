// Package recipes reads the commands that a page tells people to type, so that tests can
// run them as they stand.
package recipes

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// ErrPage is returned for a page whose recipes cannot be told apart.
var ErrPage = errors.New("recipes")

// Recipe is a block of shell commands of a page.
type Recipe struct {
	Name   string
	Script string // for sh
}

// Blocks of code begin and end with a fence, which may name a language.
const (
	fence    = "```"
	language = "sh"
)

var mark = regexp.MustCompile(`^# recipe: ([a-z0-9]+(?:-[a-z0-9]+)*)$`)

// Read returns the recipes of a page in Markdown in their order: its blocks of sh whose
// first line is "# recipe: name". Errors: ErrPage for two of one name, one without
// commands, and a block without an end.
func Read(page string) ([]Recipe, error) {
	var list []Recipe
	known := map[string]bool{}
	inside, kind := false, ""
	var block []string
	for line := range strings.Lines(page) {
		line = strings.TrimSuffix(line, "\n")
		switch opened, is := strings.CutPrefix(line, fence); {
		case is && !inside:
			inside, kind, block = true, opened, nil
		case line == fence && inside:
			inside = false
			r, is, err := recipe(kind, block)
			if err != nil {
				return nil, err
			}
			if !is {
				continue
			}
			if known[r.Name] {
				return nil, fmt.Errorf("%w: two of the name %s", ErrPage, r.Name)
			}
			known[r.Name] = true
			list = append(list, r)
		case inside:
			block = append(block, line)
		}
	}
	if inside {
		return nil, fmt.Errorf("%w: a block has no end", ErrPage)
	}
	return list, nil
}

// recipe returns that of a block, if it is one.
func recipe(kind string, block []string) (r Recipe, is bool, err error) {
	if kind != language || len(block) == 0 {
		return Recipe{}, false, nil
	}
	name := mark.FindStringSubmatch(block[0])
	if name == nil {
		return Recipe{}, false, nil
	}
	script := strings.Join(block[1:], "\n")
	if strings.TrimSpace(script) == "" {
		return Recipe{}, false, fmt.Errorf("%w: %s has no commands", ErrPage, name[1])
	}
	return Recipe{name[1], script + "\n"}, true, nil
}
