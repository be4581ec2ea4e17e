package main

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"
)

// row is a line of the table of values.
type row struct {
	name, value, meaning string
}

// documented begins the comment of a value that is told of. What has such a comment is
// told of as a whole.
const documented = "# --"

// described is told of as a whole, and so are its parts.
const described = "cluster.spec"

// rowsOf returns the values of a file in its order. Errors: a value that no comment tells of.
func rowsOf(values []byte) ([]row, error) {
	var document yaml.Node
	if err := yaml.Unmarshal(values, &document); err != nil {
		return nil, err
	}
	if len(document.Content) != 1 || document.Content[0].Kind != yaml.MappingNode {
		return nil, errors.New("it is no map")
	}
	return rowsBelow("", document.Content[0])
}

func rowsBelow(prefix string, node *yaml.Node) (rows []row, err error) {
	for i := 0; i+1 < len(node.Content); i += 2 {
		key, value := node.Content[i], node.Content[i+1]
		name := prefix + key.Value
		meaning, told := comment(key.HeadComment)
		if told {
			r := row{name: name, meaning: meaning}
			if name != described {
				if r.value, err = inline(value); err != nil {
					return nil, fmt.Errorf("%s: %w", name, err)
				}
			}
			rows = append(rows, r)
		}
		if told && name != described {
			continue
		}
		if value.Kind != yaml.MappingNode || len(value.Content) == 0 {
			return nil, fmt.Errorf("no comment with %q tells of %s", documented, name)
		}
		below, err := rowsBelow(name+".", value)
		if err != nil {
			return nil, err
		}
		rows = append(rows, below...)
	}
	return rows, nil
}

// comment returns the text of a comment that tells of a value.
func comment(head string) (string, bool) {
	at := strings.LastIndex(head, documented)
	if at < 0 {
		return "", false
	}
	words := strings.Fields(strings.ReplaceAll(head[at+len(documented):], "\n#", " "))
	return strings.Join(words, " "), true
}

// inline returns a value in one line, as it could stand in a file.
func inline(node *yaml.Node) (string, error) {
	flat(node)
	var out bytes.Buffer
	encoder := yaml.NewEncoder(&out)
	if err := encoder.Encode(node); err != nil {
		return "", err
	}
	text := strings.Join(strings.Fields(out.String()), " ")
	if strings.Contains(text, "`") {
		return "", errors.New("a value with a backquote")
	}
	return text, nil
}

func flat(node *yaml.Node) {
	node.Style |= yaml.FlowStyle
	node.HeadComment, node.LineComment, node.FootComment = "", "", ""
	for _, part := range node.Content {
		flat(part)
	}
}

// Marks around the table.
const (
	tableBegin = "<!-- The table of the values: go run ./hack/chart makes it from values.yaml. -->\n"
	tableEnd   = "<!-- The end of the table. -->\n"
)

// withTable returns a page with the table between its marks.
func withTable(page []byte, rows []row) ([]byte, error) {
	before, rest, ok := bytes.Cut(page, []byte(tableBegin))
	_, after, closed := bytes.Cut(rest, []byte(tableEnd))
	if !ok || !closed {
		return nil, fmt.Errorf("the marks are missing: %s%s", tableBegin, tableEnd)
	}
	var out bytes.Buffer
	out.Write(before)
	out.WriteString(tableBegin + "\n| Value | Default | Meaning |\n| --- | --- | --- |\n")
	for _, r := range rows {
		value := r.value
		if value != "" {
			value = "`" + strings.ReplaceAll(value, "|", `\|`) + "`"
		}
		fmt.Fprintf(&out, "| `%s` | %s | %s |\n", r.name, value, strings.ReplaceAll(r.meaning, "|", `\|`))
	}
	out.WriteString("\n" + tableEnd)
	out.Write(after)
	return out.Bytes(), nil
}
