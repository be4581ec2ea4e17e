package wire

import (
	"bytes"
	"fmt"

	"github.com/tickmesh/tickmesh/api/series"
	tickmeshv1 "github.com/tickmesh/tickmesh/proto/tickmesh/v1"
)

// FromKey returns the message of a key, which points into the key. Errors:
// series.ErrKey.
func FromKey(k series.Key) (*tickmeshv1.Series, error) {
	database, metric, tags, err := k.Parts(nil)
	if err != nil {
		return nil, err
	}
	m := &tickmeshv1.Series{Database: database, Metric: metric}
	if len(tags) > 0 {
		list := make([]tickmeshv1.Tag, len(tags))
		m.Tags = make([]*tickmeshv1.Tag, len(tags))
		for i, t := range tags {
			list[i].Name, list[i].Value = t.Name, t.Value
			m.Tags[i] = &list[i]
		}
	}
	return m, nil
}

// AppendKey appends the canonical key of a message's series to dst. Tags may come in
// any order. Errors: ErrInvalid for too many tags, one twice, or a key that is too
// long.
func AppendKey(dst []byte, m *tickmeshv1.Series) (series.Key, error) {
	if len(m.GetTags()) > series.TagsMax {
		return nil, fmt.Errorf("%w: %d tags, more than %d", ErrInvalid, len(m.GetTags()), series.TagsMax)
	}
	tags := make([]series.Tag, len(m.GetTags()))
	bytesSum := len(m.GetDatabase()) + len(m.GetMetric())
	for i, t := range m.GetTags() {
		tags[i] = series.Tag{Name: t.GetName(), Value: t.GetValue()}
		bytesSum += len(t.GetName()) + len(t.GetValue())
	}
	if bytesSum > series.KeyBytesMax {
		return nil, fmt.Errorf("%w: the series' names have %d bytes, more than %d", ErrInvalid, bytesSum, series.KeyBytesMax)
	}
	start := len(dst)
	key := series.AppendKey(dst, m.GetDatabase(), m.GetMetric(), tags) // sorts tags
	for i := 1; i < len(tags); i++ {
		if bytes.Equal(tags[i-1].Name, tags[i].Name) {
			return nil, fmt.Errorf("%w: tag %q comes twice", ErrInvalid, tags[i].Name)
		}
	}
	if n := len(key) - start; n > series.KeyBytesMax {
		return nil, fmt.Errorf("%w: the key has %d bytes, more than %d", ErrInvalid, n, series.KeyBytesMax)
	}
	return key, nil
}
