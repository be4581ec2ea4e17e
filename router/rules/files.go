package rules

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
	"go.yaml.in/yaml/v3"

	"github.com/tickmesh/tickmesh/api/rulefile"
)

// Bounds of the rules of one database.
const (
	FilesMax    = 256
	BytesMax    = 8 << 20 // of all files; one has rulefile.BytesMax at most
	GroupsMax   = 1000
	RulesMax    = 10_000
	IntervalMin = time.Second // of a group
)

// ErrFiles marks files of rules that cannot be used. Its message names file, place and remedy, a line for each problem.
var ErrFiles = errors.New("not valid files of rules")

// ruleSet is what the files of one database say. It is not changed once it is made.
type ruleSet struct {
	files  []string // sorted
	groups map[string]*rulefmt.RuleGroups
	count  counts
	sum    [sha256.Size]byte // of all names and texts
}

type counts struct{ groups, rules int }

// errChanging reports files that may be half written: they are others than when they were read before.
var errChanging = errors.New("files of rules change")

// reader reads the files of one database.
type reader struct {
	paths  []string // files and patterns
	parser parser.Parser
	logger *slog.Logger
	seen   [sha256.Size]byte // of names and texts when they were read before
	bad    error             // what is wrong with these; nil: nothing, or they were not parsed
}

// read returns what the files say now, or last where they have not changed. A change counts when two readings in a row
// see it: an editor or a copy that is at work leaves a file empty, cut or away for a moment, all of which make sense as
// rules, and alerts that are gone lose since when they are active. Nil takes the files as they are. Errors: ErrFiles;
// errChanging, where nothing is known yet.
func (r *reader) read(last *ruleSet) (*ruleSet, error) {
	files, err := r.find()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFiles, err)
	}
	texts, sum, left := make([][]byte, len(files)), sha256.New(), BytesMax
	for i, file := range files {
		if texts[i], err = readFile(file); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrFiles, err)
		}
		if left -= len(texts[i]); left < 0 {
			return nil, fmt.Errorf("%w: the files of a database have more than %d bytes", ErrFiles, BytesMax)
		}
		fmt.Fprintf(sum, "%d %s %d ", len(file), file, len(texts[i]))
		sum.Write(texts[i])
	}
	set := &ruleSet{files: files, groups: map[string]*rulefmt.RuleGroups{}}
	sum.Sum(set.sum[:0])
	stable := r.seen == set.sum
	if !stable {
		r.seen, r.bad = set.sum, nil
	}
	switch {
	case last != nil && last.sum == set.sum:
		return last, nil
	case last != nil && !stable:
		return nil, errChanging
	case r.bad == nil:
		r.bad = r.parse(set, texts)
	}
	if r.bad != nil {
		return nil, r.bad
	}
	return set, nil
}

// parse fills a set with what its files say. Errors: ErrFiles.
func (r *reader) parse(set *ruleSet, texts [][]byte) error {
	var problems []error
	for i, file := range set.files {
		groups, errs := parseFile(file, texts[i], r.parser, r.logger)
		if set.groups[file] = groups; len(errs) > 0 {
			problems = append(problems, errs...)
			continue
		}
		set.count.groups += len(groups.Groups)
		for _, g := range groups.Groups {
			set.count.rules += len(g.Rules)
		}
	}
	if set.count.groups > GroupsMax || set.count.rules > RulesMax {
		problems = append(problems, fmt.Errorf("%d groups and %d rules, of %d and %d that a database may have", set.count.groups, set.count.rules, GroupsMax, RulesMax))
	}
	if len(problems) > 0 {
		return fmt.Errorf("%w: %w", ErrFiles, errors.Join(problems...))
	}
	return nil
}

