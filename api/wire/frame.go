package wire

import (
	"fmt"
	"math"

	"github.com/tickmesh/tickmesh/api/series"
	nodev1 "github.com/tickmesh/tickmesh/proto/tickmesh/node/v1"
	tickmeshv1 "github.com/tickmesh/tickmesh/proto/tickmesh/v1"
)

// PartOutcome is what became of one part of a frame. Part in Refused and Defined is
// the part's index in the frame.
type PartOutcome struct {
	// Err, when not nil, says why nothing of the part may be taken as written:
	// *NotLeaderError, *Error, or an error of api/series' kinds.
	Err     error
	Copies  int
	Refused []series.Refusal
	Defined []series.Defined
	// Level is the one that was reached. With less than the frame's own the part is
	// written all the same, and Missing full voters were not known to have it.
	Level   series.Level
	Missing int
}

// FromBatchID returns the message of a batch id; nil for the zero value.
func FromBatchID(id series.BatchID) *tickmeshv1.BatchId {
	if id.IsZero() {
		return nil
	}
	return &tickmeshv1.BatchId{Session: id.Session, Counter: id.Counter}
}

// ToBatchID returns the batch id of a message. Errors: ErrInvalid for a counter
// without a session, or a session without a counter.
func ToBatchID(m *tickmeshv1.BatchId) (series.BatchID, error) {
	id := series.BatchID{Session: m.GetSession(), Counter: m.GetCounter()}
	if (id.Session == 0) != (id.Counter == 0) {
		return series.BatchID{}, fmt.Errorf("%w: batch id with session %d and counter %d", ErrInvalid, id.Session, id.Counter)
	}
	return id, nil
}

// FromLevel returns a level as it travels.
func FromLevel(level series.Level) tickmeshv1.WriteLevel {
	if level == series.LevelAll {
		return tickmeshv1.WriteLevel_WRITE_LEVEL_ALL
	}
	return tickmeshv1.WriteLevel_WRITE_LEVEL_UNSPECIFIED
}

// ToLevel returns the level of a message. Errors: ErrInvalid for one that is not known.
func ToLevel(m tickmeshv1.WriteLevel) (series.Level, error) {
	switch m {
	case tickmeshv1.WriteLevel_WRITE_LEVEL_UNSPECIFIED:
		return series.LevelMajority, nil
	case tickmeshv1.WriteLevel_WRITE_LEVEL_ALL:
		return series.LevelAll, nil
	}
	return 0, fmt.Errorf("%w: write level %d", ErrInvalid, m)
}

// FromPartOutcomes returns the messages of a frame's parts.
func FromPartOutcomes(outcomes []PartOutcome) []*nodev1.PartResult {
	results := make([]nodev1.PartResult, len(outcomes))
	m := make([]*nodev1.PartResult, len(outcomes))
	for i := range outcomes {
		o, r := &outcomes[i], &results[i]
		m[i] = r
		if o.Err != nil {
			r.Error, r.Leader = FromError(o.Err), Leader(o.Err)
			continue
		}
		r.Copies = uint32(max(0, min(o.Copies, math.MaxUint16)))
		r.Level, r.Missing = FromLevel(o.Level), uint32(max(0, min(o.Missing, math.MaxUint16)))
		for _, refused := range o.Refused {
			r.Refused = append(r.Refused, &nodev1.RefusedDefinition{
				Definition: uint32(refused.Definition), Error: FromError(refused.Err),
			})
		}
		if len(o.Defined) == 0 {
			continue
		}
		list := make([]nodev1.Defined, len(o.Defined))
		r.Defined = make([]*nodev1.Defined, len(o.Defined))
		for j, d := range o.Defined {
			list[j].Definition, list[j].Id = uint32(d.Definition), uint32(d.ID)
			r.Defined[j], r.Era = &list[j], d.Era
		}
	}
	return m
}

// ToPartOutcomes returns what became of a frame's parts, whose shards are given in
// their order. Errors: ErrInvalid when the message does not fit the frame.
func ToPartOutcomes(m []*nodev1.PartResult, shards []uint16) ([]PartOutcome, error) {
	if len(m) != len(shards) {
		return nil, fmt.Errorf("%w: %d results for %d parts", ErrInvalid, len(m), len(shards))
	}
	outcomes := make([]PartOutcome, len(m))
	for i, r := range m {
		o := &outcomes[i]
		if r.GetError() != nil {
			o.Err = ShardError(r.GetError(), shards[i], r.GetLeader())
			continue
		}
		if r.GetCopies() == 0 || r.GetCopies() > math.MaxUint16 {
			return nil, fmt.Errorf("%w: a part written in %d copies", ErrInvalid, r.GetCopies())
		}
		o.Copies, o.Missing = int(r.GetCopies()), int(min(r.GetMissing(), math.MaxUint16))
		if r.GetLevel() == tickmeshv1.WriteLevel_WRITE_LEVEL_ALL {
			o.Level = series.LevelAll
		}
		for _, refused := range r.GetRefused() {
			if refused.GetError() == nil || refused.GetDefinition() > math.MaxInt32 {
				return nil, fmt.Errorf("%w: a refusal without a reason", ErrInvalid)
			}
			o.Refused = append(o.Refused, series.Refusal{
				Part: i, Definition: int(refused.GetDefinition()), Err: ToError(refused.GetError()),
			})
		}
		for _, d := range r.GetDefined() {
			if d.GetDefinition() > math.MaxInt32 || series.ID(d.GetId()) >= series.SlotBase {
				return nil, fmt.Errorf("%w: series id %d", ErrInvalid, d.GetId())
			}
			o.Defined = append(o.Defined, series.Defined{
				Part: i, Definition: int(d.GetDefinition()), ID: series.ID(d.GetId()), Era: r.GetEra(),
			})
		}
	}
	return outcomes, nil
}
