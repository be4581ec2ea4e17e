package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tickmesh/tickmesh/hack/archive"
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
	for _, folder := range []string{folder, folderOperator} {
		t.Run(folder, func(t *testing.T) { testTableAndSchema(t, folder) })
	}
}

func testTableAndSchema(t *testing.T, folder string) {
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

// The operator's values are those of the other chart without the cluster's.
func TestOperatorValues(t *testing.T) {
	got, err := operatorValues([]byte(`a: 1

operator:
  # -- One
  # line.
  enabled: true
  # -- Two.
  b: 2

cluster:
  enabled: true

  # -- Three.
  spec: {}
# -- Four.
c: 3
`))
	want := "a: 1\n\noperator:\n  # -- Two.\n  b: 2\n\n# -- Four.\nc: 3\n"
	if err != nil || string(got) != want {
		t.Errorf("%v\n%s", err, got)
	}
	for _, values := range []string{"", "cluster:\n  a: 1\n", "operator:\n  # -- X.\n  enabled: true\n"} {
		if got, err := operatorValues([]byte(values)); err == nil {
			t.Errorf("%q: %q", values, got)
		}
	}
	for _, base := range []string{"", "{}", `{"properties":{"operator":{}}}`} {
		if got, err := operatorSchema([]byte(base)); err == nil {
			t.Errorf("%q: %q", base, got)
		}
	}
}

// Archives have the same bytes each time, and what links of the sources lead to.
func TestRelease(t *testing.T) {
	var archives [2][]byte
	for i := range archives {
		out := filepath.Join(t.TempDir(), "charts")
		if err := release(root, out); err != nil {
			t.Fatal(err)
		}
		names, err := filepath.Glob(filepath.Join(out, "*"))
		if err != nil || len(names) != 4 {
			t.Fatal(names, err)
		}
		for _, name := range names {
			content, err := os.ReadFile(name)
			if err != nil || len(content) == 0 {
				t.Fatal(name, err)
			}
			archives[i] = append(archives[i], content...)
		}
	}
	if !bytes.Equal(archives[0], archives[1]) {
		t.Error("two archives of the same sources differ")
	}
	files, err := chartFiles(filepath.Join(root, folderOperator), "x")
	if err != nil || files[0].Name != "x/Chart.yaml" {
		t.Fatal(err, files)
	}
	for _, name := range []string{"x/crds/tickmesh.dev_tickmeshclusters.yaml", "x/files/role.yaml", "x/dashboards/nodes.json", "x/templates/operator/deployment.yaml"} {
		if !slices.ContainsFunc(files, func(f archive.File) bool { return f.Name == name && len(f.Content) > 0 }) {
			t.Errorf("%s is not in the archive", name)
		}
	}
}
