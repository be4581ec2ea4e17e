package envoy

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestRealEnvoyHasMetrics holds testdata/metrics.txt, which the chart's alerts and panels
// are held against, against what a real Envoy tells at its port for status; and that it
// counts the clients that it turns away.
func TestRealEnvoyHasMetrics(t *testing.T) {
	r, o := &router{}, plain()
	r.ready.Store(true)
	o.Router, o.Address, o.ConnectionsMax = "localhost", "127.0.0.2", 3
	r.start(t, &o)
	start(t, &o)
	metrics := func() string {
		response, err := http.Get(fmt.Sprintf("http://127.0.0.2:%d/stats/prometheus", o.StatusPort))
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
	text := metrics()
	list, err := os.ReadFile("testdata/metrics.txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(list)) {
		words := strings.Fields(line)
		series := regexp.MustCompile(`(?m)^` + words[0] + `\{(.*)\} `).FindStringSubmatch(text)
		if series == nil {
			t.Errorf("there is no %s", words[0])
			continue
		}
		for _, label := range words[1:] {
			if !strings.Contains(series[1], label+`="`) {
				t.Errorf("%s has no label %s: %s", words[0], label, series[1])
			}
		}
	}
	for _, listener := range ClientListeners() {
		if !strings.Contains(text, `envoy_listener_downstream_cx_active{envoy_listener_address="`+listener+`"}`) {
			t.Errorf("listener %s is not told of", listener)
		}
	}
	eventually(t, "a client that is turned away", func() bool {
		for range 4 {
			connection, err := net.Dial("tcp", fmt.Sprintf("127.0.0.2:%d", o.PutPort))
			if err != nil {
				continue
			}
			t.Cleanup(func() { connection.Close() })
		}
		return regexp.MustCompile(`(?m)^envoy_listener_downstream_global_cx_overflow\{envoy_listener_address="put"\} [1-9]`).MatchString(metrics())
	})
	anew := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for range 3 { // as probes ask
		response, err := anew.Get(fmt.Sprintf("http://127.0.0.2:%d/ready", o.StatusPort))
		if err != nil {
			t.Fatal("a probe is turned away: ", err)
		}
		response.Body.Close()
		if response.StatusCode != http.StatusOK {
			t.Error(response.Status)
		}
	}
}
