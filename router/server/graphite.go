package server

import (
	"errors"
	"fmt"
	"os"

	"github.com/tickmesh/tickmesh/api/parse"
	"github.com/tickmesh/tickmesh/api/rulefile"
)

// graphiteNames reads the file of --graphite-templates, once. Nil stands for none. Errors: those of reading, and
// rulefile.ErrFile.
func (s *Listeners) graphiteNames() (*parse.GraphiteNames, error) {
	if s.graphiteTemplates == "" {
		return nil, nil
	}
	text, err := os.ReadFile(s.graphiteTemplates)
	if err != nil {
		return nil, fmt.Errorf("--graphite-templates: %w", err)
	}
	names, err := parseGraphiteNames(s.graphiteTemplates, text)
	if err != nil {
		return nil, fmt.Errorf("--graphite-templates: %w", err)
	}
	return names, nil
}

// parseGraphiteNames reads the text of a file of templates:
//
//	separator: _
//	tags: {dc: home}
//	templates:
//	  - servers.* .host.resource.measurement*
//
// Errors: rulefile.ErrFile.
func parseGraphiteNames(file string, text []byte) (*parse.GraphiteNames, error) {
	top, err := rulefile.Parse(file, text)
	if err != nil {
		return nil, err
	}
	rules := parse.GraphiteRules{Tags: map[string]string{}}
	err = top.Fields(map[string]func(rulefile.Value) error{
		"separator": func(v rulefile.Value) (err error) { rules.Separator, err = v.Text(); return err },
		"templates": func(v rulefile.Value) (err error) { rules.Templates, err = v.Texts(); return err },
		"tags": func(v rulefile.Value) error {
			entries, err := v.Entries()
			problems := []error{err}
			for _, e := range entries {
				value, err := e.Value.Text()
				rules.Tags[e.Key], problems = value, append(problems, err)
			}
			return errors.Join(problems...)
		},
	})
	if err != nil {
		return nil, err
	}
	names, err := parse.NewGraphiteNames(rules)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", rulefile.ErrFile, file, err)
	}
	return names, nil
}
