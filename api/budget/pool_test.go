package budget

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"runtime"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// model is what a pool should be, kept by lease: sums are taken anew at every question.
type model struct {
	bytesMax, ofTenant int64
	leases             []*Lease
	held               map[*Lease]int64
}

func (m *model) sum(of func(*Owner) bool) (n int64) {
	for _, l := range m.leases {
		if of(&l.owner) {
			n += m.held[l]
		}
	}
	return n
}

// allows is the rule of the package's documentation in other words.
func (m *model) allows(l *Lease, n int64) bool {
	all := m.sum(func(*Owner) bool { return true })
	address := m.sum(func(o *Owner) bool { return o.Address == l.owner.Address }) + n
	tenant := m.sum(func(o *Owner) bool { return o.Tenant == l.owner.Tenant }) + n
	free := m.bytesMax - all - n
	switch {
	case free < 0:
		return false
	case all == m.held[l]:
		return true
	case l.owner.Address.IsValid() && address > 4*free:
		return false
	case l.owner.Tenant != "" && tenant > m.ofTenant*free:
		return false
	}
	return true
}

// allowsLeaving reports whether there is room for n bytes and spare ones, or for n where nobody else has any.
func (m *model) allowsLeaving(l *Lease, n, spare int64) bool {
	all := m.sum(func(*Owner) bool { return true })
	return m.allows(l, n) && (spare <= m.bytesMax-all-n || all == m.held[l])
}

// stalled returns what those who wait hold.
func (m *model) stalled(waiters map[*Lease]*waiter) (n int64) {
	for l := range waiters {
		n += m.held[l]
	}
	return n
}

// A pool is compared with a model through random requests, without goroutines: what is
// granted is allowed, what waits is not, and nothing is lost.
func TestPoolModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const bytesMax = 1000
		ofTenant := rapid.SampledFrom([]int64{1, 7}).Draw(t, "of tenant")
		p := NewForTenants(bytesMax, time.Hour, ofTenant)
		m := &model{bytesMax: bytesMax, ofTenant: ofTenant, held: map[*Lease]int64{}}
		waiters := map[*Lease]*waiter{}
		settle := func() { // what was granted meanwhile
			for l, w := range waiters {
				select {
				case <-w.ended:
					if !w.refused {
						m.held[l] += w.bytes
					}
					delete(waiters, l)
				default:
				}
			}
		}
		owner := rapid.Custom(func(t *rapid.T) Owner {
			o := Owner{Tenant: rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "tenant")}
			if n := rapid.IntRange(0, 3).Draw(t, "address"); n > 0 {
				o.Address = netip.AddrFrom4([4]byte{10, 0, 0, byte(n)})
			}
			return o
		})
		begin := func(t *rapid.T) *Lease {
			l := p.Lease(owner.Draw(t, "owner"))
			m.leases = append(m.leases, &l)
			return &l
		}
		pick := func(t *rapid.T) *Lease {
			if len(m.leases) == 0 {
				t.Skip("no leases")
			}
			return rapid.SampledFrom(m.leases).Draw(t, "lease")
		}
		t.Repeat(map[string]func(*rapid.T){
			"begin": func(t *rapid.T) { begin(t) },
			"acquire": func(t *rapid.T) {
				l, n := pick(t), rapid.Int64Range(1, bytesMax+10).Draw(t, "bytes")
				if waiters[l] != nil {
					t.Skip("it waits")
				}
				spare := rapid.SampledFrom([]int64{0, 0, 250}).Draw(t, "spare")
				p.mu.Lock()
				defer p.mu.Unlock()
				if p.takeLocked(l, n, spare) {
					if !m.allowsLeaving(l, n, spare) {
						t.Fatalf("%d bytes are not to be had", n)
					}
					m.held[l] += n
					return
				}
				w, err := p.enqueueLocked(l, n, spare)
				if (err != nil) != (m.held[l]+n > bytesMax) {
					t.Fatal(err)
				}
				if err == nil {
					waiters[l] = w
				}
			},
			"release": func(t *rapid.T) {
				l := pick(t)
				if m.held[l] == 0 {
					t.Skip("it holds nothing")
				}
				n := rapid.Int64Range(1, m.held[l]).Draw(t, "bytes")
				m.held[l] -= n
				l.Release(n)
			},
			"charge": func(t *rapid.T) {
				l, n := pick(t), rapid.Int64Range(-bytesMax/4, bytesMax/4).Draw(t, "bytes")
				n = max(n, -m.held[l])
				room := n <= 0 || m.allows(l, n)
				if room {
					m.held[l] += n
				}
				if l.Charge(n) != room {
					t.Fatalf("room for %d bytes: %t", n, !room)
				}
			},
			"give up": func(t *rapid.T) {
				l := pick(t)
				if w := waiters[l]; w != nil {
					settle()
					if waiters[l] == nil {
						t.Skip("its wait has ended")
					}
					delete(waiters, l)
					if err := p.giveUp(w); !errors.Is(err, ErrFull) {
						t.Fatal(err)
					}
				}
			},
			"": func(t *rapid.T) {
				settle()
				all := m.sum(func(*Owner) bool { return true })
				if s := p.Stats(); s.Used != all || s.Used > bytesMax || s.Waiting != len(waiters) {
					t.Fatalf("%+v, want %d used and %d waiting", s, all, len(waiters))
				}
				for l, w := range waiters {
					if l.held != m.held[l] {
						t.Fatalf("a lease of %d holds %d", m.held[l], l.held)
					}
					if m.allowsLeaving(l, w.bytes, w.spare) {
						t.Fatalf("%d bytes could be granted and wait", w.bytes)
					}
				}
				if all > 0 && len(waiters) > 0 && m.sum(func(o *Owner) bool { return true }) == m.stalled(waiters) {
					t.Fatalf("%d requests wait for each other", len(waiters))
				}
			},
		})
		for p.Stats().Used > 0 { // what is closed is granted to others, once each
			for _, l := range m.leases {
				l.Close()
			}
		}
		if s := p.Stats(); s.Waiting != 0 || len(p.shares.addresses)+len(p.shares.tenants) != 0 {
			t.Fatalf("at the end %+v", s)
		}
	})
}

