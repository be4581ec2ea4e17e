package commit

import (
	"log/slog"

	"github.com/tickmesh/tickmesh/api/shardmap"
	"github.com/tickmesh/tickmesh/node/replica"
	"github.com/tickmesh/tickmesh/node/storage/entry"
	"github.com/tickmesh/tickmesh/node/storage/wal"
)

// Records reads back what is in the log.
type Records interface {
	// Record returns the record at a position. It may use buffer.
	Record(at wal.Position, buffer []byte) ([]byte, error)
	// End returns the position of the end of the log.
	End() wal.Position
}

// Config configures a Machine.
type Config struct {
	Host   replica.Config
	Shards int
	Log    Records
	Logger *slog.Logger
	// Standalone means that the node is in no cluster.
	Standalone bool
}

// Machine is the state of a node's loop. See the package's doc.
type Machine struct {
	config Config
	host   *replica.Host
	index  *LogIndex
	out    Output

	epoch       uint16
	dispatched  []uint64 // by shard: the last entry that was given to an applier
	shards      []shardQueue
	ready       []uint16           // shards that may propose now, each once
	holding     map[uint16][]*Held // writes that are done and wait for full voters
	proposed    tokens             // entries that were proposed here and have no outcome yet
	reads       map[uint64]Read    // reads that the host has, by token
	lastRead    uint64             // token
	rows        []shardmap.Row     // of the adopted map
	swaps       map[uint16]*swap   // files that are on their way into a shard
	spent       []uint64           // by shard: the greatest raft id that was removed here
	newestMs    []int64            // by shard: the leader's clock at the last entry of samples; 0: not known
	quarantined map[uint16]*quarantined
	unclaimed   []bool // by shard: there is data of an unknown replica
	dropping    []bool // by shard: the data of a removed replica is being dropped
	ticks       int
	relog       bool // the next round logs the states of all groups
	views       []View
	single      int // views that are of single-voter groups
	figures     Figures
	header      []byte
	sizes       []byte
	parts       [][]byte
}

// New returns a Machine with the groups that a log has. Error: replica.ErrArgument and those
// of Recovery.
func New(config Config, recovered *Recovery) (*Machine, error) {
	n := config.Shards
	m := &Machine{
		config: config, index: recovered.index, dispatched: recovered.engine.AppliedIndexes(),
		shards: make([]shardQueue, n), holding: map[uint16][]*Held{}, reads: map[uint64]Read{}, swaps: map[uint16]*swap{},
		spent: make([]uint64, n), newestMs: make([]int64, n), quarantined: map[uint16]*quarantined{},
		unclaimed: make([]bool, n), dropping: make([]bool, n), views: make([]View, n),
	}
	var err error
	if m.host, err = replica.New(config.Host, m.index); err != nil {
		return nil, err
	}
	if err := m.restore(recovered); err != nil {
		return nil, err
	}
	m.viewAll()
	return m, nil
}

// Host returns the groups, to be looked at between steps.
func (m *Machine) Host() *replica.Host { return m.host }

// Step takes what has happened, and fills round with what is to be written next; false: with
// nothing. An error says that the round cannot be framed; then, and when it cannot be written,
// the Machine takes part in nothing any more: only FailAll may be called.
func (m *Machine) Step(in *Input, round *Round) (bool, error) {
	m.proposed.release(round.ended)
	round.clear()
	m.host.Waiting(int(in.PeerBytes))
	m.host.Refuse(in.Refuses)
	for name, news := range in.Peers {
		if news.Down {
			m.host.PeerDown(name)
		}
		if news.Up {
			m.host.PeerUp(name)
		}
	}
	for i := range in.Envelopes {
		if err := m.host.Receive(in.Envelopes[i].From, in.Envelopes[i].Bytes); err != nil {
			m.config.Logger.Warn("an envelope cannot be read", "peer", in.Envelopes[i].From, "error", err)
		}
	}
	for range in.Ticks {
		m.tick(in.Applied)
	}
	m.startReads(in.Reads)
	m.sort(in.Writes)
	m.propose(in.NowMs)
	if m.relog {
		m.relog = false
		round.relogged = m.states()
	}
	if in.Synced > 0 {
		for _, shard := range m.host.Synced(in.Synced) {
			m.viewAgain(shard)
		}
	}
	some := m.host.Ready(&round.replica)
	m.redirect(in.NowMs)
	if !some && len(round.relogged) == 0 {
		return false, nil
	}
	round.Epoch = m.epoch
	return true, m.frame(round)
}

// Written goes on with a round that is in the log from start on, and synced if it asked for
// that: it fills in what is to be applied. A round without records has no start.
func (m *Machine) Written(round *Round, start wal.Position) {
	if round.Buffer.Records() > 0 {
		m.index.add(round, start)
	}
	m.host.Advance(&round.replica)
	for _, ready := range round.replica.Reads {
		m.readReady(ready)
	}
	for _, failure := range round.replica.Failed {
		m.failed(failure)
	}
	for _, shard := range round.replica.Prepared {
		if m.swaps[shard] != nil {
			m.out.Prepared = append(m.out.Prepared, shard)
		}
	}
	m.out.Fetch = append(m.out.Fetch, round.replica.Snapshots...)
	// A group comes and goes, and gains or loses its other voters, only with a state in the
	// log, or when that is synced.
	for i := range round.replica.States {
		m.viewAgain(round.replica.States[i].Shard)
	}
	m.dispatch(round)
}

// dispatch hands the committed entries of a round to the appliers.
func (m *Machine) dispatch(round *Round) {
	for i := range round.replica.Committed {
		c := &round.replica.Committed[i]
		m.dispatched[c.Shard] = c.Index
		p := ToApply{
			Entry:  entry.Entry{Kind: entry.Kind(c.Kind), Shard: c.Shard, Term: c.Term, Index: c.Index, Body: round.body(c)},
			Copies: c.Copies,
		}
		if p.Entry.Kind == entry.Samples {
			m.newestMs[c.Shard] = entry.ReadBatches(p.Entry.Body).TimeMs
		}
		if c.Token != 0 {
			if ended := m.proposed.take(c.Token); ended != nil {
				p.Shares = ended.shares
				round.ended = append(round.ended, ended)
			}
			m.outcome(c.Shard)
		}
		applier := int(c.Shard) % len(round.Entries)
		round.Entries[applier] = append(round.Entries[applier], p)
	}
}

func (m *Machine) failed(f replica.Failure) {
	if isRead(f.Token) {
		m.readFailed(f)
		return
	}
	entry := m.proposed.take(f.Token)
	m.outcome(f.Shard)
	if entry == nil {
		return
	}
	m.answerAll(entry.shares, f.Err)
	m.proposed.release([]*inflight{entry})
}

// FailAll answers every write with err, and every read with readErr, that waits or is under
// way. Writes in the log may be applied all the same.
func (m *Machine) FailAll(err, readErr error) {
	for i := range m.shards {
		q := &m.shards[i]
		m.answerAll(q.shares, err)
		q.drop(len(q.shares))
	}
	for shard, waits := range m.holding {
		for _, w := range waits {
			w.Err = err
			m.out.Held = append(m.out.Held, w)
		}
		delete(m.holding, shard)
	}
	for _, e := range m.proposed.slots { // they keep their tokens, which still come back
		if e != nil {
			m.answerAll(e.shares, err)
			clear(e.shares)
			e.shares = e.shares[:0]
		}
	}
	for token, r := range m.reads {
		m.out.Reads = append(m.out.Reads, ReadAnswer{r, 0, readErr})
		delete(m.reads, token)
	}
}
