package rpc

import (
	"encoding/binary"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/tickmesh/tickmesh/api/handshake"
)

// pair is two nodes that talk to each other. Node b sends every envelope back.
type pair struct {
	out  *Peers
	back *Peers
}

// connect makes a pair; received gets what comes back to a.
func connect(b *testing.B, number int, received func(envelopes [][]byte)) *pair {
	b.Helper()
	p := &pair{}
	hello := func(node string) handshake.Hello { return nodeHello(fmt.Sprintf("%s-%d", node, number)) }
	nodeA := &fakeNode{hello: hello("a"), receive: func(_ string, envelopes [][]byte) error {
		received(envelopes)
		return nil
	}}
	nodeB := &fakeNode{hello: hello("b"), receive: func(from string, envelopes [][]byte) error {
		for _, e := range envelopes {
			p.back.Send(from, e)
		}
		return nil
	}}
	peersFor := func(node *fakeNode) *Peers {
		peers := NewPeers(PeersOptions{
			Self: node.Hello, QueueBytesMax: 64 << 20,
		})
		b.Cleanup(peers.Close)
		return peers
	}
	p.out, p.back = peersFor(nodeA), peersFor(nodeB)
	addressA, _ := serve(b, nodeA, Options{})
	addressB, _ := serve(b, nodeB, Options{})
	if err := p.out.Set([]Target{targetOf(nodeB, addressB)}); err != nil {
		b.Fatal(err)
	}
	if err := p.back.Set([]Target{targetOf(nodeA, addressA)}); err != nil {
		b.Fatal(err)
	}
	eventually(b, "up", func() bool { return p.out.Stats()[0].Up && p.back.Stats()[0].Up })
	return p
}

// BenchmarkRoundTrip sends one envelope at a time on each pair of nodes, from one
// goroutine a pair, and waits for it to come back.
func BenchmarkRoundTrip(b *testing.B) {
	for _, size := range []int{48, 3200} {
		for _, pairs := range []int{1, 10, 100} {
			b.Run(fmt.Sprintf("bytes=%d/streams=%d", size, pairs), func(b *testing.B) { roundTrips(b, size, pairs) })
		}
	}
}

func roundTrips(b *testing.B, size, count int) {
	arrived := make([]chan []byte, count)
	pairs := make([]*pair, count)
	for i := range pairs {
		arrived[i] = make(chan []byte, 1)
		pairs[i] = connect(b, i, func(envelopes [][]byte) {
			for _, e := range envelopes {
				arrived[i] <- e
			}
		})
	}
	var left atomic.Int64
	left.Store(int64(b.N))
	latencies := make([][]time.Duration, count)
	b.ResetTimer()
	var senders sync.WaitGroup
	for i, p := range pairs {
		senders.Go(func() {
			node := fmt.Sprintf("b-%d", i)
			envelope := make([]byte, size)
			for left.Add(-1) >= 0 {
				start := time.Now()
				p.out.Send(node, envelope)
				envelope = <-arrived[i]
				latencies[i] = append(latencies[i], time.Since(start))
			}
		})
	}
	senders.Wait()
	b.StopTimer()
	all := slices.Concat(latencies...)
	slices.Sort(all)
	b.ReportMetric(float64(all[len(all)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(all[len(all)*99/100].Microseconds()), "p99-µs")
	b.ReportMetric(float64(2*b.N)/b.Elapsed().Seconds(), "messages/s")
}

// BenchmarkThroughput keeps many envelopes in flight on each pair of nodes; all come
// back.
func BenchmarkThroughput(b *testing.B) {
	for _, size := range []int{48, 3200} {
		for _, pairs := range []int{1, 10, 100} {
			b.Run(fmt.Sprintf("bytes=%d/streams=%d", size, pairs), func(b *testing.B) { throughput(b, size, pairs) })
		}
	}
}

func throughput(b *testing.B, size, count int) {
	const inFlight = 64
	var got atomic.Int64
	done := make(chan struct{})
	pairs := make([]*pair, count)
	each := max(b.N/count, inFlight)
	for i := range pairs {
		var received int
		pairs[i] = connect(b, i, func(envelopes [][]byte) {
			for _, e := range envelopes {
				if received++; received+inFlight <= each { // each one that comes back goes out again
					pairs[i].out.Send(fmt.Sprintf("b-%d", i), e)
				}
			}
			if got.Add(int64(len(envelopes))) == int64(each*count) {
				close(done)
			}
		})
	}
	b.ResetTimer()
	for i, p := range pairs {
		for n := range inFlight {
			envelope := make([]byte, size)
			binary.BigEndian.PutUint64(envelope, uint64(n))
			p.out.Send(fmt.Sprintf("b-%d", i), envelope)
		}
	}
	before := processorTime(b)
	<-done
	b.StopTimer()
	b.ReportMetric(float64((processorTime(b)-before).Nanoseconds())/1000/float64(2*each*count), "cpu-µs/message")
	b.ReportMetric(float64(2*each*count)/b.Elapsed().Seconds(), "messages/s")
	b.ReportMetric(float64(2*each*count)*float64(size)/1e6/b.Elapsed().Seconds(), "MB/s")
}

// processorTime returns what this process has used of processors, in the kernel and not.
// It depends less than the elapsed time on what else the machine does.
func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
