package consistency

import (
	"errors"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/tickmesh/tickmesh/api/scan"
)

func TestOf(t *testing.T) {
	for _, c := range []struct {
		form, partial, stale string
		want                 scan.Consistency
		wrong                string
	}{
		{},
		{form: "partial", want: scan.Consistency{Partial: true}},
		{form: "partial=true&stale_ms=1500", want: scan.Consistency{Partial: true, StalenessMax: 1500 * time.Millisecond}},
		{form: "partial=FALSE", partial: "1"},
		{form: "partial=0", partial: "true"},
		{partial: "yes", stale: "86400000", want: scan.Consistency{Partial: true, StalenessMax: 24 * time.Hour}},
		{partial: "False"},
		{form: "stale_ms=", stale: "5"},
		{form: "stale_ms=x", stale: "5", wrong: "stale_ms"},
		{form: "stale_ms=-1", wrong: "stale_ms"},
		{stale: "86400001", wrong: StaleHeader},
	} {
		form, err := url.ParseQuery(c.form)
		if err != nil {
			t.Fatal(err)
		}
		header := http.Header{}
		if c.partial != "" {
			header.Set(PartialHeader, c.partial)
		}
		if c.stale != "" {
			header.Set(StaleHeader, c.stale)
		}
		got, err := Of(header, form)
		var wrong *Error
		switch {
		case c.wrong != "":
			if !errors.As(err, &wrong) || wrong.Name != c.wrong {
				t.Errorf("%+v: %v", c, err)
			}
		case err != nil || got != c.want:
			t.Errorf("%+v: %+v, %v", c, got, err)
		}
	}
}

func TestMissing(t *testing.T) {
	if got := Missing([]uint16{3, 7, 65535}); got != "3,7,65535" {
		t.Error(got)
	}
}

// FuzzOf: what is taken is within its bounds, however it is asked for.
func FuzzOf(f *testing.F) {
	f.Add("partial&stale_ms=1500", "", "")
	f.Add("stale_ms=99999999999999999999", "FALSE", "86400001")
	f.Fuzz(func(t *testing.T, query, partial, stale string) {
		form, err := url.ParseQuery(query)
		if err != nil {
			return
		}
		o, err := Of(http.Header{PartialHeader: {partial}, StaleHeader: {stale}}, form)
		if err == nil && (o.StalenessMax < 0 || o.StalenessMax > staleMax) {
			t.Fatalf("%+v", o)
		}
	})
}
