package kubernetes

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/tickmesh/tickmesh/hack/kubernetes/lab"
)

// stage is a cluster in the lab, with clients on it, and what its phases have cost.
type stage struct {
	*testing.T
	rack *lab.Rack
	load *load // nil: not yet
	// writing reports that clients write: each phase waits for them and reads all back.
	writing bool
	rows    []row
	faults  []string          // what phases were not held to, printed once more at the end, where it is looked for
	recipes map[string]string // scripts by name
	bounds  bounds
	random  *rand.Rand      // of what is left to chance; its seed is printed
	release string          // folder that stands for a checkout of the release that is installed
	typed   map[string]bool // names of the recipes that the scene has typed
}

// newStage skips the test if there is no lab.
func newStage(t *testing.T) *stage {
	t.Helper()
	r := needLab(t)
	scripts, err := readRecipes(r.Folders.Checkout)
	if err != nil {
		t.Fatal(err)
	}
	seed, err := seedOf(os.Getenv("TICKMESH_E2E_SEED"))
	if err != nil {
		t.Fatal(err)
	}
	fmt.Printf("seed %d: TICKMESH_E2E_SEED=%d draws the same moments again\n", seed, seed)
	return &stage{T: t, rack: r, bounds: boundsOf(testing.Short()), random: rand.New(rand.NewPCG(seed, 0)), recipes: scripts, release: r.Folders.Checkout, typed: map[string]bool{}}
}

// seedOf returns the seed that was asked for, or a new one.
func seedOf(text string) (uint64, error) {
	if text == "" {
		return rand.Uint64(), nil
	}
	seed, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("TICKMESH_E2E_SEED: %w", err)
	}
	return seed, nil
}

// row is one phase.
type row struct {
	name          string
	took, checked time.Duration
	lap
}

// phase does something, waits until every client is served again, reads everything
// back, and notes what it has cost. The reading is no part of its time.
func (s *stage) phase(name string, do func(ctx context.Context) error) {
	s.Helper()
	s.bounded(name, 0, do)
}

// lossPhase is phase when it takes a machine from its clients. Only a client itself can find out that the other side of its
// connection is gone, so that silentTime is its part.
func (s *stage) lossPhase(name string, do func(ctx context.Context) error) {
	s.Helper()
	s.bounded(name, silentTime, do)
}

func (s *stage) bounded(name string, more time.Duration, do func(ctx context.Context) error) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), conditionTime)
	defer cancel()
	begin := time.Now()
	fail := func(what string, err error) {
		s.Helper()
		logState(s.T)
		s.faults = append(s.faults, fmt.Sprintf("%s: %s%v", name, what, err))
		s.Fatal(s.faults[len(s.faults)-1])
	}
	before := s.fronts(ctx)
	if err := do(ctx); err != nil {
		fail("", err)
	}
	if s.writing {
		if err := s.load.progress(ctx); err != nil {
			fail("clients: ", err)
		}
	}
	this := row{name: name, took: time.Since(begin)}
	if s.writing {
		this.lap = s.load.lap()
		ctx, cancel := context.WithTimeout(s.Context(), conditionTime)
		defer cancel()
		begin = time.Now()
		if err := s.load.check(ctx); err != nil {
			fail("read back: ", err)
		}
		this.checked = time.Since(begin)
	}
	s.rows = append(s.rows, this)
	fmt.Println(this.String() + this.last)
	if err := s.bounds.check(&this.lap, more); err != nil {
		logState(s.T)
		s.faults = append(s.faults, fmt.Sprintf("%s: %v%s", name, err, this.last))
		s.Error(s.faults[len(s.faults)-1]) // what follows is worth to be seen, too
	}
	if max(this.writePause.Duration, this.queryPause.Duration) > pauseNotable {
		fmt.Printf("    clients' ways before: %s\n    and after: %s\n", before, s.fronts(s.Context()))
	}
}

// pauseNotable is a time without an answer after which the way of clients is told: where
// Envoy and the routers were.
const pauseNotable = 10 * time.Second

// fronts returns on which machines Envoy and the routers are, and whether they are ready;
// nothing before clients write.
func (s *stage) fronts(ctx context.Context) string {
	if !s.writing {
		return ""
	}
	text, err := s.kubectl(ctx, "get", "pods", "--selector=tickmesh.dev/cluster=demo,app.kubernetes.io/component in (envoy,router)",
		`--output=jsonpath={range .items[*]}{.metadata.name} {.spec.nodeName} {.status.conditions[?(@.type=="Ready")].status}; {end}`)
	if err != nil {
		return err.Error()
	}
	return text
}

func (r row) String() string {
	text := fmt.Sprintf("%-54s %7.1f s %8d %7d %6d %s %s %6.1f s", r.name, r.took.Seconds(), r.samples, r.failed, r.failedInRow,
		r.writePause, r.queryPause, r.checked.Seconds())
	for _, p := range r.alonePauses {
		text += fmt.Sprintf(" %5.1f", p.Seconds())
	}
	return text
}

// printTable prints all phases with their sums.
func (s *stage) printTable() {
	fmt.Printf("\n%-54s %9s %8s %7s %6s %13s %13s %8s %5s %5s %5s %5s\n", "phase", "time", "samples", "failed", "in row", "no write", "no query", "check",
		"http", "put", "line", "grpc")
	sum := row{name: "all phases"}
	for _, r := range s.rows {
		fmt.Println(r)
		sum.took += r.took
		sum.checked += r.checked
		sum.samples += r.samples
		sum.failed += r.failed
		sum.failedInRow = max(sum.failedInRow, r.failedInRow)
		sum.writePause = sum.writePause.longer(r.writePause)
		sum.queryPause = sum.queryPause.longer(r.queryPause)
		for i, p := range r.alonePauses {
			if i == len(sum.alonePauses) {
				sum.alonePauses = append(sum.alonePauses, pause{})
			}
			sum.alonePauses[i] = sum.alonePauses[i].longer(p)
		}
	}
	fmt.Println(sum)
	fmt.Println("samples: acknowledged; failed: requests; in row: of one client, without one that was served between; no write, no query: the longest without an answer to any client of a protocol; http, put, line, grpc: in seconds, to one client that keeps its connection until it breaks")
	if s.load != nil {
		fmt.Print(s.load.describe())
	}
	for _, fault := range s.faults {
		fmt.Println("FAULT: " + fault)
	}
}
