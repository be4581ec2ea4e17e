// Package recipes reads the commands that a page tells people to type, and the answers that it shows, so that tests
// can run them as they stand.
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
	blocks, err := Blocks(page)
	if err != nil {
		return nil, err
	}
	var list []Recipe
	known := map[string]bool{}
	for _, b := range blocks {
		r, is, err := recipe(&b)
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
	}
	return list, nil
}

// recipe returns that of a block, if it is one.
func recipe(b *Block) (r Recipe, is bool, err error) {
	first, script, _ := strings.Cut(b.Text, "\n")
	name := mark.FindStringSubmatch(first)
	if b.Language != language || name == nil {
		return Recipe{}, false, nil
	}
	if strings.TrimSpace(script) == "" {
		return Recipe{}, false, fmt.Errorf("%w: %s has no commands", ErrPage, name[1])
	}
	return Recipe{name[1], script}, true, nil
}
