package bench

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/tickmesh/tickmesh/e2e/bench/target"
	"github.com/tickmesh/tickmesh/e2e/harness"
)

// Config describes what to measure.
type Config struct {
	Targets   []target.Target
	Workloads []string // names, from Workloads
	Scale     Scale
	Runs      int // of the workloads that are repeated, for the spread
	// ServerCPUs and ClientCPUs are the cores of each side; Shared says that they
	// are the same.
	ServerCPUs, ClientCPUs harness.CPUSet
	Shared                 bool
	Dir                    string // for data folders; emptied after each run
	Command                string // to print in the report
	Log                    io.Writer
}

// Scale is the size of the workloads.
type Scale struct {
	Name              string
	Duration          time.Duration // of one saturated run
	SeriesCounts      []int         // for cardinality
	QueryRows         int           // seconds of data of 2,000 series
	RestartSeries     []int
	DiskRows          int // seconds of data of 2,000 series
	MemoryLimit       int64
	MemoryPoints      int64         // most points written to exceed the limit
	QueryDuration     time.Duration // of one kind of query at one concurrency
	RestDuration      time.Duration // wait before memory is read a second time
	Reads             ReadScale     // of workload queries
	SustainedDuration time.Duration // of workload sustained
	ChurnSeries       int           // live, of workload churn
	ChurnRounds       int
	DeadSeries        int // of workload dead
}

// Connections and series of the saturated workloads, as in the budgets.
const (
	connectionCount    = 200
	pointsPerRequest   = 200
	cardinalityConns   = 20
	cardinalityRounds  = 6
	cardinalityStepS   = 10
	baseSeconds        = int64(1_700_006_400) // a whole hour, 2023-11-15T00:00Z
	seed               = uint64(0x7469636b)
	ringBodies         = 16
	sendBufferBytes    = 64 << 10
	memoryFactor       = 4 // data on disk over the memory limit
	readsEveryRequests = 10
	clusterNodes       = 3
	clusterShards      = 128
)

// scales are a quick look, what the budgets ask for, and that with reads among twice as
// many series, which the peers take gigabytes for.
var scales = [...]Scale{
	{
		Name: "small", Duration: 3 * time.Second, SeriesCounts: []int{100_000}, QueryRows: 7_200,
		RestartSeries: []int{100_000}, DiskRows: 4_000, MemoryLimit: 64 << 20, MemoryPoints: 100_000_000,
		QueryDuration: time.Second, RestDuration: 2 * time.Second,
		Reads:             ReadScale{LongDays: 3, WideSeries: 10_000, ManySeries: 100_000, WriteRate: 100_000},
		SustainedDuration: 20 * time.Second, ChurnSeries: 20_000, ChurnRounds: 60, DeadSeries: 1_000_000,
	},
	full("full", 1_000_000),
	full("large", 2_000_000),
}

// full is the size of the budgets, with so many series to read among.
func full(name string, manySeries int) Scale {
	return Scale{
		Name: name, Duration: 12 * time.Second, SeriesCounts: []int{100_000, 1_000_000, 2_000_000}, QueryRows: 25_000,
		RestartSeries: []int{100_000, 1_000_000}, DiskRows: 20_000, MemoryLimit: 128 << 20, MemoryPoints: 500_000_000,
		QueryDuration: 5 * time.Second, RestDuration: 8 * time.Second,
		Reads:             ReadScale{LongDays: 30, WideSeries: 100_000, ManySeries: manySeries, WriteRate: 500_000},
		SustainedDuration: 5 * time.Minute, ChurnSeries: 100_000, ChurnRounds: 300, DeadSeries: 10_000_000,
	}
}

// ScaleNamed returns a scale by its name: small, full or large.
func ScaleNamed(name string) (Scale, error) {
	for _, scale := range scales {
		if scale.Name == name {
			return scale, nil
		}
	}
	return Scale{}, fmt.Errorf("scale %q: want small, full or large", name)
}

// SelectWorkloads checks a comma-separated list of names or numbers; "all" is all.
func SelectWorkloads(list string) ([]string, error) {
	var names []string
	for _, wanted := range strings.Split(list, ",") {
		found := false
		for i, workload := range workloads {
			if wanted == "all" || wanted == workload.name || wanted == fmt.Sprint(i+1) {
				found = true
				if !slices.Contains(names, workload.name) {
					names = append(names, workload.name)
				}
			}
		}
		if !found {
			return nil, fmt.Errorf("workload %q: want all, a number from 1 to %d, or one of %s", wanted, len(workloads), strings.Join(Workloads(), ", "))
		}
	}
	return names, nil
}

// NeedsCluster reports whether a workload of the list starts clusters.
func NeedsCluster(names []string) bool {
	return slices.ContainsFunc(names, func(name string) bool { return find(name).clusters })
}

// Workloads returns the names in order.
func Workloads() []string {
	names := make([]string, len(workloads))
	for i, workload := range workloads {
		names[i] = workload.name
	}
	return names
}
