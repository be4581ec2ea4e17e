package client

import (
	"fmt"
	"slices"

	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/api/wire"
	tickmeshv1 "github.com/tickmesh/tickmesh/proto/tickmesh/v1"
)

// Tag is one name and value of a series. Both are bytes, usually UTF-8.
type Tag struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Series is the identity of a series. It never changes; make it once and use it for
// all its samples.
type Series struct {
	database, metric string
	tags             []Tag // in order of their names
	key              string
	message          *tickmeshv1.Series
}

// NewSeries makes the identity of a series of the default database. Tags may come in
// any order. Errors: ErrInvalid for an empty metric, a tag twice, or too long a key;
// also for tags without a name or a value, which the server would refuse.
func NewSeries(metric string, tags ...Tag) (*Series, error) {
	return NewSeriesIn("", metric, tags...)
}

// NewSeriesIn is NewSeries for any database; the default one has the empty name.
func NewSeriesIn(database, metric string, tags ...Tag) (*Series, error) {
	if metric == "" {
		return nil, fmt.Errorf("%w: the series has no metric", ErrInvalid)
	}
	m := &tickmeshv1.Series{Database: []byte(database), Metric: []byte(metric)}
	for _, t := range tags {
		if t.Name == "" || t.Value == "" {
			return nil, fmt.Errorf("%w: tag %q=%q has no name or no value", ErrInvalid, t.Name, t.Value)
		}
		m.Tags = append(m.Tags, &tickmeshv1.Tag{Name: []byte(t.Name), Value: []byte(t.Value)})
	}
	return seriesOf(m)
}

// MustSeries is NewSeries for names that are written in the program. It panics where
// NewSeries has an error.
func MustSeries(metric string, tags ...Tag) *Series {
	s, err := NewSeries(metric, tags...)
	if err != nil {
		panic(err)
	}
	return s
}

// seriesOf makes the series of a message.
func seriesOf(m *tickmeshv1.Series) (*Series, error) {
	key, err := wire.AppendKey(nil, m)
	if err != nil {
		return nil, err
	}
	return seriesOfKey(key)
}

func seriesOfKey(key series.Key) (*Series, error) {
	message, err := wire.FromKey(key) // points into key, which nobody changes
	if err != nil {
		return nil, err
	}
	s := &Series{database: string(message.GetDatabase()), metric: string(message.GetMetric()), key: string(key), message: message}
	for _, t := range message.GetTags() {
		s.tags = append(s.tags, Tag{Name: string(t.GetName()), Value: string(t.GetValue())})
	}
	return s, nil
}

// Database returns the database; empty is the default one.
func (s *Series) Database() string { return s.database }

// Metric returns the metric.
func (s *Series) Metric() string { return s.metric }

// Tags returns a copy of the tags, in order of their names.
func (s *Series) Tags() []Tag { return slices.Clone(s.tags) }

// Tag returns the value of a tag; empty: the series does not have it.
func (s *Series) Tag(name string) string {
	for i := range s.tags {
		if s.tags[i].Name == name {
			return s.tags[i].Value
		}
	}
	return ""
}

// Key returns the canonical key: two series are the same if their keys are.
func (s *Series) Key() series.Key { return series.Key(s.key) }

// String returns the series as database/metric{name=value,…}, for people.
func (s *Series) String() string { return series.Key(s.key).String() }
