package upgrade

// Component is one of those that a cluster consists of, as it is seen.
type Component struct {
	Name   string
	Exists bool
	// Current: its pod template is the one that it is to have.
	Current bool
	// NewImage: the template that it is to have names another image.
	NewImage bool
	// Rolling: some of its pods are still to be made from the template that it has.
	Rolling bool
	// Ready: its pods are ready, but for those whose machine is lost.
	Ready bool
	// Serving: it does its work with the template that it has.
	Serving bool
}

// Facts are what is looked at.
type Facts struct {
	Components []Component // in the order in which they take new templates
	// Refused says why the version is refused; nil: it is not.
	Refused error
	// Turn says why it is not the cluster's turn; empty: it is.
	Turn string
}

// Plan describes which components keep the template that they have, and which take another one.
type Plan struct {
	Held    []Hold
	Changed []string
}

// Hold is a component that keeps its template for now.
type Hold struct {
	Component string
	Why       string
}

// Holds reports whether a component keeps its template.
func (p *Plan) Holds(component string) bool {
	for i := range p.Held {
		if p.Held[i].Component == component {
			return true
		}
	}
	return false
}

// Decide returns the plan.
func Decide(f Facts) Plan {
	var plan Plan
	for i := range f.Components {
		c := &f.Components[i]
		if !c.Exists || c.Current {
			continue
		}
		switch earlier := firstUnsettled(f.Components[:i], c.NewImage); {
		case f.Refused != nil:
			plan.Held = append(plan.Held, Hold{c.Name, f.Refused.Error()})
		case !c.Serving:
			plan.Changed = append(plan.Changed, c.Name)
		case f.Turn != "":
			plan.Held = append(plan.Held, Hold{c.Name, f.Turn})
		case earlier != "":
			plan.Held = append(plan.Held, Hold{c.Name, "its turn comes when " + earlier + " runs as it is to"})
		default:
			plan.Changed = append(plan.Changed, c.Name)
		}
	}
	return plan
}

// firstUnsettled returns the first component that is still to be changed or being changed, or
// that is not ready where that counts; empty: there is none.
func firstUnsettled(components []Component, readyCounts bool) string {
	for i := range components {
		if c := &components[i]; c.Exists && (!c.Current || c.Rolling || readyCounts && !c.Ready) {
			return c.Name
		}
	}
	return ""
}
