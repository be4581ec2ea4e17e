package memory

import (
	"bufio"
	"os"
	"strconv"
	"strings"
	"testing"
)

// limits are from the smallest board to a large server, odd ones between.
var limits = []int64{64 << 20, 100_000_001, 128 << 20, 256 << 20, 500 << 20, 512 << 20, 1 << 30, 1536 << 20, 2 << 30, 4 << 30, 8<<30 - 1, 16 << 30, 64 << 30, Unlimited}

// The shares of every role are no more than the limit, those of nodes with all nodes together,
// and what Go is told is less than the limit.
func TestSharesFitIntoTheLimit(t *testing.T) {
	for r := range roles {
		for _, limit := range limits {
			for n, nodes := range []int{1, 3, 16} {
				most := map[Share]int64{Writes: 448 << 20, Queries: 1 << 30, Entries: 0}
				if n == 0 {
					most = nil
				}
				p := Of(Divide(limit, Process{Role: r, Nodes: nodes, ExtentBytes: 1 << 20, Most: most}))
				rest := limit
				for _, s := range allShares() {
					if ofAll := p.division.Bytes(s); ofAll < 0 || p.NodeBound(s, Unlimited) > ofAll/int64(nodes) {
						t.Errorf("role %d, %d bytes: %s has %d, a node of %d has %d", r, limit, s, ofAll, nodes, p.NodeBound(s, Unlimited))
					}
					if bound, bounded := most[s]; bounded && p.division.Bytes(s) > bound {
						t.Errorf("role %d, %d bytes: %s can use %d and has %d", r, limit, s, bound, p.division.Bytes(s))
					}
					rest -= p.division.Bytes(s)
				}
				if rest < 0 || rest >= parts && limit != Unlimited {
					t.Errorf("role %d, %d bytes: %d are left", r, limit, rest)
				}
				if limit != Unlimited && p.division.GoBytes >= limit {
					t.Errorf("role %d, %d bytes: Go has %d", r, limit, p.division.GoBytes)
				}
			}
		}
	}
}

// Every share that a role has is told, and the documentation's table is that of the code.
func TestTableOfTheDocumentation(t *testing.T) {
	file, err := os.Open("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	columns := [...]Role{Standalone, Router, Node, LocalCluster}
	seen := 0
	for lines := bufio.NewScanner(file); lines.Scan(); {
		fields := strings.Fields(strings.TrimPrefix(lines.Text(), "//"))
		if len(fields) < 5 || fields[0] == "share" || seen == len(allShares()) {
			continue
		}
		if seen == 0 && fields[0] != string(Writes) {
			continue
		}
		share := Share(fields[0])
		if share != allShares()[seen] {
			t.Fatalf("row %d is of %s, want %s", seen, share, allShares()[seen])
		}
		seen++
		for i, r := range columns {
			want := int64(0)
			if fields[1+i] != "–" {
				if want, err = strconv.ParseInt(fields[1+i], 10, 64); err != nil {
					t.Fatal(err)
				}
			}
			if got := partsOf(r)[share]; got != want {
				t.Errorf("%s of role %d: %d parts, the documentation says %d", share, r, got, want)
			}
		}
	}
	if seen != len(allShares()) {
		t.Errorf("the documentation has %d shares, want %d", seen, len(allShares()))
	}
}

func TestGenerationBytes(t *testing.T) {
	const mib = 1 << 20
	for _, c := range []struct {
		limit       int64
		role        Role
		nodes       int
		extent      int64
		goBytes     int64
		generations int64
	}{
		{Unlimited, Standalone, 1, 16 * mib, Unlimited, 128 * mib},
		{64 << 30, Standalone, 1, 16 * mib, 32 << 30, 128 * mib},
		{1 << 30, Node, 1, 16 * mib, 512 * mib, 128 * mib},
		{512 * mib, Standalone, 1, 16 * mib, 256 * mib, 64 * mib},
		{500 * mib, Standalone, 1, 16 * mib, 250 * mib, 48 * mib},
		{128 * mib, Standalone, 1, 16 * mib, 64 * mib, 16 * mib},
		{64 * mib, Standalone, 1, 16 * mib, 32 * mib, 16 * mib},
		{128 * mib, Standalone, 1, 1 * mib, 64 * mib, 16 * mib},
		{128 * mib, Standalone, 1, 64 * mib, 64 * mib, 64 * mib},
		{64 << 30, Standalone, 1, 256 * mib, 32 << 30, 256 * mib},
		{1 << 30, LocalCluster, 3, 16 * mib, 512 * mib, 32 * mib},
		{512 * mib, Router, 0, 16 * mib, 384 * mib, 64 * mib},
	} {
		d := Divide(c.limit, Process{Role: c.role, Nodes: c.nodes, ExtentBytes: c.extent})
		if d.GoBytes != c.goBytes || d.GenerationBytes != c.generations {
			t.Errorf("%d bytes: Go has %d, a generation %d", c.limit, d.GoBytes, d.GenerationBytes)
		}
	}
}

// A process of which nobody knows the memory, and a test without a plan, have the bounds of flags.
func TestNoPlanHasNoBounds(t *testing.T) {
	var p *Plan
	p.Track(Writes, nil)
	if p.Bound(Writes, 7) != 7 || p.NodeBound(Series, 7) != 7 || p.GenerationBytes() != 0 {
		t.Error("a nil plan bounds something")
	}
	unlimited := Of(Divide(Unlimited, Process{}))
	if n := int64(1 << 40); unlimited.Bound(Cache, n) != n {
		t.Error("an unlimited plan bounds something")
	}
}
