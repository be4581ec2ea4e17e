package process

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const serverRules = `
groups:
- name: g
  interval: 1s
  rules:
  - {record: "load:twice", expr: "load * 2", labels: {by: rule}}
  - {alert: High, expr: "load:twice > 10", labels: {severity: page}, annotations: {text: "{{ $labels.host }} has {{ $value }}"}}
`

// The whole way: points of a database by HTTP, a recording rule whose samples are queried, an alert that is made of
// them, sent, and told of. On its own, and in a cluster, where etcd elects who evaluates.
func TestRulesOfServer(t *testing.T) {
	for name, arguments := range map[string][]string{"alone": nil, "cluster": {"--nodes", "2"}} {
		t.Run(name, func(t *testing.T) {
			alerts := make(chan string, 100)
			manager := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body) // a part of it fails the test, too
				select {
				case alerts <- r.URL.Path + " " + string(body):
				default:
				}
			}))
			defer manager.Close()
			file := filepath.Join(t.TempDir(), "home.yaml")
			if err := os.WriteFile(file, []byte(serverRules), 0o600); err != nil {
				t.Fatal(err)
			}
			address, _ := startForOTLP(t, append(arguments, "--rules-file", "home="+file, "--alertmanager-url", manager.URL+"/am", "--rules-external-labels", "site=x")...)
			post := func(load string) {
				response, err := http.Post("http://"+address+"/write?db=home", "text/plain", strings.NewReader(load))
				if err != nil {
					t.Fatal(err)
				}
				response.Body.Close()
				if response.StatusCode != http.StatusNoContent {
					t.Fatal(response.Status)
				}
			}
			post("load,host=a value=6\nload,host=b value=5")
			select {
			case got := <-alerts:
				want := `"labels":{"alertname":"High","by":"rule","host":"a","severity":"page","site":"x"}`
				if !strings.HasPrefix(got, `/am/api/v2/alerts [{"annotations":{"text":"a has 12"},`) || !strings.Contains(got, want) || strings.Contains(got, `"host":"b"`) {
					t.Error(got)
				}
			case <-time.After(2 * time.Minute):
				t.Fatal("no alert comes")
			}
			body := func(path string) string {
				response, err := http.Get("http://" + address + path)
				if err != nil {
					t.Fatal(err)
				}
				defer response.Body.Close()
				text, err := io.ReadAll(response.Body)
				if err != nil {
					t.Fatal(err)
				}
				return string(text)
			}
			for path, want := range map[string]string{
				"/api/v1/query?db=home&query=max_over_time(load:twice[10m])": `{"metric":{"by":"rule","host":"a"}`,
				"/api/v1/rules?db=home":    fmt.Sprintf(`"file":%q,"rules":[{"name":"load:twice"`, file),
				"/api/v1/alerts?db=home":   `"state":"firing"`,
				"/api/v1/rules":            `{"groups":[]}`,
				"/api/v1/alertmanagers":    manager.URL + "/am/api/v2/alerts",
				"/metrics":                 "tickmesh_rules_evaluating 1",
				"/api/v1/query?query=load": `"result":[]`,
			} {
				if got := body(path); !strings.Contains(got, want) {
					t.Errorf("%s: %.500s, want %s", path, got, want)
				}
			}
		})
	}
}

// A file of rules that is wrong keeps a server from starting, and is told with its place.
func TestBadRules(t *testing.T) {
	file := filepath.Join(t.TempDir(), "bad.yaml")
	if err := os.WriteFile(file, []byte("groups:\n- name: g\n  rules:\n  - record: a\n    expr: sum(\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	deep := filepath.Join(t.TempDir(), "deep.yaml")
	if err := os.WriteFile(deep, []byte("groups:\n- name: g\n  rules:\n  - record: a\n    expr: "+strings.Repeat("(", 200_000)+"1"+strings.Repeat(")", 200_000)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ flags, want string }{
		{"--rules-file " + deep, deep + `:5:11: group "g", rule 1, "a": could not parse expression: the query is too large`},
		{"--rules-file " + file, file + `:5:11: group "g", rule 1, "a": could not parse expression: 1:5: parse error`},
		{"--rules-file home=", "expected the path of a file"},
		{"--alertmanager-url http://am", "--alertmanager-url: expected --rules-file, too"},
		{"--rules-file x --alertmanager-url http://u:secret@", "--alertmanager-url: expected http://HOST"},
		{"--rules-file x --alertmanager-url http://u:secret@am.example:9093", "would cross the network for everybody to read: use https"},
		{"--rules-interval 10ms", "expected 1s or more"},
		{"--rules-external-labels a", "expected NAME=VALUE"},
		{"--rules-external-url here", "expected http://HOST"},
	} {
		code, _, got := run(t, nil, append([]string{"standalone", "--http-addr", "127.0.0.1:0", "--put-addr", "", "--line-addr", "", "--grpc-addr", "", "--log-level", "error"}, strings.Fields(c.flags)...)...)
		if code != 1 || !strings.Contains(got, c.want) || strings.Contains(got, "secret") {
			t.Errorf("%s: code %d, %s, want %s", c.flags, code, got, c.want)
		}
	}
}
