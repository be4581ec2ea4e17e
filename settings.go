package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"
)

// Every setting is a flag, a key of the YAML file of the same name, and an
// environment variable: --http-addr, http-addr:, TICKMESH_HTTP_ADDR. A flag wins
// over the environment, the environment over the file, the file over the default.

const (
	environmentPrefix = "TICKMESH_"
	flagConfig        = "config"
	groupAnnotation   = "tickmesh_group"
)

func environmentName(flag string) string {
	return environmentPrefix + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// loadSettings fills the flags that the command line left alone.
func loadSettings(flags *pflag.FlagSet, lookupEnv func(string) (string, bool)) error {
	set := func(f *pflag.Flag, value, from string) error {
		if err := flags.Set(f.Name, value); err != nil {
			return fmt.Errorf("%s: invalid value %q: %w", from, value, errors.Unwrap(err))
		}
		return nil
	}
	var problems []error
	flags.VisitAll(func(f *pflag.Flag) {
		name := environmentName(f.Name)
		if value, ok := lookupEnv(name); ok && !f.Changed {
			problems = append(problems, set(f, value, "environment variable "+name))
		}
	})
	file := flags.Lookup(flagConfig)
	if file != nil && file.Value.String() != "" {
		path := file.Value.String()
		values, err := readSettingsFile(path)
		if err != nil {
			return err
		}
		for _, v := range values {
			f := flags.Lookup(v.name)
			from := fmt.Sprintf("%s:%d: %s", path, v.line, v.name)
			switch {
			case f == nil || f.Name == flagConfig || f.Name == "help":
				problems = append(problems, fmt.Errorf("%s: there is no such setting; see --help for the names", from))
			case !f.Changed:
				problems = append(problems, set(f, v.value, from))
			}
		}
	}
	return errors.Join(problems...)
}

type fileValue struct {
	name, value string
	line        int
}

func readSettingsFile(path string) ([]fileValue, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("--config: %w", err)
	}
	var document yaml.Node
	if err := yaml.Unmarshal(b, &document); err != nil {
		return nil, fmt.Errorf("--config %s: %w", path, err)
	}
	if len(document.Content) == 0 {
		return nil, nil
	}
	top := document.Content[0]
	if top.Kind != yaml.MappingNode {
		return nil, fmt.Errorf("--config %s:%d: expected `name: value` lines", path, top.Line)
	}
	var values []fileValue
	for i := 0; i+1 < len(top.Content); i += 2 {
		name, value := top.Content[i], top.Content[i+1]
		if value.Kind != yaml.ScalarNode {
			return nil, fmt.Errorf("--config %s:%d: %s: expected a single value", path, value.Line, name.Value)
		}
		if slices.ContainsFunc(values, func(v fileValue) bool { return v.name == name.Value }) {
			return nil, fmt.Errorf("--config %s:%d: %s is set twice", path, name.Line, name.Value)
		}
		values = append(values, fileValue{name.Value, value.Value, name.Line})
	}
	return values, nil
}

// group puts flags under a heading of the help text.
func group(flags *pflag.FlagSet, heading string, names ...string) {
	for _, name := range names {
		f := flags.Lookup(name)
		f.Annotations = map[string][]string{groupAnnotation: {heading}}
	}
}

// writeUsage prints the flags by group, in the order in which groups first
// appear in headings.
func writeUsage(cmd *cobra.Command, w io.Writer, headings []string) {
	fmt.Fprintf(w, "Usage:\n  %s\n", cmd.UseLine())
	if cmd.Example != "" {
		fmt.Fprintf(w, "\nExamples:\n%s\n", cmd.Example)
	}
	for _, heading := range headings {
		set := pflag.NewFlagSet(heading, pflag.ContinueOnError)
		set.SortFlags = false
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if slices.Contains(f.Annotations[groupAnnotation], heading) {
				set.AddFlag(f)
			}
		})
		fmt.Fprintf(w, "\n%s:\n%s", heading, set.FlagUsagesWrapped(100))
	}
	fmt.Fprintf(w, `
Every flag is also a key of the --config file (http-addr: ":6182") and an
environment variable (TICKMESH_HTTP_ADDR). Flags win over the environment, the
environment wins over the file.
`)
}

// byteSize is a flag's number of bytes: 65536, 64KiB, 1.5GiB, 200MB.
type byteSize int64

var byteUnits = []struct {
	suffix string
	bytes  float64
}{
	{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40},
	{"kB", 1e3}, {"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12}, {"B", 1},
}

func (b *byteSize) Set(text string) error {
	number, unit := text, 1.0
	for _, u := range byteUnits {
		if strings.HasSuffix(text, u.suffix) {
			number, unit = strings.TrimSuffix(text, u.suffix), u.bytes
			break
		}
	}
	v, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if err != nil || v < 0 || v*unit > 1<<62 {
		return errors.New("expected a size such as 65536, 64KiB or 1.5GB")
	}
	*b = byteSize(v * unit)
	return nil
}

func (b *byteSize) Type() string { return "size" }

func (b *byteSize) String() string {
	v := int64(*b)
	for i := 3; i >= 0; i-- {
		if unit := int64(byteUnits[i].bytes); v >= unit && v%unit == 0 {
			return strconv.FormatInt(v/unit, 10) + byteUnits[i].suffix
		}
	}
	return strconv.FormatInt(v, 10)
}

// daysMax keeps a span within time.Duration.
const daysMax = 100_000

// span is a flag's length of time, with days, weeks and years besides Go's own
// units: 0 (for ever), 90d, 2w, 1y, 36h.
type span time.Duration

func (s *span) Set(text string) error {
	days := map[byte]int64{'d': 1, 'w': 7, 'y': 365}
	if n := len(text) - 1; n > 0 && days[text[n]] != 0 {
		v, err := strconv.ParseInt(text[:n], 10, 64)
		if err != nil || v < 0 || v > daysMax/days[text[n]] {
			return errors.New("expected a length of time such as 90d, 2w, 1y or 36h")
		}
		*s = span(time.Duration(v*days[text[n]]) * 24 * time.Hour)
		return nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return errors.New("expected a length of time such as 90d, 2w, 1y or 36h")
	}
	*s = span(d)
	return nil
}

func (s *span) Type() string { return "duration" }

func (s *span) String() string {
	d := time.Duration(*s)
	if d == 0 {
		return "0"
	}
	if d%(24*time.Hour) == 0 {
		return fmt.Sprintf("%dd", d/(24*time.Hour))
	}
	return d.String()
}

// oneOf is a flag that takes one of some words.
type oneOf struct {
	value string
	words []string
}

func (o *oneOf) Set(text string) error {
	if !slices.Contains(o.words, text) {
		return fmt.Errorf("expected %s", strings.Join(o.words, ", "))
	}
	o.value = text
	return nil
}

func (o *oneOf) Type() string   { return strings.Join(o.words, "|") }
func (o *oneOf) String() string { return o.value }
