package opentsdb

import (
	"context"

	"github.com/tickmesh/tickmesh/api/scan"
)

// namesCheckedMax bounds the tags and values of a selector that are looked up to explain an empty answer.
const namesCheckedMax = 32

// checkNames distinguishes what no series has, which is an error with this status, from what has no data in a range: the
// metric of a selector, its tags, and the values that these have to have.
func (x *reader) checkNames(ctx context.Context, s *scan.Selector, status int) error {
	if !s.MetricAny {
		if err := x.checkName(status, "metrics", s.Metric, func() ([]string, error) { return x.Metrics(ctx, s.Database, s.Metric, 1) }); err != nil {
			return err
		}
	}
	checked := 0
	for i := range s.Matchers {
		m := &s.Matchers[i]
		if checked++; checked > namesCheckedMax {
			return nil
		}
		if err := x.checkName(status, "tagk", m.Name, func() ([]string, error) { return x.TagNames(ctx, s.Database, "", m.Name, 1) }); err != nil {
			return err
		}
		if m.Kind != scan.MatchEqual && m.Kind != scan.MatchIn {
			continue
		}
		for _, value := range m.Values {
			if checked++; checked > namesCheckedMax {
				return nil
			}
			if err := x.checkName(status, "tagv", value, func() ([]string, error) { return x.TagValues(ctx, s.Database, "", "", value, 1) }); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkName uses that of the names with a prefix the prefix itself is first. A shard that is missing may know any name.
func (x *reader) checkName(status int, kind, name string, first func() ([]string, error)) error {
	names, err := first()
	if err != nil || len(names) == 1 && names[0] == name || len(x.Missing()) > 0 {
		return err
	}
	return noSuchName(kind, name, status)
}
