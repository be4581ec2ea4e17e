package upgrade

import "slices"

// Component is the observed state of a component of a cluster.
type Component struct {
	Name   string
	Exists bool
	// Current reports that its pod template is the wanted one, but for Asked.
	Current bool
	// Asked reports that a person asks for its pods to be restarted, and its template is not yet
	// such as they would be made from.
	Asked bool
	// Pressing reports that the wanted template cannot wait for a maintenance window.
	Pressing bool
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
	// Closed reports that no maintenance window is open.
	Closed bool
}

// defers reports whether the wanted template of a component waits for a maintenance window.
func (f *Facts) defers(c *Component) bool {
	return f.Closed && c.Exists && !c.Current && c.Serving && !c.Pressing
}

// Plan describes which components keep their present template, and which take the wanted one.
type Plan struct {
	Held    []Hold
	Changed []string
	// Deferred are those whose wanted template waits for a maintenance window. They keep the
	// present one, but for those in Restarted.
	Deferred []string
	// Restarted are those that take their present template, changed only so that their pods
	// are restarted.
	Restarted []string
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

// Keeps reports whether a component keeps its present template as it is.
func (p *Plan) Keeps(component string) bool {
	return p.Holds(component) || slices.Contains(p.Deferred, component) && !p.Restarts(component)
}

// Restarts reports whether the pods of a component are restarted, and its wanted template waits.
func (p *Plan) Restarts(component string) bool { return slices.Contains(p.Restarted, component) }

// Decide returns the Plan that keeps the rules U1 to U5.
func Decide(f Facts) Plan {
	var plan Plan
	for i := range f.Components {
		c := &f.Components[i]
		if !c.Exists || c.Current && !c.Asked {
			continue
		}
		deferred := f.Refused == nil && f.defers(c)
		if deferred {
			plan.Deferred = append(plan.Deferred, c.Name)
		}
		switch earlier := f.firstNotReady(i); {
		case deferred && !c.Asked:
		case f.Refused != nil:
			plan.Held = append(plan.Held, Hold{c.Name, f.Refused.Error()})
		case !c.Serving:
			plan.Changed = append(plan.Changed, c.Name)
		case f.Turn != "":
			plan.Held = append(plan.Held, Hold{c.Name, f.Turn})
		case earlier != "":
			plan.Held = append(plan.Held, Hold{c.Name, "its turn comes when " + earlier + " runs as it is to"})
		case deferred:
			plan.Restarted = append(plan.Restarted, c.Name)
		default:
			plan.Changed = append(plan.Changed, c.Name)
		}
	}
	return plan
}

// firstNotReady returns the first component before one that does not run with all pods from the
// template that it is to have now or, if the one is to get a new image, is not ready; empty: there
// is none.
func (f *Facts) firstNotReady(before int) string {
	readyCounts := f.Components[before].NewImage && !f.defers(&f.Components[before])
	for i := range f.Components[:before] {
		c := &f.Components[i]
		changes := c.Asked || !c.Current && (f.Refused != nil || !f.defers(c))
		if c.Exists && (changes || c.Rolling || readyCounts && !c.Ready) {
			return c.Name
		}
	}
	return ""
}
