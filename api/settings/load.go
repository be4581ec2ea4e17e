package settings

import (
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

	"github.com/tickmesh/tickmesh/api/rulefile"
)

const (
	environmentPrefix = "TICKMESH_"
	flagConfig        = "config"
	flagHelp          = "help"

	fileBytesMax = 1 << 20
)

// EnvironmentName returns the name of the environment variable of a flag.
func EnvironmentName(flag string) string {
	return environmentPrefix + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// Load sets the flags that the command line left alone: from environ, which has the form of
// os.Environ, then from the file that --config names. The error has a line for each problem;
// strange are names in the environment that look like settings and are none.
func Load(flags *pflag.FlagSet, environ []string) (strange []string, err error) {
	environment, strange := ofEnvironment(flags, environ)
	var problems []error
	flags.VisitAll(func(f *pflag.Flag) {
		if value, ok := environment[f.Name]; ok && !f.Changed {
			problems = append(problems, setFlag(flags, f, value, EnvironmentName(f.Name)))
		}
	})
	if file := flags.Lookup(flagConfig); file != nil && file.Value.String() != "" {
		problems = append(problems, loadFile(flags, file.Value.String()))
	}
	return strange, errors.Join(problems...)
}

// ofEnvironment returns the values of the environment by the names of flags.
func ofEnvironment(flags *pflag.FlagSet, environ []string) (values map[string]string, strange []string) {
	flagOf := map[string]string{}
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Name != flagHelp {
			flagOf[EnvironmentName(f.Name)] = f.Name
		}
	})
	// Kubernetes gives every pod variables about services: one called tickmesh
	// makes TICKMESH_SERVICE_HOST and TICKMESH_PORT_6182_TCP.
	ofService := regexp.MustCompile(`_(SERVICE_HOST|SERVICE_PORT|PORT)(_|$)`)
	// A shell that has them for the commands starts servers, too.
	ofCommands := pflag.NewFlagSet("", pflag.ContinueOnError)
	new(Client).Define(ofCommands)
	known := map[string]bool{}
	ofCommands.VisitAll(func(f *pflag.Flag) { known[EnvironmentName(f.Name)] = true })
	values = map[string]string{}
	for _, variable := range environ {
		name, value, _ := strings.Cut(variable, "=")
		if flag, ok := flagOf[name]; ok {
			values[flag] = value
		} else if strings.HasPrefix(name, environmentPrefix) && !ofService.MatchString(name) && !known[name] {
			strange = append(strange, name)
		}
	}
	slices.Sort(strange)
	return values, strange
}

// setFlag sets a flag; from is where the value was written.
func setFlag(flags *pflag.FlagSet, f *pflag.Flag, value, from string) error {
	if err := flags.Set(f.Name, value); err != nil {
		return fmt.Errorf("%s: invalid value %q: %w", from, value, reasonOf(err))
	}
	return nil
}

// reasonOf returns why a value was refused, in words for people.
func reasonOf(err error) error {
	var invalid *pflag.InvalidValueError
	if !errors.As(err, &invalid) {
		return err
	}
	if invalid.GetFlag().Value.Type() == "bool" {
		return errors.New("expected true or false")
	}
	return invalid.Unwrap()
}

// FlagError words an error of the command line as loadSettings words its own.
func FlagError(err error) error {
	var invalid *pflag.InvalidValueError
	if errors.As(err, &invalid) {
		return fmt.Errorf("--%s: invalid value %q: %w", invalid.GetFlag().Name, invalid.GetValue(), reasonOf(err))
	}
	return err
}

// loadFile sets the flags that have no value yet from a file.
func loadFile(flags *pflag.FlagSet, path string) error {
	text, err := readSettingsFile(path)
	if err != nil {
		return fmt.Errorf("--%s: %w", flagConfig, err)
	}
	values, err := parseFile(path, text)
	problems := []error{err}
	for _, v := range values {
		f := flags.Lookup(v.name)
		switch {
		case f == nil || f.Name == flagConfig || f.Name == flagHelp:
			problems = append(problems, fmt.Errorf("%s: there is no such setting; --help lists their names", v.from))
		case f.Changed:
		case v.list != nil:
			list, ok := f.Value.(pflag.SliceValue)
			if !ok {
				problems = append(problems, fmt.Errorf("%s: expected a single value, not a list", v.from))
				continue
			}
			problems = append(problems, list.Replace(v.list))
			f.Changed = true
		default:
			problems = append(problems, setFlag(flags, f, v.value, v.from))
		}
	}
	return errors.Join(problems...)
}

func readSettingsFile(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, fileBytesMax+1))
	if err != nil {
		return nil, err
	}
	if len(text) > fileBytesMax {
		return nil, fmt.Errorf("%s is longer than %d bytes: not a file of settings", path, fileBytesMax)
	}
	return text, nil
}

// fileValue is one setting of a file.
type fileValue struct {
	name, value string
	list        []string // instead of value; nil: no list
	from        string   // path:line: name
}

// parseFile reads the text of a file of settings. It returns all values that
// are well formed, and an error with a line for each that is not.
func parseFile(path string, text []byte) ([]fileValue, error) {
	top, err := rulefile.Document(path, text)
	if top == nil {
		return nil, err
	}
	if top.Kind != yaml.MappingNode {
		return nil, fmt.Errorf("%s:%d: expected lines of the form `name: value`", path, top.Line)
	}
	var values []fileValue
	var problems []error
	lines := map[string]int{}
	for i := 0; i+1 < len(top.Content); i += 2 {
		name := top.Content[i]
		from := fmt.Sprintf("%s:%d: %s", path, name.Line, name.Value)
		if name.Kind != yaml.ScalarNode || name.Tag == "!!merge" {
			problems = append(problems, fmt.Errorf("%s:%d: expected the name of a setting", path, name.Line))
			continue
		}
		if before, ok := lines[name.Value]; ok {
			problems = append(problems, fmt.Errorf("%s: is set in line %d already", from, before))
			continue
		}
		lines[name.Value] = name.Line
		value, list, err := settingOf(top.Content[i+1])
		if err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", from, err))
			continue
		}
		values = append(values, fileValue{name: name.Value, value: value, list: list, from: from})
	}
	return values, errors.Join(problems...)
}

// settingOf returns the value of a node, or its values when it is a list.
func settingOf(n *yaml.Node) (value string, list []string, err error) {
	switch {
	case rulefile.IsNull(n):
		return "", nil, errors.New(`has no value; write "" for an empty one`)
	case n.Kind == yaml.ScalarNode:
		return n.Value, nil, nil
	case n.Kind == yaml.SequenceNode:
		list = []string{}
		for _, item := range n.Content {
			if item.Kind != yaml.ScalarNode || rulefile.IsNull(item) {
				return "", nil, errors.New("expected a list of single values")
			}
			list = append(list, item.Value)
		}
		return "", list, nil
	default:
		return "", nil, errors.New("expected a single value")
	}
}
