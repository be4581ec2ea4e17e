package commit

import "github.com/tickmesh/tickmesh/node/replica"

// Input is what has happened since the last step.
type Input struct {
	NowMs     int64 // the wall clock
	Ticks     int
	Applied   []uint64 // by shard: the last entry that is applied; needed with Ticks
	Peers     map[string]PeerNews
	Envelopes []Envelope
	Reads     []Read
	Writes    []*Write
	// PeerBytes is what waits to be sent to other nodes.
	PeerBytes int64
	// Refuses tells that no write is taken now: see replica.Host.Refuse.
	Refuses bool
	// Synced is the number of the last round whose states are durable, if that is news.
	Synced uint64
}

// Envelope is what another node has sent.
type Envelope struct {
	From  string
	Bytes []byte
}

// PeerNews is what became of the connection to another node: first down, then up.
type PeerNews struct{ Down, Up bool }

// Output is what follows from a call, besides a Round. It is used again by the next call.
type Output struct {
	Answers  []Answer
	Reads    []ReadAnswer
	Held     []*Held                // waits that have ended
	Fetch    []replica.SnapshotNeed // files that replicas need
	Drop     []uint16               // shards whose data is to be dropped when it is durable that their replica has ended
	Ask      []Question
	Prepared []uint16 // shards of which the log says that their files are swapped
	Cancel   []uint16 // shards whose swap is in vain: their replica has ended
	Viewed   []uint16 // shards whose View has changed
	Counted  bool     // Figures have changed
	// Unpublished signals that Machine.Unpublished may have something new.
	Unpublished bool
}

func (o *Output) fetch(need replica.SnapshotNeed) { o.Fetch = append(o.Fetch, need) }

func (o *Output) drop(shard uint16) { o.Drop = append(o.Drop, shard) }

func (o *Output) ask(q Question) { o.Ask = append(o.Ask, q) }

// Output returns what follows from the calls since it was fetched last. It is valid until
// the next call of any method.
func (m *Machine) Output() *Output { return &m.out }

// Reset forgets an Output that the driver has dealt with.
func (o *Output) Reset() {
	clear(o.Answers)
	clear(o.Reads)
	clear(o.Held)
	clear(o.Ask)
	*o = Output{
		Answers: o.Answers[:0], Reads: o.Reads[:0], Held: o.Held[:0], Fetch: o.Fetch[:0], Drop: o.Drop[:0], Ask: o.Ask[:0],
		Prepared: o.Prepared[:0], Cancel: o.Cancel[:0], Viewed: o.Viewed[:0],
	}
}
