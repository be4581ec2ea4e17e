package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const root = "../.."

// The files of the chart are what their sources say.
func TestFiles(t *testing.T) {
	made, err := files(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range made {
		is, err := os.ReadFile(filepath.Join(root, f.path))
		if err != nil || !bytes.Equal(is, f.content) {
			t.Errorf("%s is not what its sources say: go run ./hack/chart (%v)", f.path, err)
		}
	}
}

// Each value that is told of is in the schema, and the other way round: nothing can be
// set that the table does not know, but what lies in the cluster's spec.
func TestTableAndSchemaAgree(t *testing.T) {
	values, err := os.ReadFile(filepath.Join(root, folder, "values.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	rows, err := rowsOf(values)
	if err != nil {
		t.Fatal(err)
	}
	var told, known []string
	for _, r := range rows {
		if !strings.HasPrefix(r.name, described+".") {
			told = append(told, r.name)
		}
	}
	text, err := os.ReadFile(filepath.Join(root, folder, "values.schema.json"))
	if err != nil {
		t.Fatal(err)
	}
	type node struct {
		Properties map[string]json.RawMessage
		Ref        string `json:"$ref"`
	}
	var walk func(prefix string, raw json.RawMessage)
	walk = func(prefix string, raw json.RawMessage) {
		var n node
		if err := json.Unmarshal(raw, &n); err != nil {
			t.Fatal(err)
		}
		if len(n.Properties) == 0 || prefix == "operator.resources" {
			known = append(known, prefix)
		} else {
			for name, below := range n.Properties {
				walk(strings.TrimPrefix(prefix+"."+name, "."), below)
			}
		}
	}
	walk("", text)
	known = slices.DeleteFunc(known, func(name string) bool { return name == "global" })
	slices.Sort(told)
	slices.Sort(known)
	if !slices.Equal(told, known) {
		t.Errorf("the table has %v, the schema %v", told, known)
	}
}

func TestTable(t *testing.T) {
	rows, err := rowsOf([]byte(`
# Of no value.

a:
  # -- One
  # line.
  b: 1
  # not told
  # -- A | b.
  c: {d: [x, 'y|z']}
cluster:
  # -- All.
  spec:
    # -- Part.
    e: ""
`))
	want := []row{
		{"a.b", "1", "One line."}, {"a.c", "{d: [x, 'y|z']}", "A | b."}, {"cluster.spec", "", "All."}, {"cluster.spec.e", `""`, "Part."},
	}
	if err != nil || !slices.Equal(rows, want) {
		t.Fatalf("%q, %v", rows, err)
	}
	page, err := withTable([]byte("# Page\n"+tableBegin+"old\n"+tableEnd+"end\n"), rows)
	table := "# Page\n" + tableBegin + "\n| Value | Default | Meaning |\n| --- | --- | --- |\n| `a.b` | `1` | One line. |\n" +
		"| `a.c` | `{d: [x, 'y\\|z']}` | A \\| b. |\n| `cluster.spec` |  | All. |\n| `cluster.spec.e` | `\"\"` | Part. |\n\n" + tableEnd + "end\n"
	if err != nil || string(page) != table {
		t.Errorf("%v\n%s\nwant\n%s", err, page, table)
	}
	for _, values := range []string{"a: 1", "- 1", "a: {b: 1}", "", "a: [", "# -- Told.\na: 'x`y'"} {
		if rows, err := rowsOf([]byte(values)); err == nil {
			t.Errorf("%q: %v", values, rows)
		}
	}
	for _, page := range []string{"", tableBegin, tableEnd, tableEnd + tableBegin} {
		if out, err := withTable([]byte(page), nil); err == nil {
			t.Errorf("%q: %q", page, out)
		}
	}
}

func TestSchema(t *testing.T) {
	definition := `{spec: {versions: [{schema: {openAPIV3Schema: {properties: {spec: {
  type: object, description: x, required: [a], x-kubernetes-validations: [],
  properties: {
    a: {type: integer, format: int32, default: 3, minimum: 1},
    size: {anyOf: [{type: integer}, {type: string}], pattern: '^x$', x-kubernetes-int-or-string: true},
    names: {type: array, maxItems: 2, items: {type: string}, x-kubernetes-list-type: set},
    labels: {type: object, additionalProperties: {type: string}}}}}}}}]}}`
	got, err := schemaFile([]byte(`{"type":"object"}`), []byte(definition))
	want := `{"type":"object","$defs":{"clusterSpec":{"type":"object","additionalProperties":false,"properties":{
"a":{"type":"integer","minimum":1},"size":{"type":["integer","string"],"pattern":"^x$"},
"names":{"type":"array","maxItems":2,"items":{"type":"string"},"uniqueItems":true},
"labels":{"type":"object","additionalProperties":{"type":"string"}}}}}}`
	var is, should any
	if err != nil || json.Unmarshal(got, &is) != nil || json.Unmarshal([]byte(want), &should) != nil {
		t.Fatal(err)
	}
	a, _ := json.Marshal(is)
	b, _ := json.Marshal(should)
	if !bytes.Equal(a, b) {
		t.Errorf("%s\nwant %s", a, b)
	}
	for _, bad := range []string{"", "{", "spec: {versions: []}"} {
		if _, err := schemaFile([]byte("{}"), []byte(bad)); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}
