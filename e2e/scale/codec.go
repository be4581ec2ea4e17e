package scale

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/tickmesh/tickmesh/api/shardmap"
)

// encode measures the map as it is stored, and checks that it comes back.
func (p *Placement) encode(l shardmap.Limits) error {
	var encoded []byte
	var err error
	began := processorTime()
	encoded, p.Refused = p.Map.Encode()
	p.Encode = processorTime() - began
	switch {
	case p.Refused == nil:
		began = processorTime()
		back, err := shardmap.Decode(encoded)
		p.Decode = processorTime() - began
		if err != nil {
			return fmt.Errorf("decode: %w", err)
		}
		if !back.Equal(p.Map) {
			return errors.New("the map that was encoded comes back as another")
		}
	case !errors.Is(p.Refused, shardmap.ErrMap):
		return p.Refused
	default: // what the codec would write, were there no bound
		began = processorTime()
		if encoded, err = json.Marshal(p.Map); err != nil {
			return err
		}
		p.Encode = processorTime() - began
		began = processorTime()
		if err = json.Unmarshal(encoded, new(shardmap.Map)); err != nil {
			return err
		}
		p.Decode = processorTime() - began
	}
	p.MapBytes = len(encoded)
	moving := p.Map.Clone()
	for shard := range min(shardmap.MovesMaxDefault, len(moving.Rows)) {
		row := &moving.Rows[shard]
		comes := row.Members[0] // joins beside the present members, as while data moves
		comes.Node, comes.RaftID, comes.Incarnation = nodeName(p.Nodes), 0, randomDigits("comes")
		*row = row.WithIntended(append([]shardmap.Member{comes}, row.Members[1:]...))
	}
	encoded, err = json.Marshal(moving)
	p.MapBytesMoving = len(encoded)
	return err
}
