package upgrade

// Component is the observed state of a component of a cluster.
type Component struct {
	Name   string
	Exists bool
	// Current reports that its pod template is the wanted one.
	Current bool
	// NewImage reports that the wanted template has another image.
	NewImage bool
	// Rolling reports that some pods are not made from the present template yet.
	Rolling bool
	// Ready reports that all pods are ready, other than those whose machine is lost.
	Ready bool
	// Serving reports that the component works with the present template: that etcd answers, and
	// that half of the nodes are ready, or a router.
	Serving bool
}

// Facts are the input of Decide.
type Facts struct {
	Components []Component // in the order in which they take new templates
	// Refused is the reason why the version is refused; nil: it is not.
	Refused error
	// Turn is the reason why the cluster has to wait for others; empty: it need not.
	Turn string
}

// Plan describes which components keep their present template, and which take the wanted one.
type Plan struct {
	Held    []Hold
	Changed []string
}

// Hold is a component that keeps its present template for now, and why.
type Hold struct {
	Component string
	Why       string
}

// Holds reports whether a component keeps its present template.
func (p *Plan) Holds(component string) bool {
	for i := range p.Held {
		if p.Held[i].Component == component {
			return true
		}
	}
	return false
}

// Decide returns the Plan that keeps the rules U1 to U4.
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

// firstUnsettled returns the first component that does not run from the wanted template with all
// pods or, if readyCounts, is not ready; empty: there is none.
func firstUnsettled(components []Component, readyCounts bool) string {
	for i := range components {
		if c := &components[i]; c.Exists && (!c.Current || c.Rolling || readyCounts && !c.Ready) {
			return c.Name
		}
	}
	return ""
}
