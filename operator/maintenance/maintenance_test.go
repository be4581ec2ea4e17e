package maintenance

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tickmesh/tickmesh/api/v1alpha1"
)

func at(t *testing.T, text string) time.Time {
	t.Helper()
	parsed, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

func TestDecide(t *testing.T) {
	saturday := v1alpha1.MaintenanceWindow{Schedule: "0 2 * * 6", Duration: "4h", TimeZone: "Europe/Berlin"}
	nightly := v1alpha1.MaintenanceWindow{Schedule: "30 23 * * *", Duration: "1h"}
	never := v1alpha1.MaintenanceWindow{Schedule: "0 0 30 2 *", Duration: "1h"}
	for _, test := range []struct {
		name       string
		windows    []v1alpha1.MaintenanceWindow
		annotation string
		now        string
		open       bool
		until      string // empty: never
		problem    string
	}{
		{name: "none", now: "2026-01-03T00:00:00Z", open: true},
		{name: "before", windows: []v1alpha1.MaintenanceWindow{saturday}, now: "2026-01-03T00:59:59Z", until: "2026-01-03T01:00:00Z"},
		{name: "it begins", windows: []v1alpha1.MaintenanceWindow{saturday}, now: "2026-01-03T01:00:00Z", open: true, until: "2026-01-03T05:00:00Z"},
		{name: "the last moment", windows: []v1alpha1.MaintenanceWindow{saturday}, now: "2026-01-03T04:59:59Z", open: true, until: "2026-01-03T05:00:00Z"},
		{name: "it ends", windows: []v1alpha1.MaintenanceWindow{saturday}, now: "2026-01-03T05:00:00Z", until: "2026-01-10T01:00:00Z"},
		{name: "summer time", windows: []v1alpha1.MaintenanceWindow{saturday}, now: "2026-07-04T00:00:00Z", open: true, until: "2026-07-04T04:00:00Z"},
		{name: "clocks are set over its beginning", windows: []v1alpha1.MaintenanceWindow{{Schedule: "30 2 * * 0", Duration: "1h", TimeZone: "Europe/Berlin"}}, now: "2026-03-29T01:45:00Z", open: true, until: "2026-03-29T02:30:00Z"},
		{name: "clocks will be set over its beginning", windows: []v1alpha1.MaintenanceWindow{{Schedule: "30 2 * * 0", Duration: "1h", TimeZone: "Europe/Berlin"}}, now: "2026-03-29T01:10:00Z", until: "2026-03-29T01:30:00Z"},
		{name: "over midnight", windows: []v1alpha1.MaintenanceWindow{nightly}, now: "2026-01-05T00:15:00Z", open: true, until: "2026-01-05T00:30:00Z"},
		{name: "the first of two", windows: []v1alpha1.MaintenanceWindow{saturday, nightly}, now: "2026-01-02T20:00:00Z", until: "2026-01-02T23:30:00Z"},
		{name: "never", windows: []v1alpha1.MaintenanceWindow{never}, now: "2026-01-05T00:15:00Z", problem: "none of them ever opens"},
		{name: "a person allows it", windows: []v1alpha1.MaintenanceWindow{saturday}, annotation: "2026-01-05T13:00:00+01:00", now: "2026-01-05T11:00:00Z", open: true, until: "2026-01-05T12:00:00Z"},
		{name: "a person allows it for a fraction", windows: []v1alpha1.MaintenanceWindow{never}, annotation: "2026-01-05T12:00:00.7Z", now: "2026-01-05T11:00:00Z", open: true, until: "2026-01-05T12:00:00Z"},
		{name: "a person has allowed it", windows: []v1alpha1.MaintenanceWindow{saturday}, annotation: "2026-01-05T10:00:00Z", now: "2026-01-05T11:00:00Z", until: "2026-01-10T01:00:00Z"},
		{name: "a person says anything", windows: []v1alpha1.MaintenanceWindow{saturday}, annotation: "now", now: "2026-01-05T11:00:00Z", until: "2026-01-10T01:00:00Z", problem: "maintain-until"},
		{name: "no such zone", windows: []v1alpha1.MaintenanceWindow{nightly, {Schedule: "@daily", Duration: "1h", TimeZone: "Moon/Sea"}}, now: "2026-01-05T11:00:00Z", until: "2026-01-05T23:30:00Z", problem: "spec.maintenance.windows[1].timeZone"},
		{name: "no such hour", windows: []v1alpha1.MaintenanceWindow{{Schedule: "0 25 * * *", Duration: "1h"}}, now: "2026-01-05T11:00:00Z", problem: "spec.maintenance.windows[0].schedule"},
	} {
		c := &v1alpha1.TickMeshCluster{}
		c.Spec.Maintenance = &v1alpha1.MaintenanceSpec{Windows: test.windows}
		c.Annotations = map[string]string{v1alpha1.AnnotationMaintainUntil: test.annotation}
		s := Decide(c, at(t, test.now))
		var until time.Time
		if test.until != "" {
			until = at(t, test.until)
		}
		if s.Open != test.open || !s.Until.Equal(until) {
			t.Errorf("%s: open %v until %v", test.name, s.Open, s.Until)
		}
		if (s.Problem == nil) != (test.problem == "") || s.Problem != nil && !strings.Contains(s.Problem.Error(), test.problem) {
			t.Errorf("%s: %v", test.name, s.Problem)
		}
	}
}

// Whatever minute it is, what is told is what going through the minutes shows.
func TestDecideAgainstMinutes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := v1alpha1.MaintenanceWindow{
			Schedule: rapid.SampledFrom([]string{"*/7 * * * *", "30 2 * * *", "0 3 * * 0", "0 */6 * * *"}).Draw(t, "schedule"),
			Duration: v1alpha1.Duration(rapid.SampledFrom([]string{"15m", "4h", "1d", "7d"}).Draw(t, "duration")),
		}
		c := &v1alpha1.TickMeshCluster{}
		c.Spec.Maintenance = &v1alpha1.MaintenanceSpec{Windows: []v1alpha1.MaintenanceWindow{w}}
		now := time.Unix(rapid.Int64Range(1_700_000_000, 1_800_000_000).Draw(t, "now"), 0).UTC()
		s := Decide(c, now)
		closes, _, err := window(&w, now)
		if err != nil || s.Open != !closes.IsZero() {
			t.Fatalf("%v, %v: %+v", closes, err, s)
		}
		length, _ := w.Duration.Parse()
		began := func(moment time.Time) bool {
			switch w.Schedule {
			case "*/7 * * * *":
				return moment.Minute()%7 == 0
			case "30 2 * * *":
				return moment.Hour() == 2 && moment.Minute() == 30
			case "0 3 * * 0":
				return moment.Weekday() == time.Sunday && moment.Hour() == 3 && moment.Minute() == 0
			}
			return moment.Hour()%6 == 0 && moment.Minute() == 0
		}
		open := false
		for moment := now.Truncate(time.Minute); now.Sub(moment) < length && !open; moment = moment.Add(-time.Minute) {
			open = began(moment)
		}
		if open != s.Open {
			t.Fatalf("open: %v, %+v", open, s)
		}
	})
}