// Addresses, or tenants, that take all they can together leave room for one that comes next.
func TestShares(t *testing.T) {
	const bytesMax = 1 << 20
	for _, c := range []struct{ addresses, tenants int }{{1, 0}, {2, 0}, {8, 0}, {0, 1}, {0, 3}} {
		t.Run(fmt.Sprintf("%d addresses, %d tenants", c.addresses, c.tenants), func(t *testing.T) {
			p := New(bytesMax, time.Hour)
			var busy []*Lease
			add := func(o Owner) {
				for range 2 { // not one alone, who may have all
					l := p.Lease(o)
					busy = append(busy, &l)
				}
			}
			for i := range c.addresses {
				add(Owner{Address: netip.AddrFrom4([4]byte{10, 0, 1, byte(i)})})
			}
			for i := range c.tenants {
				add(Owner{Address: netip.AddrFrom4([4]byte{10, 0, 2, byte(i)}), Tenant: fmt.Sprint(i)})
			}
			for more := true; more; {
				more = false
				for _, l := range busy {
					more = l.TryAcquire(1<<8) || more
				}
			}
			newcomer := p.Lease(Owner{Address: netip.AddrFrom4([4]byte{10, 9, 9, 9}), Tenant: "new"})
			left := int64(bytesMax / (1 + addressMultiple*c.addresses + tenantMultiple*c.tenants))
			if n := left/2 - 1<<9; !newcomer.TryAcquire(n) {
				t.Errorf("no room for %d of the %d bytes that are left: %+v", n, left, p.Stats())
			}
		})
	}
}