// find returns the files that are named. A pattern may match none, but a file has to be there.
func (r *reader) find() (files []string, err error) {
	for _, path := range r.paths {
		matches := []string{path}
		if strings.ContainsAny(path, `*?[\`) {
			if matches, err = filepath.Glob(path); err != nil {
				return nil, err
			}
		}
		files = append(files, matches...)
	}
	slices.Sort(files)
	files = slices.Compact(files)
	if len(files) > FilesMax {
		return nil, fmt.Errorf("%d files, of %d that a database may have", len(files), FilesMax)
	}
	return files, nil
}

// readFile returns the text of a regular file of at most rulefile.BytesMax bytes.
func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is no regular file", path)
	}
	var text bytes.Buffer
	if _, err := text.ReadFrom(io.LimitReader(f, rulefile.BytesMax+1)); err != nil {
		return nil, err
	}
	if text.Len() > rulefile.BytesMax {
		return nil, fmt.Errorf("%s is longer than %d bytes", path, rulefile.BytesMax)
	}
	return text.Bytes(), nil
}

// measured is the parser of all expressions of rules. It measures them before it parses them.
type measured struct {
	parser.Parser
	measure func(expr string) error
}

// ParseExpr implements parser.Parser.
func (p measured) ParseExpr(expr string) (parser.Expr, error) {
	if err := p.measure(expr); err != nil {
		return nil, err
	}
	return p.Parser.ParseExpr(expr)
}

// parseFile reads the text of a file as Prometheus does, and refuses what Prometheus only warns of: a second document.
// Each error begins with the file and, where it is known, the line.
func parseFile(file string, text []byte, p parser.Parser, logger *slog.Logger) (*rulefmt.RuleGroups, []error) {
	document, err := rulefile.Document(file, text)
	if err != nil {
		return nil, []error{err}
	}
	groups, errs := rulefmt.Parse(text, false, model.UTF8Validation, p, logger)
	lines := linesOf(document)
	errs = slices.DeleteFunc(errs, func(err error) bool {
		return strings.HasPrefix(err.Error(), noPlace) && !errors.As(err, new(*rulefmt.Error)) // checkGroups says the same
	})
	for i := range errs {
		errs[i] = fmt.Errorf("%s:%s", file, placed(errs[i], lines))
	}
	if groups != nil {
		errs = append(errs, checkGroups(file, groups.Groups, lines)...)
	}
	return groups, errs
}

// noPlace begins what rulefmt says of groups, whose places it does not know, and of fields that are not there.
const noPlace = "0:0: "

// groupLines are the places of a group in its file.
type groupLines struct {
	name  string
	line  int
	rules []int // lines at which they begin
}

// checkGroups returns what is wrong with groups beside their rules.
func checkGroups(file string, groups []rulefmt.RuleGroup, lines []groupLines) (problems []error) {
	known := map[string]bool{}
	for i, g := range groups {
		refuse := func(format string, values ...any) {
			line := 1
			if i < len(lines) {
				line = lines[i].line
			}
			problems = append(problems, fmt.Errorf("%s:%d: %w", file, line, fmt.Errorf(format, values...)))
		}
		switch {
		case g.Name == "":
			refuse("a group has no name")
		case known[g.Name]:
			refuse("group %q is there twice", g.Name)
		}
		known[g.Name] = true
		if g.Interval != 0 && time.Duration(g.Interval) < IntervalMin {
			refuse("group %q: interval %v is shorter than %v", g.Name, g.Interval, IntervalMin)
		}
	}
	return problems
}

// linesOf returns the places of the groups of a document.
func linesOf(document *yaml.Node) (all []groupLines) {
	for _, group := range content(field(document, "groups")) {
		g := groupLines{line: group.Line}
		if name := field(group, "name"); name != nil {
			g.name = name.Value
		}
		for _, rule := range content(field(group, "rules")) {
			g.rules = append(g.rules, rule.Line)
		}
		all = append(all, g)
	}
	return all
}

// field returns the value of a key of a mapping, or nil.
func field(node *yaml.Node, key string) *yaml.Node {
	if node == nil || node.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(node.Content); i += 2 {
		if node.Content[i].Value == key {
			return node.Content[i+1]
		}
	}
	return nil
}

func content(node *yaml.Node) []*yaml.Node {
	if node == nil || node.Kind != yaml.SequenceNode {
		return nil
	}
	return node.Content
}

// placed returns the text of an error of rulefmt so that the name of the file can stand before it: it begins with the
// line where one is known.
func placed(err error, lines []groupLines) string {
	text := strings.ReplaceAll(strings.TrimPrefix(err.Error(), "yaml: "), "\n", " ")
	if after, ok := strings.CutPrefix(text, "line "); ok { // of yaml
		return after
	}
	text = strings.TrimPrefix(strings.TrimPrefix(text, noPlace), noPlace) // of two fields
	if text != "" && text[0] >= '0' && text[0] <= '9' {
		return text
	}
	if of := (*rulefmt.Error)(nil); errors.As(err, &of) {
		for _, g := range lines {
			if g.name == of.Group && of.Rule >= 1 && of.Rule <= len(g.rules) {
				return fmt.Sprintf("%d: %s", g.rules[of.Rule-1], text)
			}
		}
	}
	return " " + text
}
