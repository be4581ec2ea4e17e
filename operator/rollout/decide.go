package rollout

// Decide returns the plan. It is a pure function. When a plan has no action and nothing
// changes, no later plan has one but for time that has passed.
func Decide(f Facts) Plan {
	d := &decision{Facts: &f, groups: groupsOf(&f)}
	for s, pod := range d.pods {
		if pod.Outdated && s.ordinal < s.group.Replicas {
			d.plan.Outdated++
			if d.defers(s, pod) {
				d.plan.Deferred++
			}
		}
	}
	if d.make() {
		return d.plan
	}
	if f.StoreErr == nil {
		d.addSpareNodes()
		d.desire()
		d.replaceVolumes()
		d.scale()
		d.cleanUp()
		d.replace()
	} else {
		d.scaleBlind()
	}
	d.restart()
	if f.StoreErr == nil {
		d.remakeSet()
		d.removeSets()
	}
	return d.plan
}
