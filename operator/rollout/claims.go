package rollout

// marked reports whether a claim needs no mark any more.
func (d *decision) marked(claim *Claim) bool {
	return claim == nil || claim.GivenUp || claim.Terminating
}

// giveUp marks the claim of a node, then retires the node's data folders. It says
// whether there was something to do. A claim whose data folder is retired is marked
// always, so that no node finds it: which folder is on it nobody could say otherwise.
func (d *decision) giveUp(s slot, reason Reason) bool {
	node, claim := s.node(), s.claim()
	busy := false
	for _, incarnation := range d.State.Incarnations[node] {
		if incarnation.Retired {
			continue
		}
		if !d.marked(claim) {
			d.markClaim(s, claim, true, reason)
			return true
		}
		d.do(Action{Kind: Retire, Reason: reason, Node: node, Incarnation: incarnation.ID})
		busy = true
	}
	return busy
}

func (d *decision) markClaim(s slot, claim *Claim, givenUp bool, reason Reason) {
	d.do(Action{
		Kind: MarkClaim, Reason: reason, Node: s.node(), Claim: claim.Name, UID: claim.UID, GivenUp: givenUp,
	})
}

func (d *decision) deleteClaim(s slot, claim *Claim, reason Reason) {
	if !claim.Terminating {
		d.do(Action{Kind: DeleteClaim, Reason: reason, Node: s.node(), Claim: claim.Name, UID: claim.UID})
	}
}
