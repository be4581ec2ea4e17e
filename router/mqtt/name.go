package mqtt

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Names that tags cannot have: storage keeps the metric and the field of line protocol by them.
const (
	labelMetric = "__name__"
	labelField  = "_field"
)

// checkName refuses what is no name of a level or tag.
func checkName(name string) error {
	letter := func(r rune) bool { return r == '_' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' }
	for i, r := range name {
		if !letter(r) && (i == 0 || r < '0' || r > '9') {
			return fmt.Errorf("%q is no name: expected letters, digits and _", name)
		}
	}
	switch name {
	case "":
		return errors.New("a name is missing: expected letters, digits and _")
	case labelMetric, labelField:
		return fmt.Errorf("%q is a name that storage keeps for itself: take another", name)
	}
	return nil
}

// fieldName is the placeholder of a JSON field's name.
const fieldName = "field"

// naming makes the name of a metric of texts and placeholders: "{room}_{metric}".
type naming struct {
	parts []namePart
}

type namePart struct{ text, placeholder string }

// parseNaming reads a text with placeholders, which are among those known.
func parseNaming(text string, known []string) (n naming, err error) {
	if text == "" {
		return n, errors.New("expected a name, such as {metric}")
	}
	for rest := text; rest != ""; {
		before, after, found := strings.Cut(rest, "{")
		if before != "" {
			n.parts = append(n.parts, namePart{text: before})
		}
		if !found {
			break
		}
		name, behind, closed := strings.Cut(after, "}")
		if !closed || !slices.Contains(known, name) {
			return n, fmt.Errorf("%q: {%s} is none of %s", text, name, placeholders(known))
		}
		n.parts, rest = append(n.parts, namePart{placeholder: name}), behind
	}
	return n, nil
}

// placeholders returns names as they stand in texts.
func placeholders(names []string) string {
	if len(names) == 0 {
		return "the placeholders that there are here, which are none"
	}
	return "{" + strings.Join(names, "}, {") + "}"
}

// uses reports whether a placeholder is among the parts.
func (n *naming) uses(placeholder string) bool {
	return slices.ContainsFunc(n.parts, func(p namePart) bool { return p.placeholder == placeholder })
}

// name returns the metric of a field of a message; both may be empty.
func (n *naming) name(values []named, field string) string {
	var b strings.Builder
	for _, p := range n.parts {
		switch p.placeholder {
		case "":
			b.WriteString(p.text)
		case fieldName:
			b.WriteString(field)
		case metricLevel:
			b.WriteString(metricOf(values))
		default:
			for _, v := range values {
				if v.name == p.placeholder {
					b.WriteString(v.value)
				}
			}
		}
	}
	return b.String()
}
