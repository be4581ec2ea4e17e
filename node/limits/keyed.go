package limits

import (
	"crypto/sha256"
	"encoding/binary"

	"github.com/tickmesh/tickmesh/api/series"
)

// admitKeyed admits the unknown series of a part of a write that has a key. The write may be
// repeated much later and elsewhere, and what its id stands for must not depend on how many
// series there were. So it makes all of its new series or none:
//
//   - Too many new ones a second refuse the part as a whole, with series.ErrSeriesRate:
//     nothing is applied, and a repetition finds nothing to skip.
//   - A limit that stays refuses its new series, as in any other write, and what is left
//     is written under an id of its own. While the limit stands a repetition leaves out
//     the same and is skipped. Once there is room the part is another write.
func (l *Limiter) admitKeyed(batch []byte, r *series.BatchReader, keys []series.Key, unknown []int, part int, id series.BatchID, a *Admission) ([]byte, series.BatchID, error) {
	err := l.databases.admitAll(keys, unknown)
	if err == nil {
		err = l.node.admitAll(int64(len(unknown)), l.index)
	}
	switch {
	case err == nil:
		a.admitted += int64(len(unknown))
		return batch, id, nil
	case isRate(err):
		return nil, id, err
	}
	out := map[int]bool{}
	hash := sha256.New()
	_ = binary.Write(hash, binary.LittleEndian, id)
	for _, definition := range unknown {
		a.Refused = append(a.Refused, series.Refusal{Part: part, Definition: definition, Err: err})
		out[definition] = true
		_ = binary.Write(hash, binary.LittleEndian, uint64(len(keys[definition])))
		_, _ = hash.Write(keys[definition])
	}
	batch, err = withoutDefinitions(r, series.HoursOf(batch), keys, out)
	return batch, series.KeyedID(binary.LittleEndian.Uint64(hash.Sum(nil))), err
}
