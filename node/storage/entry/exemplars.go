package entry

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/tickmesh/tickmesh/api/series"
)

// ExemplarsBody encodes exemplars of series of one shard, and how many bytes those that the shard keeps may take from now on.
func ExemplarsBody(bound int64, exemplars []series.Exemplar) []byte {
	b := binary.AppendUvarint(nil, uint64(max(bound, 0)))
	for i := range exemplars {
		b = series.AppendExemplar(b, &exemplars[i])
	}
	return b
}

// ParseExemplarsBody decodes what ExemplarsBody returned; keys point into b.
func ParseExemplarsBody(b []byte) (bound int64, exemplars []series.Exemplar, err error) {
	v, used := binary.Uvarint(b)
	if used <= 0 || v > math.MaxInt64 {
		return 0, nil, fmt.Errorf("%w: bound of exemplars", ErrInvalid)
	}
	if exemplars, err = series.ReadExemplars(b[used:]); err != nil {
		return 0, nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return int64(v), exemplars, nil
}
