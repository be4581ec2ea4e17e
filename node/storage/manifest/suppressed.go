package manifest

import (
	"slices"

	"github.com/tickmesh/tickmesh/node/storage/segment"
)

// Suppressed names the shards of segments that do not count any more, since a repair has
// brought others for them: by name of the segment, in order. It is never changed in
// place, so that versions and manifests may share it.
type Suppressed map[string][]uint16

func (x Suppressed) has(name string, shard uint16) bool {
	if len(x) == 0 {
		return false
	}
	_, found := slices.BinarySearch(x[name], shard)
	return found
}

// With returns a copy with one shard more of some segments.
func (x Suppressed) With(metas []segment.Meta, shard uint16) Suppressed {
	next := make(Suppressed, len(x)+len(metas))
	for name, shards := range x {
		next[name] = shards
	}
	for i := range metas {
		name := metas[i].Name
		if at, found := slices.BinarySearch(next[name], shard); !found {
			next[name] = slices.Insert(slices.Clone(next[name]), at, shard)
		}
	}
	return next
}

// Of returns those of segments that are live.
func (x Suppressed) Of(live []segment.Meta) Suppressed {
	if len(x) == 0 {
		return nil
	}
	next := Suppressed{}
	for i := range live {
		if shards := x[live[i].Name]; len(shards) > 0 {
			next[live[i].Name] = shards
		}
	}
	return next
}
