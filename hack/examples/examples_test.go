package examples

import (
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/config"
	"sigs.k8s.io/yaml"

	"github.com/tickmesh/tickmesh/hack/recipes"
)

const root = "../.."

// readStrict reads a file of YAML, which may have no keys that v does not.
func readStrict(t *testing.T, file string, v any) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.UnmarshalStrict(text, v); err != nil {
		t.Errorf("%s: %v", file, err)
	}
}

// dataSource has the keys of Grafana's documentation of provisioned data sources that the example uses.
type dataSource struct {
	Name      string         `json:"name"`
	UID       string         `json:"uid"`
	Type      string         `json:"type"`
	Access    string         `json:"access"`
	URL       string         `json:"url"`
	IsDefault bool           `json:"isDefault"`
	JSONData  map[string]any `json:"jsonData"`
}

// optionsOf has the keys of jsonData that Grafana documents for each type of data source and the example uses.
var optionsOf = map[string][]string{
	"prometheus": {"httpMethod", "timeInterval"},
	"influxdb":   {"version", "dbName", "httpMode"},
	"opentsdb":   {"tsdbVersion", "tsdbResolution"},
}

func TestGrafanaDataSources(t *testing.T) {
	var file struct {
		APIVersion  int          `json:"apiVersion"`
		Datasources []dataSource `json:"datasources"`
	}
	readStrict(t, "grafana/provisioning/datasources/tickmesh.yaml", &file)
	defaults := 0
	types, uids := map[string]bool{}, map[string]bool{}
	for _, d := range file.Datasources {
		types[d.Type], uids[d.UID] = true, true
		if d.IsDefault {
			defaults++
		}
		if d.Name == "" || d.UID == "" || d.Access != "proxy" || d.URL != "http://localhost:6182" {
			t.Errorf("%+v", d)
		}
		for key := range d.JSONData {
			if !slices.Contains(optionsOf[d.Type], key) {
				t.Errorf("%s: there is no %s of %s", d.Name, key, d.Type)
			}
		}
	}
	if file.APIVersion != 1 || defaults != 1 || len(types) != len(optionsOf) || len(uids) != len(file.Datasources) {
		t.Errorf("%+v", file)
	}
}

// The provider names the folder of the chart's dashboards, each of which finds a data source by its type.
func TestGrafanaDashboards(t *testing.T) {
	var file struct {
		APIVersion int `json:"apiVersion"`
		Providers  []struct {
			Name    string `json:"name"`
			Folder  string `json:"folder"`
			Type    string `json:"type"`
			Options struct {
				Path string `json:"path"`
			} `json:"options"`
		} `json:"providers"`
	}
	readStrict(t, "grafana/provisioning/dashboards/tickmesh.yaml", &file)
	if file.APIVersion != 1 || len(file.Providers) != 1 || file.Providers[0].Type != "file" {
		t.Fatalf("%+v", file)
	}
	folder, inCheckout := strings.CutPrefix(file.Providers[0].Options.Path, "$PWD/")
	boards, err := filepath.Glob(filepath.Join(root, folder, "*.json"))
	if !inCheckout || err != nil || len(boards) < 4 {
		t.Fatalf("%s: %d dashboards, %v", folder, len(boards), err)
	}
	for _, name := range boards {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		var board struct {
			UID, Title string
			Templating struct {
				List []struct{ Name, Type, Query any }
			}
		}
		if err := json.Unmarshal(text, &board); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		found := false
		for _, v := range board.Templating.List {
			found = found || v.Type == "datasource" && v.Name == "datasource" && v.Query == "prometheus"
		}
		if board.Title == "" || board.UID == "" || !found {
			t.Errorf("%s: %+v", name, board)
		}
	}
}

func TestPrometheusTakesFiles(t *testing.T) {
	for _, file := range []string{"prometheus/prometheus.yml", "grafana/prometheus.yml"} {
		loaded, err := config.LoadFile(file, false, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		if len(loaded.RemoteWriteConfigs) != 1 || loaded.RemoteWriteConfigs[0].URL.String() != "http://localhost:6182/api/v1/write" {
			t.Errorf("%s: %v", file, loaded.RemoteWriteConfigs)
		}
	}
}

// Pages name files that are there, and have examples.
func TestPages(t *testing.T) {
	pages, err := filepath.Glob("*/README.md")
	if err != nil || len(pages) != 5 {
		t.Fatalf("%v, %v", pages, err)
	}
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		blocks, err := recipes.Blocks(string(text))
		if err != nil {
			t.Fatalf("%s: %v", page, err)
		}
		console := 0
		for _, b := range blocks {
			if b.Language == "console" {
				console++
			}
			for _, word := range strings.Fields(b.Text) {
				if at := strings.Index(word, "hack/examples/"); at >= 0 {
					if _, err := os.Stat(filepath.Join(root, word[at:])); err != nil {
						t.Errorf("%s: %v", page, err)
					}
				}
			}
		}
		if console == 0 {
			t.Errorf("%s has no examples", page)
		}
	}
}
