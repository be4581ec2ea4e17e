package mqtt

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/tickmesh/tickmesh/api/rulefile"
)

func TestFile(t *testing.T) {
	text, err := os.ReadFile("testdata/example.yaml")
	if err != nil {
		t.Fatal(err)
	}
	f, err := Parser{Shared: true}.Parse("m.yaml", text)
	if err != nil {
		t.Fatal(err)
	}
	c := f.connections[0]
	if len(f.connections) != 1 || c.urls[0].String() != "mqtts://broker.example:8883" || c.share != "tickmesh" || len(c.subscriptions) != 3 {
		t.Errorf("%+v", c)
	}
	if got := c.filterOf(c.subscriptions[0]); got != "$share/tickmesh/sensors/+/+" {
		t.Error(got)
	}
}

// The page shows a file that is taken.
func TestPage(t *testing.T) {
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, behind, _ := strings.Cut(string(text), "```yaml\n")
	block, _, found := strings.Cut(behind, "```")
	if f, err := (Parser{}).Parse("README.md", []byte(block)); !found || err != nil || len(f.connections[0].subscriptions) != 3 {
		t.Errorf("%v", err)
	}
}

func TestFileRefusals(t *testing.T) {
	const url, one = "urls: [\"mqtt://h\"]", "subscriptions: [{topic: \"{metric}\", format: value}]"
	of := func(more string) string { return "connections: {c: {" + more + "}}" }
	sub := func(more string) string { return of(url + ", subscriptions: [{" + more + "}]") }
	for text, want := range map[string]string{
		of(one):                              "there is no broker",
		of(url):                              "there is nothing to read",
		of(`urls: ["http://h"], ` + one):     "expected mqtt://HOST[:PORT]",
		of(`urls: ["mqtt://u:p@h"], ` + one): "there are the keys user and password-file",
		of(`urls: ["mqtt://h/x"], ` + one):   "expected nothing behind the port",
		of(url + ", user: u, password-file: p, " + one):                 "would cross the network",
		of(url + ", ca-file: p, " + one):                                "has no TLS",
		of(url + ", cert-file: p, " + one):                              "belong together",
		of(url + ", password-file: p, " + one):                          "needs user",
		of(url + ", share: a/b, " + one):                                "no name of a group",
		of(url + ", receive-maximum: 0, " + one):                        "expected 1 to 10000",
		of(url + ", session-expiry: 9999d, " + one):                     "expected 0s to",
		of(url + ", topics: [], " + one):                                "there is no such key",
		"connections: {\"a b\": {}}":                                    "a connection's name has letters",
		sub(`topic: a, format: value`):                                  "a number has no name",
		sub(`topic: "a/#/b"`):                                           "has to be the last one",
		sub(`topic: "a/b+"`):                                            "have to be a level of their own",
		sub(`topic: "{a}/{a}"`):                                         "two levels have the name a",
		sub(`topic: "$share/g/a"`):                                      "the key share of the connection",
		sub(`topic: "{_field}/{metric}"`):                               "storage keeps for itself",
		sub(`topic: "{a}", tags: {a: b}`):                               "two tags have the name a",
		sub(`topic: "{a}", json-tags: {a: b}`):                          "two tags have the name a",
		sub(`topic: "{field}/{metric}"`):                                "named field",
		sub(`topic: "a", metric: "{b}"`):                                "{b} is none of {field}",
		sub(`topic: "a", metric: power`):                                "would have one name",
		sub(`topic: "a", time: t`):                                      "time and time-unit belong together",
		sub(`topic: "a", time: "t..x", time-unit: s`):                   "expected keys with points",
		sub(`topic: "{metric}", format: line`):                          "line protocol names its metric itself",
		sub(`topic: "a", format: line, fields: {a: b}`):                 "fields means nothing with this format",
		sub(`topic: "a", format: xml`):                                  "expected one of json, line, value",
		sub(`topic: "a", qos: 2`):                                       "QoS 2 would add nothing",
		sub(`topic: "a", database: "a/b"`):                              "names cannot have",
		sub(`format: json`):                                             "there is no topic",
		of(url + ", subscriptions: [{topic: \"+\"}, {topic: \"{a}\"}]"): "another subscription has the same topics",
	} {
		if _, err := (Parser{}).Parse("m.yaml", []byte(text)); !errors.Is(err, rulefile.ErrFile) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

func FuzzFile(f *testing.F) {
	text, err := os.ReadFile("testdata/example.yaml")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(text))
	f.Add("connections: {c: {urls: [\"mqtt://h\"], subscriptions: [{topic: \"{metric}\", format: value}]}}")
	f.Fuzz(func(t *testing.T, text string) {
		file, err := Parser{}.Parse("m.yaml", []byte(text))
		if (file == nil) != (err != nil) || err != nil && !errors.Is(err, rulefile.ErrFile) {
			t.Fatalf("%v, %v", file, err)
		}
		if err != nil {
			return
		}
		for _, c := range file.connections {
			for _, s := range c.subscriptions {
				samples, err := s.decode("a/b/c", []byte(`{"a":1}`), 1)
				check(t, samples, err)
			}
		}
	})
}
