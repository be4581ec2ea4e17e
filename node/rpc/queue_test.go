package rpc

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestQueueProperty compares the queue with a plain slice.
func TestQueueProperty(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		q := queue{bytesLimit: rapid.IntRange(0, 2000).Draw(rt, "limit")}
		var oracle [][]byte
		var dropped uint64
		size := func() (sum int) {
			for _, e := range oracle {
				sum += len(e) + envelopeOverhead
			}
			return sum
		}
		trim := func(limit int) {
			for size() > limit {
				oracle, dropped = oracle[1:], dropped+1
			}
		}
		serial := byte(0)
		rt.Repeat(map[string]func(*rapid.T){
			"push": func(rt *rapid.T) {
				serial++
				e := slices.Repeat([]byte{serial}, rapid.SampledFrom([]int{0, 1, 48, 300, 3200}).Draw(rt, "length"))
				if q.push(e); len(e)+envelopeOverhead > q.bytesLimit {
					dropped++
					return
				}
				oracle = append(oracle, e)
				trim(q.bytesLimit)
			},
			"take": func(rt *rapid.T) {
				most := rapid.IntRange(0, 1000).Draw(rt, "most")
				var want [][]byte
				for sum := 0; len(oracle) > 0; {
					if sum += len(oracle[0]) + envelopeOverhead; sum > most && len(want) > 0 {
						break
					}
					want, oracle = append(want, oracle[0]), oracle[1:]
				}
				if got := q.take(nil, most); !slices.EqualFunc(got, want, slices.Equal[[]byte]) {
					rt.Fatalf("took %d envelopes instead of %d", len(got), len(want))
				}
			},
			"limit": func(rt *rapid.T) {
				q.bytesLimit = rapid.IntRange(0, 2000).Draw(rt, "limit")
				q.trim(q.bytesLimit)
				trim(q.bytesLimit)
			},
			"": func(rt *rapid.T) {
				if q.bytes != size() || q.dropped != dropped || len(q.envelopes)-q.head != len(oracle) {
					rt.Fatalf("%d bytes, %d dropped; expected %d, %d", q.bytes, q.dropped, size(), dropped)
				}
			},
		})
	})
}
