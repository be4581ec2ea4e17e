package server

import (
	"testing"

	"github.com/spf13/pflag"

	"github.com/tickmesh/tickmesh/api/memory"
	"github.com/tickmesh/tickmesh/api/transport"
)

// What requests may hold fits into the shares of the plan, whatever flags say, and what may be
// sent fits into it.
func TestRequestsFitIntoTheirShares(t *testing.T) {
	for _, limit := range []int64{64 << 20, 128 << 20, 512 << 20, 2 << 30, 64 << 30} {
		for _, flags := range [][]string{nil, {"--in-flight-bytes-max=1GiB"}, {"--body-bytes-max=1GiB", "--body-decoded-bytes-max=1GiB"}, {"--line-bytes-max=1GiB"}} {
			var s Settings
			f := pflag.NewFlagSet("test", pflag.ContinueOnError)
			s.WriteLimits.Define(f)
			s.QueryLimits.Define(f)
			if err := f.Parse(flags); err != nil {
				t.Fatal(err)
			}
			d := memory.Divide(limit, memory.Process{Most: s.MemoryMost()})
			m := s.requestMemory(memory.Of(d))
			ofOne, ofAll, ofCache := s.bytes(memory.Of(d))
			for _, c := range []struct {
				what         string
				holds, share int64
			}{
				{"writes", m.inFlight + m.waiting + m.kept, d.Bytes(memory.Writes)},
				{"reads", m.reads, d.Bytes(memory.Reads)},
				{"calls", int64(m.calls) * transport.ServerStreamWindowBytes, d.Bytes(memory.Calls)},
				{"queries", ofAll, d.Bytes(memory.Queries)},
				{"a query", ofOne, ofAll},
				{"the cache", ofCache, d.Bytes(memory.Cache)},
				{"a body", m.wholeBytes + m.wholeDecodedBytes + inFlightSlack, m.inFlight},
				{"a line", m.lineBytes + inFlightSlack, m.inFlight},
				{"another body", m.otherBodyBytes, m.reads},
			} {
				if c.holds > c.share || c.holds <= 0 {
					t.Errorf("%d bytes, %v: %s: %d bytes, the share is %d", limit, flags, c.what, c.holds, c.share)
				}
			}
		}
	}
}

// Flags that there is memory for hold to the letter, as they always did, and so do defaults.
func TestFlagsOfRequestsHold(t *testing.T) {
	for _, c := range []struct {
		limit                   int64
		flags                   []string
		inFlight, body, decoded int64
	}{
		{512 << 20, nil, 512 << 20 / 64 * 17 / 4 * 3, 32 << 20, 64 << 20},
		{2 << 30, nil, 256 << 20, 32 << 20, 64 << 20},
		{2 << 30, []string{"--in-flight-bytes-max=100MiB"}, 100 << 20, 32 << 20, 64 << 20},
		{8 << 30, []string{"--in-flight-bytes-max=1GiB"}, 1 << 30, 32 << 20, 64 << 20},
		{8 << 30, []string{"--body-bytes-max=256MiB", "--body-decoded-bytes-max=512MiB"}, 768<<20 + inFlightSlack, 256 << 20, 512 << 20},
	} {
		var s Settings
		f := pflag.NewFlagSet("test", pflag.ContinueOnError)
		s.WriteLimits.Define(f)
		s.QueryLimits.Define(f)
		if err := f.Parse(c.flags); err != nil {
			t.Fatal(err)
		}
		m := s.requestMemory(memory.Of(memory.Divide(c.limit, memory.Process{Most: s.MemoryMost()})))
		if m.inFlight != c.inFlight || m.wholeBytes != c.body || m.wholeDecodedBytes != c.decoded {
			t.Errorf("%d bytes, %v: %+v", c.limit, c.flags, m)
		}
	}
}
