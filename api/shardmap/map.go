package shardmap

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
)

// ErrMap marks bytes or values that are not a valid map.
var ErrMap = errors.New("not a valid shard map")

// ErrFormat marks a map of a format that this program does not know.
var ErrFormat = errors.New("shard map of an unknown format")

// Formats of maps. A map with a field more has another format: a program that does not
// know the field must not write the map.
const (
	Format      = 1 // of a map without Settings.ShardKey, as clusters of earlier versions have
	FormatKeyed = 2 // of a map with it
)

// Bounds of a map.
const (
	ShardsDefault  = 128
	ShardsMax      = 2048 // a map of so many fits into MapBytesMax with the longest names
	ReplicationMax = 3
	MembersMax     = 8         // of Members, and of Intended; a joint change of three voters and learners fits
	NodeBytesMax   = 63        // of a node's id, and of a cluster's name
	MapBytesMax    = 1_400_000 // of an encoded map; etcd takes requests up to 1.5 MiB
)

// Map describes which node holds which shard. It is one value in the store.
type Map struct {
	Format   int
	Cluster  string // name of the cluster
	ID       string // of this cluster for ever, 32 hexadecimal digits: a cluster made anew under the same name has another
	Epoch    uint64 // grows by one with each change
	Settings Settings
	Rows     []Row // by shard
}

// Settings are fixed when a cluster is created.
type Settings struct {
	Shards      int // number of shards
	Replication int // copies of the data: full voters of each group
	// ShardKey keys the hash that chooses the shard of a series (series.ShardKey), as 32
	// hexadecimal digits. Empty: the hash has no key. It is a secret of routers and nodes.
	ShardKey string `json:",omitempty"`
}

// Format returns the format of a map with these settings.
func (s Settings) Format() int {
	if s.ShardKey == "" {
		return Format
	}
	return FormatKeyed
}

// Row describes who holds one shard.
type Row struct {
	Version    uint64   // grows by one with each change of the row
	RaftIDLast uint64   // the largest raft id that was ever given in this shard
	Era        uint32   // starts at 1; grows when a group had to go on from an incomplete majority
	Fresh      bool     `json:",omitempty"` // the group never had data and Members is its first configuration
	Members    []Member // the group's configuration as its leader published it last
	Intended   []Member `json:",omitempty"` // what placement wants; nil: nothing to do
	// Recovered is of the last time that the shard had to go on from one copy; nil: never.
	Recovered *Recovered `json:",omitempty"`
}

// Member is one replica of a shard.
type Member struct {
	Node        string
	Incarnation string // of the node's data folder, 32 hexadecimal digits
	RaftID      uint64 // never used again in its shard
	Role        Role
}

// Decode reads and validates a map. Errors: ErrMap, ErrFormat.
func Decode(encoded []byte) (Map, error) {
	if len(encoded) > MapBytesMax {
		return Map{}, fmt.Errorf("%w: %d bytes, at most %d", ErrMap, len(encoded), MapBytesMax)
	}
	var version struct{ Format int }
	if err := json.Unmarshal(encoded, &version); err != nil {
		return Map{}, fmt.Errorf("%w: %w", ErrMap, err)
	}
	if version.Format < Format || version.Format > FormatKeyed {
		return Map{}, fmt.Errorf("%w: %d, this program knows %d to %d", ErrFormat, version.Format, Format, FormatKeyed)
	}
	var m Map
	decoder := json.NewDecoder(bytes.NewReader(encoded))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&m); err != nil {
		return Map{}, fmt.Errorf("%w: %w", ErrMap, err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return Map{}, fmt.Errorf("%w: bytes after its end", ErrMap)
	}
	return m, m.Validate()
}

// Encode validates the map and returns its JSON. Errors: ErrMap, ErrFormat.
func (m Map) Encode() ([]byte, error) {
	if err := m.Validate(); err != nil {
		return nil, err
	}
	encoded, err := json.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMap, err)
	}
	if len(encoded) > MapBytesMax {
		return nil, fmt.Errorf("%w: %d bytes, at most %d", ErrMap, len(encoded), MapBytesMax)
	}
	return encoded, nil
}

// Clone returns a copy that shares nothing with m.
func (m Map) Clone() Map {
	m.Rows = slices.Clone(m.Rows)
	for i := range m.Rows {
		m.Rows[i] = m.Rows[i].Clone()
	}
	return m
}

// Equal reports whether both maps are the same, the order of members included.
func (m Map) Equal(other Map) bool {
	return m.Format == other.Format && m.Cluster == other.Cluster && m.ID == other.ID && m.Epoch == other.Epoch &&
		m.Settings == other.Settings && slices.EqualFunc(m.Rows, other.Rows, Row.Equal)
}

// RowOf returns the row of a shard.
func (m Map) RowOf(shard uint16) (Row, bool) {
	if int(shard) >= len(m.Rows) {
		return Row{}, false
	}
	return m.Rows[shard], true
}

// WithRow returns the map of the next epoch, in which the shard has this row. It
// shares all other rows with m, so neither may be changed in place.
func (m Map) WithRow(shard uint16, row Row) Map {
	m.Epoch++
	m.Rows = slices.Clone(m.Rows)
	m.Rows[shard] = row
	return m
}

// Placed is a member with its shard.
type Placed struct {
	Shard uint16
	Member
	Intended  bool // Row.Intended names it
	Published bool // Row.Members names it
}

// MembersOn returns the replicas that the map has or intends on a node, in the order
// of shards. A replica that is in both lists is given once, as in Members.
func (m Map) MembersOn(node string) []Placed {
	var placed []Placed
	for shard, row := range m.Rows {
		for _, member := range row.Members {
			if member.Node == node {
				intended := row.Intended == nil || slices.ContainsFunc(row.Intended, member.SameReplica)
				placed = append(placed, Placed{uint16(shard), member, intended, true})
			}
		}
		for _, member := range row.Intended {
			if member.Node == node && !slices.ContainsFunc(row.Members, member.SameReplica) {
				placed = append(placed, Placed{uint16(shard), member, true, false})
			}
		}
	}
	return placed
}

// Moving returns the number of rows with Intended.
func (m Map) Moving() int {
	moving := 0
	for _, row := range m.Rows {
		if row.Intended != nil {
			moving++
		}
	}
	return moving
}

// Allocates reports whether m, which follows before (nil: nothing), allocates raft ids or begins an
// era in a shard whose row names the node, in either of them. Were m lost, another map could
// give the same again, so the node must not go by m before others can know that it has seen m.
func (m *Map) Allocates(before *Map, node string) bool {
	for shard := range m.Rows {
		row, was := &m.Rows[shard], Row{}
		if before != nil && shard < len(before.Rows) {
			was = before.Rows[shard]
		}
		if (row.RaftIDLast > was.RaftIDLast || row.Era > was.Era) && (row.names(node) || was.names(node)) {
			return true
		}
	}
	return false
}
