package budget

// breakDeadlockLocked refuses a request where those that hold bytes of the pool, or of the
// owner's tenant or address, all wait for more and none could go on if nobody else held any: they
// would wait for each other until their time is up, and everybody behind them. The one that holds
// least goes, of equals the one that came last. What it held goes to the others when its request ends.
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
	alone := newShares(p.shares.bytesMax)
	seen := map[*Lease]bool{}
	for _, w := range p.waiting {
		if of(&w.lease.owner) && !seen[w.lease] {
			seen[w.lease] = true
			alone.add(&w.lease.owner, w.lease.held)
		}
	}
	least := -1
	for i, w := range p.waiting {
		switch {
		case !of(&w.lease.owner):
		case alone.allows(&w.lease.owner, w.lease.held, w.bytes):
			return false
		case w.lease.held > 0 && (least < 0 || w.lease.held <= p.waiting[least].lease.held):
			least = i
		}
	}
	if least < 0 {
		return false
	}
	w := p.removeLocked(least)
	w.refused = true
	p.refused++
	close(w.ended)
	return true
}
