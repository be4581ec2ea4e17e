package promql

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/scan/scantest"
)

// datedSource has another metric for each range of time.
type datedSource struct {
	scan.Source
	asked *string
}

func (s datedSource) Between(fromMs, toMs int64) scan.Source {
	*s.asked = fmt.Sprint(fromMs, " ", toMs)
	return s.Source
}

func (s datedSource) Metrics(context.Context, string, string, int) ([]string, error) {
	return []string{"of all of time"}, nil
}

// Lists are held to the range of time that was asked for.
func TestListsOfARange(t *testing.T) {
	memory, asked := scantest.NewMemory(), ""
	h := New(Options{Source: datedSource{memory, &asked}})
	for _, path := range []string{"labels?", "label/a/values?", "label/__name__/values?", "series?match[]=x&"} {
		for parameters, want := range map[string]string{
			"": "", "start=10&end=20.5": "10000 20500", "start=-1": fmt.Sprint(-1000, " ", scan.TimeMsMax),
			"end=1970-01-01T00:00:01Z": fmt.Sprint(scan.TimeMsMin, " ", 1000),
			"start=" + strings.ReplaceAll(timeMin.Format("2006-01-02T15:04:05Z07:00"), "+", "%2B") + "&end=5": fmt.Sprint(scan.TimeMsMin, " ", 5000),
			"start=" + fmt.Sprint(math.MinInt64/1000+62135596801):                                             "",
		} {
			asked = ""
			if answer := get(h, path+parameters); answer.status != 200 || asked != want {
				t.Errorf("%s%s: %d %s, asked from %q, want %q", path, parameters, answer.status, answer.body, asked, want)
			}
		}
	}
	if answer := get(h, "label/__name__/values"); !strings.Contains(answer.body, "of all of time") {
		t.Error(answer.body)
	}
}
