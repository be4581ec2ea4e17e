package scale

import (
	"fmt"
	"io"
	"time"

	"github.com/tickmesh/tickmesh/api/shardmap"
	"github.com/tickmesh/tickmesh/api/shardmap/etcdserver"
)

// Row is one size of cluster, measured and computed.
type Row struct {
	*Placement
	Traffic
}

// Routers is for how many routers traffic is computed.
const Routers = 3

// Measure makes the rows of the page. Progress hears of each one.
func Measure(cases []Case, progress func(Case)) ([]Row, Beats, error) {
	beats, err := MeasureBeats()
	if err != nil {
		return nil, beats, fmt.Errorf("beats: %w", err)
	}
	var rows []Row
	for _, c := range cases {
		progress(c)
		p, err := Place(c)
		if err != nil {
			return nil, beats, fmt.Errorf("%+v: %w", c, err)
		}
		t, err := TrafficOf(p, beats, Routers)
		if err != nil {
			return nil, beats, err
		}
		p.Map, p.State = shardmap.Map{}, shardmap.State{} // 100 MB each
		rows = append(rows, Row{p, t})
	}
	return rows, beats, nil
}

// WriteTables writes the figures as tables of Markdown.
func WriteTables(w io.Writer, rows []Row, beats Beats, empty []Empty) error {
	p := &printer{w: w}
	p.table("Planner: processor ms of a plan with all its moves, and MB that it allocates", "nodes | shards | copies | create | MB | one node more | MB | a node lost | a zone lost | evening leads out")
	for _, r := range rows {
		p.line(r.Nodes, r.Shards, r.Copies, ms(r.Create.Plan), mb(r.Create.Bytes), ms(r.Grow.Plan), mb(r.Grow.Bytes), ms(r.LoseNode.Plan), ms(r.LoseZone.Plan), ms(r.LeadPlan))
	}
	p.table("Moves (made / least possible), shards without a majority, and balance (most / least on a node)", "nodes | shards | copies | one node more | a node lost | lost | a zone lost | lost | copies | after one more | after a loss | leads")
	for _, r := range rows {
		p.line(r.Nodes, r.Shards, r.Copies, moves(r.Grow), moves(r.LoseNode), r.LoseNode.Lost, moves(r.LoseZone), r.LoseZone.Lost, r.Create.Loads, r.Grow.Loads, r.LoseNode.Loads, r.Leads)
	}
	p.table("Map in etcd: one key, written whole. KB, and changes of it until etcd's database has its quota if nothing is compacted meanwhile",
		"nodes | shards | copies | at rest | with moves | of the bound, % | taken | encode, ms | decode, ms | to all watchers, MB a change | changes in the quota")
	for _, r := range rows {
		taken := "yes"
		if r.Refused != nil {
			taken = "refused"
		}
		p.line(r.Nodes, r.Shards, r.Copies, kb(r.MapBytes), kb(r.MapBytesMoving), 100*r.MapBytes/shardmap.MapBytesMax, taken, ms(r.Encode), ms(r.Decode), mb(r.MapWatchBytes), etcdserver.QuotaBytesDefault/r.MapBytesMoving)
	}
	p.table(fmt.Sprintf("Etcd without a change of the map, with %d routers", Routers), "nodes | shards | copies | keys | entries a second | to all watchers, KB/s | lease renewals a second | probes a second | reports to the elected router, KB/s")
	for _, r := range rows {
		p.line(r.Nodes, r.Shards, r.Copies, r.Keys, one(r.EntriesPerS), kb(r.EntryBytesPerS), one(r.RenewalsPerS), one(r.ProbesPerS), kb(r.ReportBytesPerS))
	}
	p.table("Between nodes, and from a router. Beats from one node to another: "+beats.String(), "nodes | shards | copies | peers of a node | pairs | at rest, envelopes a second | KB/s | all groups awake, KB/s | connections of a router | at most | nodes asked by a query over all | in turns")
	for _, r := range rows {
		p.line(r.Nodes, r.Shards, r.Copies, r.PeersMost, r.PairsAll, one(r.RestingPerS), kb(r.RestingBytes), kb(r.ActiveBytes), r.RouterConns, r.RouterConnsMost, r.NodesAsked, r.AskedInTurns)
	}
	p.table("One process with empty shards (with more than one node: as many nodes, a router and an etcd, 3 copies)", "nodes | shards | replicas | start, s | CPU until then, s | RSS, MB | open files | goroutines | disk, MB | CPU at rest, %")
	for _, e := range empty {
		replicas := e.Shards
		if e.Nodes > 1 {
			replicas *= zones
		}
		p.line(e.Nodes, e.Shards, replicas, one(e.Start.Seconds()), one(e.CPU.Seconds()), mb(e.RSSBytes), e.Files, e.Goroutines, mb(e.DiskBytes), one(100*e.RestCPU))
	}
	return p.err
}

// printer writes until an error.
type printer struct {
	w   io.Writer
	err error
}

func (p *printer) table(title, columns string) {
	rule := "|---"
	for _, c := range columns {
		if c == '|' {
			rule += "|--:"
		}
	}
	p.printf("\n%s\n\n| %s |\n%s|\n", title, columns, rule)
}

func (p *printer) line(cells ...any) {
	for _, cell := range cells {
		p.printf("| %v ", cell)
	}
	p.printf("|\n")
}

func (p *printer) printf(format string, a ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format, a...)
	}
}

// String shows both loads.
func (l Loads) String() string { return fmt.Sprintf("%d / %d", l.Most, l.Least) }

func moves(c Change) string { return fmt.Sprintf("%d / %d", c.Moves, c.Least) }

func ms(d time.Duration) string { return short(d.Seconds() * 1e3) }
func one(f float64) string      { return fmt.Sprintf("%.1f", f) }

func mb[T int64 | uint64 | float64](bytes T) string { return short(float64(bytes) / 1e6) }
func kb[T int | float64](bytes T) string            { return short(float64(bytes) / 1e3) }

// short writes a number with what of it matters.
func short(f float64) string {
	if f < 10 {
		return fmt.Sprintf("%.1f", f)
	}
	return fmt.Sprintf("%.0f", f)
}
