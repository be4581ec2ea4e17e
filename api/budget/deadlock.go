package budget

import (
	"cmp"
	"slices"
)

// breakDeadlockLocked refuses a request where those that hold bytes of the pool, or of the
// owner's tenant or address, all wait for more and none could go on if nobody else held any: they
// would wait for each other until their time is up, and everybody behind them. The one that holds
// least goes of those without whom another could go on, of equals the one that came last. What it held goes to the others when its request ends.
//
// It is called when a request begins to wait and when bytes were released: nothing else makes
// the last one that does not wait into one that does.
func (p *Pool) breakDeadlockLocked(o *Owner) {
	if len(p.waiting) == 0 {
		return
	}
	inPool := func(*Owner) bool { return true }
	sameTenant := func(other *Owner) bool { return other.Tenant == o.Tenant }
	sameAddress := func(other *Owner) bool { return other.Address == o.Address }
	switch {
	case p.stalled.used > 0 && p.stalled.used == p.shares.used && p.refuseOneLocked(inPool):
	case o.Tenant != "" && p.stalled.tenants[o.Tenant] > 0 && p.stalled.tenants[o.Tenant] == p.shares.tenants[o.Tenant] && p.refuseOneLocked(sameTenant):
	case o.Address.IsValid() && p.stalled.addresses[o.Address] > 0 && p.stalled.addresses[o.Address] == p.shares.addresses[o.Address]:
		p.refuseOneLocked(sameAddress)
	}
}

// refuseOneLocked refuses one of the waiting requests of some owners, unless one of them could
// go on if nobody else held any bytes. It reports whether it did.
func (p *Pool) refuseOneLocked(of func(*Owner) bool) bool {
	alone := newShares(p.shares.bytesMax, p.shares.ofTenant)
	var stalled []*waiter // one for each lease
	seen := map[*Lease]bool{}
	for _, w := range p.waiting {
		if of(&w.lease.owner) && !seen[w.lease] {
			seen[w.lease] = true
			alone.add(&w.lease.owner, w.lease.held)
			stalled = append(stalled, w)
		}
	}
	for _, w := range p.waiting {
		if of(&w.lease.owner) && alone.allowsLeaving(&w.lease.owner, w.lease.held, w.bytes, w.spare) {
			return false
		}
	}
	stalled = slices.DeleteFunc(stalled, func(w *waiter) bool { return w.lease.held == 0 })
	if len(stalled) == 0 {
		return false
	}
	slices.Reverse(stalled)
	slices.SortStableFunc(stalled, func(a, b *waiter) int { return cmp.Compare(a.lease.held, b.lease.held) })
	p.refuseLocked(stalled[p.usefulLocked(of, &alone, stalled)])
	return true
}

// usefulLocked returns the index of the one that holds least of those without which another could go on, among all that are
// stalled in order of what they hold: to refuse others would help nobody. Where there is none it is the one that
// holds most but for one.
func (p *Pool) usefulLocked(of func(*Owner) bool, alone *shares, stalled []*waiter) int {
	for i, w := range stalled {
		alone.add(&w.lease.owner, -w.lease.held)
		useful := slices.ContainsFunc(p.waiting, func(other *waiter) bool {
			return other.lease != w.lease && of(&other.lease.owner) && alone.allowsLeaving(&other.lease.owner, other.lease.held, other.bytes, other.spare)
		})
		alone.add(&w.lease.owner, w.lease.held)
		if useful {
			return i
		}
	}
	return max(0, len(stalled)-2)
}

// refuseLocked ends the wait of a request.
func (p *Pool) refuseLocked(w *waiter) {
	p.removeLocked(slices.Index(p.waiting, w))
	w.refused = true
	p.refused++
	close(w.ended)
}
