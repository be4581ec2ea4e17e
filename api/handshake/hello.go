package handshake

import (
	"fmt"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"

	"github.com/tickmesh/tickmesh/api/wire"
	nodev1 "github.com/tickmesh/tickmesh/proto/tickmesh/node/v1"
)

// Versions of the node service that this program speaks; proto/README.md has the
// rules.
const (
	Protocol    = 2
	ProtocolMin = 2
)

// Header is the name of the gRPC header that carries a Hello.
const Header = "tickmesh-hello-bin"

const (
	helloBytesMax     = 1 << 10
	nameBytesMax      = 253 // as long as a name of the DNS
	incarnationDigits = 32
)

// Hello describes who a process is and whom it means to talk to.
type Hello struct {
	Protocol    uint32 // the version of the service that it speaks
	ProtocolMin uint32 // the lowest that it understands
	Cluster     string // name of its cluster
	ClusterID   string // the cluster's identity, 32 hexadecimal digits; empty: not known yet
	Node        string // its node id; empty: a router or a tool
	Incarnation string // its data folder, 32 hexadecimal digits; empty without Node
	Process     uint64 // random, drawn when the process started

	ToNode        string // the node that is meant; empty: whoever is there
	ToIncarnation string // the data folder that is meant; empty: any

	Entries
}

// Entries is what a node knows of kinds of entries of the log that older programs do not know. These would come to have other
// data than their peers, so nodes whose folders may have such entries work with no such node.
type Entries struct {
	Forgets Knowledge // those that forget series
	Thins   Knowledge // those before whose cuts of each hour the last sample is kept
	Hours   Knowledge // those with batches of hours (series.Hour)
	// Exemplars: those that keep exemplars. Who does not know these passes over them and has no exemplars, so nodes work with it.
	Exemplars Knowledge
}

// Knowledge is what a node knows of a kind of entries.
type Knowledge uint32

// What a node may know.
const (
	Unknown    Knowledge = 0 // nothing: it is of an older version
	Understood Knowledge = 1
	Kept       Knowledge = 2 // and the format of its folder allows them
	// Keyless, of entries that forget series, is Kept of a node that takes shards without the keys of these.
	Keyless Knowledge = 3
)

// New returns a Hello with this program's versions.
func New(cluster, clusterID, node, incarnation string, process uint64) Hello {
	return Hello{
		Protocol: Protocol, ProtocolMin: ProtocolMin, Cluster: cluster, ClusterID: clusterID,
		Node: node, Incarnation: incarnation, Process: process,
	}
}

// To returns the Hello for calls that mean a node, and a data folder of it.
func (h Hello) To(node, incarnation string) Hello {
	h.ToNode, h.ToIncarnation = node, incarnation
	return h
}

// String names the process for people.
func (h Hello) String() string {
	if h.Node == "" {
		return fmt.Sprintf("a process of cluster %q", h.Cluster)
	}
	return fmt.Sprintf("node %s (data folder %s) of cluster %q", h.Node, h.Incarnation, h.Cluster)
}

// Message returns the Hello as a message.
func (h Hello) Message() *nodev1.Hello {
	return &nodev1.Hello{
		Protocol: h.Protocol, ProtocolMin: h.ProtocolMin, Cluster: h.Cluster, ClusterId: h.ClusterID,
		Node: h.Node, Incarnation: h.Incarnation, Process: h.Process, ToNode: h.ToNode, ToIncarnation: h.ToIncarnation,
		Forgets: uint32(h.Forgets), Thins: uint32(h.Thins), Hours: uint32(h.Hours), Exemplars: uint32(h.Exemplars),
	}
}

// OfMessage returns the Hello of a message. Errors: wire.ErrInvalid.
func OfMessage(m *nodev1.Hello) (Hello, error) {
	h := Hello{
		Protocol: m.GetProtocol(), ProtocolMin: m.GetProtocolMin(), Cluster: m.GetCluster(), ClusterID: m.GetClusterId(),
		Node: m.GetNode(), Incarnation: m.GetIncarnation(), Process: m.GetProcess(),
		ToNode: m.GetToNode(), ToIncarnation: m.GetToIncarnation(),
		Entries: Entries{Knowledge(m.GetForgets()), Knowledge(m.GetThins()), Knowledge(m.GetHours()), Knowledge(m.GetExemplars())},
	}
	return h, h.validate()
}

