package bench

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/tickmesh/tickmesh/e2e/bench/load"
	"github.com/tickmesh/tickmesh/e2e/bench/target"
)

var smallReads = ReadScale{LongDays: 2, WideSeries: 3000, ManySeries: 20_000, WriteRate: 1}

// Every kind of read has a finite answer wherever its time is drawn.
func TestReadersKnowTheirAnswers(t *testing.T) {
	d := makeReadData(smallReads)
	for _, r := range d.readers() {
		for n := range uint64(50) {
			question := r.draw(d, rand.New(rand.NewPCG(n, 1)))
			if want := question.want(); want.Points <= 0 || math.IsNaN(want.Value) || math.IsInf(want.Value, 0) {
				t.Fatalf("%s: %+v", r.name, want)
			}
			if !strings.HasPrefix(question.path, "/api/v1/") {
				t.Fatal(question.path)
			}
		}
	}
}

func TestReadCheckFindsWrongAnswers(t *testing.T) {
	r := read{path: "p", points: 2, value: func() float64 { return 1.5 }}
	body := `{"status":"success","data":{"resultType":"matrix","result":[{"metric":{},"values":[[1,"1"],[2,"%s"]]}]}}`
	if err := r.check([]byte(strings.Replace(body, "%s", "2", 1)), true); err != nil {
		t.Fatal(err)
	}
	for _, wrong := range []string{"2.001", "NaN"} {
		if err := r.check([]byte(strings.Replace(body, "%s", wrong, 1)), true); !errors.Is(err, ErrCheck) {
			t.Errorf("%s passes: %v", wrong, err)
		}
	}
	names := `{"status":"success","data":["a","b","c"]}`
	if err := r.check([]byte(names), false); !errors.Is(err, ErrCheck) {
		t.Error(err)
	}
	if got, err := target.ParseAPI([]byte(names)); err != nil || got.Points != 3 {
		t.Error(got, err)
	}
	if _, err := target.ParseAPI([]byte(`{"status":"error","error":"no"}`)); err == nil {
		t.Error("an error is taken as an answer")
	}
}

// Each round reaches each series once; all of a series goes over one connection, in order.
func TestRoundsOfRemoteWrite(t *testing.T) {
	q := &querying{data: makeReadData(smallReads), server: &target.Server{Target: target.TickMesh{}}}
	const series, rounds = 45_000, 3
	total, last := 0, 0
	feeds := q.rounds("many", series, func(round int) (int64, bool) { last = round; return baseSeconds + int64(round), true }, rounds)
	for _, feed := range feeds {
		for item, ok := feed(); ok; item, ok = feed() {
			total += item.Points
		}
		if last != rounds-1 {
			t.Fatalf("a connection ends in round %d", last)
		}
	}
	if total != series*rounds {
		t.Fatalf("%d points of %d", total, series*rounds)
	}
	for _, feeds := range [][]load.Feed{{q.longFeed()}, {q.fleetFeed()}} {
		points := 0
		for item, ok := feeds[0](); ok; item, ok = feeds[0]() {
			points += item.Points
		}
		if want := fmt.Sprint(len(q.data.long), len(q.data.fleet)*fleetSeconds/readStepS); !strings.Contains(want, fmt.Sprint(points)) {
			t.Fatalf("%d points, want one of %s", points, want)
		}
	}
}