// What is alone may take all, and what waits gets its bytes when they are free.
func TestAcquireWaits(t *testing.T) {
	p := New(100, time.Hour)
	ctx := context.Background()
	large := p.Lease(Owner{Address: netip.AddrFrom4([4]byte{10, 0, 0, 1})})
	if err := large.Acquire(ctx, 60); err != nil {
		t.Fatal(err)
	}
	if err := large.Acquire(ctx, 40); err != nil {
		t.Fatal(err)
	}
	small := p.Lease(Owner{Address: netip.AddrFrom4([4]byte{10, 0, 0, 2})})
	acquired := make(chan error)
	go func() { acquired <- small.Acquire(ctx, 10) }()
	for p.Stats().Waiting == 0 {
		time.Sleep(time.Millisecond)
	}
	large.Close()
	if err := <-acquired; err != nil || small.Held() != 10 {
		t.Fatalf("%v, %d bytes", err, small.Held())
	}
	if err := large.Acquire(ctx, 101); !errors.Is(err, ErrTooLarge) {
		t.Fatal(err)
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	if err := large.Acquire(ended, 95); !errors.Is(err, ErrFull) {
		t.Fatal(err)
	}
	short := New(10, time.Millisecond)
	a, b := short.Lease(Owner{}), short.Lease(Owner{})
	if err := errors.Join(a.Acquire(ctx, 10), a.Acquire(ctx, 0)); err != nil {
		t.Fatal(err)
	}
	if err := b.Acquire(ctx, 1); !errors.Is(err, ErrFull) {
		t.Fatal(err)
	}
	if s := short.Stats(); s.Refused != 1 || s.Waiting != 0 {
		t.Fatalf("%+v", s)
	}
	var unbounded *Lease
	if unbounded.Acquire(ctx, 1<<40) != nil || !unbounded.TryAcquire(1) || unbounded.Held() != 0 {
		t.Fatal("nil is without bounds")
	}
}

// Requests of one tenant that grow at once do not wait for each other until their time is up:
// some are refused, the others end, and who comes next is served.
func TestGrowingTogether(t *testing.T) {
	const step, steps, bytesMax = 1 << 10, 16, 40 << 10 // two can be whole, the tenant may hold half
	p := New(bytesMax, time.Hour)
	whole := make(chan bool)
	for n := range 8 {
		l := p.Lease(Owner{Tenant: "busy", Address: netip.AddrFrom4([4]byte{10, 0, 0, byte(n)})})
		if err := l.Acquire(t.Context(), 2*step); err != nil {
			t.Fatal(err)
		}
		go func() {
			var err error
			for held := 2; err == nil && held < steps; held++ {
				err = l.Acquire(t.Context(), step)
			}
			l.Close()
			whole <- err == nil
		}()
	}
	ended, served := 0, 0
	for range 8 {
		select {
		case ok := <-whole:
			if ended++; ok {
				served++
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("%d of 8 have ended: %+v", ended, p.Stats())
		}
	}
	if served == 0 {
		t.Error("all are refused")
	}
	if s := p.Stats(); s.Used != 0 || s.Waiting != 0 || p.stalled.used != 0 || len(p.stalled.tenants)+len(p.stalled.addresses) != 0 {
		t.Errorf("at the end %+v", s)
	}
}

// TestUselessRefusals: where two large requests wait for each other, one of them goes, not the many small ones that wait, too.
func TestUselessRefusals(t *testing.T) {
	p := NewForTenants(1000, time.Hour, 7)
	type asked struct {
		lease *Lease
		ended chan error
	}
	begin := func(bytes int64) *Lease {
		l := p.Lease(Owner{Tenant: "one"})
		if err := l.Acquire(t.Context(), bytes); err != nil {
			t.Fatal(err)
		}
		return &l
	}
	ask := func(l *Lease, bytes int64) asked {
		a, waiting := asked{l, make(chan error, 1)}, p.Stats().Waiting
		go func() { a.ended <- l.Acquire(t.Context(), bytes) }()
		for p.Stats().Waiting == waiting && p.Stats().Refused == 0 {
			runtime.Gosched()
		}
		return a
	}
	first, second := begin(400), begin(420)
	var small []asked
	for range 20 {
		small = append(small, ask(begin(1), 600))
	}
	larger := ask(second, 200)
	refused := ask(first, 200)
	if err := <-refused.ended; !errors.Is(err, ErrFull) {
		t.Fatal(err)
	}
	first.Close()
	if err := <-larger.ended; err != nil {
		t.Fatal(err)
	}
	if s := p.Stats(); s.Refused != 1 || s.Waiting != len(small) {
		t.Errorf("%+v", s)
	}
	second.Close()
	for _, a := range small {
		if err := <-a.ended; err != nil {
			t.Fatal(err)
		}
		a.lease.Close()
	}
}

func TestAddressOf(t *testing.T) {
	for _, c := range []struct {
		remote net.Addr
		want   string
	}{
		{&net.TCPAddr{IP: net.ParseIP("10.1.2.3"), Port: 9}, "10.1.2.3"},
		{&net.UDPAddr{IP: net.ParseIP("::ffff:10.1.2.3"), Port: 9}, "10.1.2.3"},
		{&net.TCPAddr{IP: net.ParseIP("2001:db8:1:2:3:4:5:6"), Port: 9}, "2001:db8:1:2::"},
		{&net.UnixAddr{Name: "x"}, "invalid IP"},
		{nil, "invalid IP"},
	} {
		if got := AddressOf(c.remote).String(); got != c.want {
			t.Errorf("%v: %s, want %s", c.remote, got, c.want)
		}
	}
}

func BenchmarkAcquire(b *testing.B) {
	p := New(1<<30, time.Second)
	owner := Owner{Address: netip.AddrFrom4([4]byte{10, 0, 0, 1}), Tenant: "a"}
	b.ReportAllocs()
	for b.Loop() {
		l := p.Lease(owner)
		_ = l.Acquire(context.Background(), 1<<10)
		l.Close()
	}
}