func (h Hello) validate() error {
	if h.Protocol == 0 || h.ProtocolMin > h.Protocol {
		return fmt.Errorf("%w: a Hello of version %d, at least %d", wire.ErrInvalid, h.Protocol, h.ProtocolMin)
	}
	for _, name := range [...]string{h.Cluster, h.Node, h.ToNode} {
		if len(name) > nameBytesMax || !utf8.ValidString(name) {
			return fmt.Errorf("%w: a Hello with a name of %d bytes", wire.ErrInvalid, len(name))
		}
	}
	for _, id := range [...]string{h.ClusterID, h.Incarnation, h.ToIncarnation} {
		if id != "" && !isIdentity(id) {
			return fmt.Errorf("%w: a Hello with %q for an identity of %d hexadecimal digits", wire.ErrInvalid, id, incarnationDigits)
		}
	}
	if h.Cluster == "" {
		return fmt.Errorf("%w: a Hello without a cluster", wire.ErrInvalid)
	}
	if (h.Node == "") != (h.Incarnation == "") {
		return fmt.Errorf("%w: a Hello of node %q with data folder %q", wire.ErrInvalid, h.Node, h.Incarnation)
	}
	return nil
}

func isIdentity(s string) bool {
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return len(s) == incarnationDigits
}

// Encode returns the Hello as the header has it.
func (h Hello) Encode() (string, error) {
	if err := h.validate(); err != nil {
		return "", err
	}
	b, err := proto.Marshal(h.Message())
	return string(b), err
}

// Decode reads what the header has. Errors: wire.ErrInvalid.
func Decode(header string) (Hello, error) {
	if len(header) > helloBytesMax {
		return Hello{}, fmt.Errorf("%w: a Hello of %d bytes", wire.ErrInvalid, len(header))
	}
	var m nodev1.Hello
	if err := proto.Unmarshal([]byte(header), &m); err != nil {
		return Hello{}, fmt.Errorf("%w: the header %s is no Hello: %w", wire.ErrInvalid, Header, err)
	}
	return OfMessage(&m)
}

// Check reports whether a process may work with another one that has said who it is
// and whom it means. Errors: wire.ErrVersion, wire.ErrWrongCluster,
// wire.ErrWrongNode, wire.ErrTwin.
func Check(self, other Hello) error {
	if other.Protocol < self.ProtocolMin || self.Protocol < other.ProtocolMin {
		return fmt.Errorf("%w: this process speaks version %d and understands %d, the other speaks %d and understands %d",
			wire.ErrVersion, self.Protocol, self.ProtocolMin, other.Protocol, other.ProtocolMin)
	}
	if self.Cluster != other.Cluster {
		return fmt.Errorf("%w: this process is of cluster %q, the other of %q", wire.ErrWrongCluster, self.Cluster, other.Cluster)
	}
	if self.ClusterID != "" && other.ClusterID != "" && self.ClusterID != other.ClusterID {
		return fmt.Errorf("%w: both are named %q, but this process is of the one with identity %s, the other of %s",
			wire.ErrWrongCluster, self.Cluster, self.ClusterID, other.ClusterID)
	}
	if other.ToNode != "" && other.ToNode != self.Node {
		return fmt.Errorf("%w: node %s was meant, this is node %s", wire.ErrWrongNode, other.ToNode, self.Node)
	}
	if other.ToIncarnation != "" && other.ToIncarnation != self.Incarnation {
		return fmt.Errorf("%w: node %s with data folder %s was meant, this one is %s",
			wire.ErrWrongNode, self.Node, other.ToIncarnation, self.Incarnation)
	}
	for _, pair := range [2][2]*Hello{{&self, &other}, {&other, &self}} {
		kept, other := pair[0], pair[1]
		what := ""
		switch {
		case other.Node == "":
		case kept.Forgets >= Kept && other.Forgets == Unknown:
			what = "forgotten series"
		case kept.Thins == Kept && other.Thins == Unknown:
			what = "hours of which the last sample is kept"
		case kept.Hours == Kept && other.Hours == Unknown:
			what = "hours that a restore has brought"
		}
		if what != "" {
			return fmt.Errorf("%w: the data folder of node %s may have %s, which node %s does not understand", wire.ErrVersion, kept.Node, what, other.Node)
		}
	}
	if self.Node != "" && self.Node == other.Node && self.Process != other.Process {
		return fmt.Errorf("%w: %s", wire.ErrTwin, self.Node)
	}
	return nil
}

// CheckAnswer checks, for a caller, that it has reached whom it meant. Errors: those
// of Check.
func CheckAnswer(caller, answer Hello) error {
	if caller.ToNode != "" && answer.Node != caller.ToNode {
		return fmt.Errorf("%w: node %s was meant, %s answered", wire.ErrWrongNode, caller.ToNode, answer)
	}
	if caller.ToIncarnation != "" && answer.Incarnation != caller.ToIncarnation {
		return fmt.Errorf("%w: data folder %s was meant, %s answered", wire.ErrWrongNode, caller.ToIncarnation, answer)
	}
	answer.ToNode, answer.ToIncarnation = "", ""
	return Check(caller, answer)
}
